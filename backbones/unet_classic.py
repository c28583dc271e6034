"""The U-net that surrogates are measured against: two convolutions, batch norm and tanh a level, max pooling between.

On periodic axes its convolutions wrap round, where The Well's are surrounded by zeros everywhere; on other axes the two
are the same network.

Source: Ronneberger et al. 2015, arXiv:1505.04597; in this form Takamoto et al. 2022, PDEBench, arXiv:2210.07182, and
the benchmark of The Well, arXiv:2412.00568 (`UNetClassic`).
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from ..kernels import Boundary
from .convolution import TRANSPOSED, Convolution

POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class UNetClassic(nn.Module):
    """From `(batch, *grid, channels_in)` to `(batch, *grid, channels_out)`.

    Args:
        channels_in: Fields of all known frames, and whatever else is known at each sample.
        channels_out: Fields of the next frame.
        boundary: What lies outside the grid, one for each of its one to three axes.
        dim: Channels of the finest level; each coarser one has twice as many.
        depth: How often the grid is halved; its sides are multiples of `2^depth`.
    """

    def __init__(
        self, channels_in: int, channels_out: int, boundary: Sequence[Boundary], *, dim: int = 48, depth: int = 4
    ) -> None:
        super().__init__()
        axis, widths = len(boundary) - 1, [dim * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(_Level(a, b, boundary) for a, b in pairwise((channels_in, *widths)))
        self.pool = POOLS[axis](2)
        coarse_first = list(pairwise(reversed(widths)))
        self.spread = nn.ModuleList(TRANSPOSED[axis](a, b, 2, stride=2) for a, b in coarse_first)
        self.up = nn.ModuleList(_Level(2 * b, b, boundary) for _, b in coarse_first)
        self.out = nn.Linear(dim, channels_out)

    def forward(self, x: Tensor) -> Tensor:
        """The output for fields `(batch, *grid, channels_in)`."""
        x, kept = self.down[0](x.movedim(-1, 1)), []
        for level in self.down[1:]:
            kept.append(x)
            x = level(self.pool(x))
        for spread, level in zip(self.spread, self.up, strict=True):
            x = level(torch.cat((spread(x), kept.pop()), 1))
        return self.out(x.movedim(1, -1))


class _Level(nn.Sequential):
    """Twice a convolution, batch norm and tanh."""

    def __init__(self, channels_in: int, channels: int, boundary: Sequence[Boundary]) -> None:
        norm = NORMS[len(boundary) - 1]
        first = Convolution(channels_in, channels, boundary, bias=False)
        second = Convolution(channels, channels, boundary, bias=False)
        super().__init__(first, norm(channels), nn.Tanh(), second, norm(channels), nn.Tanh())
