"""The pre-norm residual block round a mixer of positions.

x = x + mixer(norm1(x));    x = x + mlp(norm2(x))

The first sum is a part: `UniversalInterpolation` takes its place where a deep stack would lose what it has read.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Perceptron(nn.Module):
    """Two linear layers with a GELU between, each position by itself; its weights have MONAI's names."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(dim, hidden)
        self.linear2 = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        """From `(..., dim)` to the same."""
        return self.linear2(F.gelu(self.linear1(x)))


class DropPath(nn.Module):
    """In training a sample of the batch is lost with this chance, and the others grow to make up for it."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self.chance = chance

    def forward(self, x: Tensor) -> Tensor:
        """From `(batch, ...)` to the same."""
        return x * F.dropout(x.new_ones(len(x), *[1] * (x.ndim - 1)), self.chance, self.training)


class ResidualBlock(nn.Module):
    """A mixer of positions and a perceptron, each with a norm before and a residual round it.

    Args:
        dim: Channels.
        mixer: From `(batch, *grid, dim)` to the same.
        mlp_ratio: Width of the perceptron's hidden layer, as a multiple of `dim`.
        drop_path: Chance in training that a sample skips a residual branch.
        residual: From x and the mixer's branch to what goes on.
    """

    def __init__(
        self,
        dim: int,
        mixer: nn.Module,
        *,
        mlp_ratio: float = 4.0,
        drop_path: float = 0.0,
        residual: Callable[[Tensor, Tensor], Tensor] = torch.add,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.mixer = mixer
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Perceptron(dim, int(dim * mlp_ratio))
        self.drop_path = DropPath(drop_path) if drop_path > 0 else nn.Identity()
        self.residual = residual

    def forward(self, x: Tensor, *condition: Tensor) -> Tensor:
        """From `(batch, *grid, dim)` to the same; a condition is the mixer's."""
        x = self.residual(x, self.drop_path(self.mixer(self.norm1(x), *condition)))
        return x + self.drop_path(self.mlp(self.norm2(x)))
