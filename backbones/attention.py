"""Self-attention over the positions of a grid, of any number of axes: to all, or to those in a window that slides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GlobalAttention(nn.Module):
    """Every position attends to every other, N^2 pairs, or to those that it sees.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.

    Args:
        dim: Channels in and out.
        heads: Heads; they divide `dim`.
        positions: Tells queries and keys where they stand, `positions(x, grid)`, such as `AxialRotary`; without it the
            order of positions is not seen, only their features.
        sees: Which positions each one sees, `sees(grid, device)` -> `(positions, positions)`, such as `SlidingWindow`;
            None for all.

    Raises:
        ValueError: They do not.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        positions: nn.Module | None = None,
        sees: Callable[[Sequence[int], torch.device], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"{heads} heads do not divide {dim} channels")
        self.heads = heads
        self.project = nn.Linear(dim, 3 * dim)
        self.positions, self.sees = positions, sees
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """From `(batch, *grid, dim)` to the same."""
        q, k, v = self.project(x.flatten(1, -2)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.positions is not None:
            q, k = (self.positions(one, x.shape[1:-1]) for one in (q, k))
        seen = None if self.sees is None else self.sees(x.shape[1:-1], x.device)
        mixed = F.scaled_dot_product_attention(q, k, v, seen)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


@dataclass(frozen=True)
class SlidingWindow:
    """Each position sees those in a box about itself, by a mask: all pairs are computed, so it saves no time.

    Args:
        size: Samples of the box along each axis, odd.

    Raises:
        ValueError: They are even.
    """

    size: int

    def __post_init__(self) -> None:
        if self.size % 2 == 0:
            raise ValueError(f"a window about a position has an odd size, got {self.size}")

    def __call__(self, grid: Sequence[int], device: torch.device) -> Tensor:
        """Whether the row's position sees the column's, `(positions, positions)`."""
        axes = [torch.arange(n, device=device) for n in grid]
        near = [(axis[:, None] - axis).abs() <= self.size // 2 for axis in axes]
        return reduce(torch.kron, [one.to(torch.uint8) for one in near]).bool()
