"""Register tokens: a few learned tokens that stand in front of the grid and gather what the whole input is like.

They take the first places of extra planes along the grid's first axis, and every convolution, norm and perceptron of a
stage treats them as voxels; what is left of the planes starts at zero. So R registers cost `ceil(R / plane)` planes:
one in 48 at the finest stage of a 96^3 window, one in three where the grid has shrunk to 3^3.

Source: arXiv:2607.19378, the section on input dependence.
"""

import math

import torch
from torch import Tensor, nn


class Registers(nn.Module):
    """Learned tokens put in front of a grid, channels last.

    In an encoder whose grid shrinks from stage to stage, the registers that come out of one stage are carried through
    a linear map to the next one's width and added to the next one's own learned tokens.

    Args:
        count: Number of tokens, R.
        dim: Channels.
    """

    def __init__(self, count: int, dim: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(count, dim) * 0.02)

    def prepend(self, x: Tensor, carried: Tensor | None = None) -> Tensor:
        """From `(batch, *grid, dim)` to the grid with planes in front; `carried` is `(batch, count, dim)`."""
        tokens = self.tokens.to(x.dtype).expand(len(x), -1, -1)
        if carried is not None:
            tokens = tokens + carried
        planes = self._planes(x)
        blank = x.new_zeros(len(x), planes * math.prod(x.shape[2:-1]) - tokens.shape[1], x.shape[-1])
        front = torch.cat((tokens, blank), 1).view(len(x), planes, *x.shape[2:])
        return torch.cat((front, x), 1)

    def split(self, x: Tensor, samples: int) -> tuple[Tensor, Tensor]:
        """Take the grid's last `samples` planes, and the registers `(batch, count, dim)`."""
        return x[:, x.shape[1] - samples :], x.flatten(1, -2)[:, : len(self.tokens)]

    def _planes(self, x: Tensor) -> int:
        return math.ceil(len(self.tokens) / math.prod(x.shape[2:-1]))


class RegisterPool(nn.Module):
    """A learned softmax weighting of the registers: from `(batch, *grid with planes, dim)` to `(batch, dim)`.

    Registers are the first `count` tokens of the grid in order of memory, wherever they stand in a network.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(count))

    def forward(self, x: Tensor) -> Tensor:
        """The weighted mean."""
        registers = x.flatten(1, -2)[:, : len(self.scores)]
        return torch.einsum("r,brd->bd", self.scores.softmax(0).to(x.dtype), registers)
