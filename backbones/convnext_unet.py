r"""The U-net of ConvNeXt blocks that surrogates are measured against, The Well's CNextU-net.

A block, with a depthwise convolution of seven taps along each axis::

    x = x + gamma * shrink( GELU( widen( LayerNorm( depthwise(x) ) ) ) )

The benchmark's own code leaves some of its network unused: its norms between levels divide by the length of the channel
vector and drop their bias, and the skip of the finest level goes nowhere. Here the norms are layer norms, the finest
skip is read by the last convolution, and on periodic axes convolutions wrap round.

Source: Liu et al. 2022, arXiv:2201.03545; the benchmark of The Well, arXiv:2412.00568 (`UNetConvNext`).
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels import Boundary
from .convolution import CONVOLUTIONS, TRANSPOSED, Convolution
from .hyena import ShortConvolution

TAPS = 7
FIRST_GAMMA = 1e-6


class ConvNextUNet(nn.Module):
    """From `(batch, *grid, channels_in)` to `(batch, *grid, channels_out)`.

    Args:
        channels_in: Fields of all known frames, and whatever else is known at each sample.
        channels_out: Fields of the next frame.
        boundary: What lies outside the grid, one for each of its one to three axes.
        dim: Channels of the finest level; each coarser one has twice as many.
        depth: How often the grid is halved; its sides are multiples of `2^depth`.
        blocks: Blocks of a level on the way down, and as many on the way up but for the finest.
    """

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        boundary: Sequence[Boundary],
        *,
        dim: int = 42,
        depth: int = 4,
        blocks: int = 2,
    ) -> None:
        super().__init__()
        self.first = Convolution(channels_in, dim, boundary)
        widths = [dim * 2**level for level in range(depth + 1)]
        fine_first, coarse_first = list(pairwise(widths)), list(pairwise(reversed(widths)))
        self.down = nn.ModuleList(_blocks(fine, boundary, blocks) for fine, _ in fine_first)
        conv, spread = CONVOLUTIONS[len(boundary) - 1], TRANSPOSED[len(boundary) - 1]
        self.coarser = nn.ModuleList(_Resample(a, conv(a, b, 2, stride=2)) for a, b in fine_first)
        self.neck = ConvNextBlock(widths[-1], boundary)
        self.up = nn.ModuleList(_blocks(coarse, boundary, blocks) for coarse, _ in coarse_first)
        self.finer = nn.ModuleList(_Resample(a, spread(a, b, 2, stride=2)) for a, b in coarse_first)
        joins = [nn.Linear(2 * fine, fine) for _, fine in coarse_first[:-1]]
        self.join = nn.ModuleList((*joins, nn.Identity()))  # the finest skip goes to the last convolution as it is
        self.last = Convolution(2 * dim, channels_out, boundary)

    def forward(self, x: Tensor) -> Tensor:
        """The output for fields `(batch, *grid, channels_in)`."""
        x, kept = _channels_first(self.first, x), []
        for blocks, coarser in zip(self.down, self.coarser, strict=True):
            kept.append(x)
            x = coarser(blocks(x))
        x = self.neck(x)
        for blocks, finer, join in zip(self.up, self.finer, self.join, strict=True):
            x = join(torch.cat((finer(blocks(x)), kept.pop()), -1))
        return _channels_first(self.last, x)


class ConvNextBlock(nn.Module):
    """A depthwise convolution and a perceptron with one residual round both; `(batch, *grid, dim)` to the same."""

    def __init__(self, dim: int, boundary: Sequence[Boundary]) -> None:
        super().__init__()
        self.depthwise = ShortConvolution(dim, boundary, TAPS)
        self.bias = nn.Parameter(torch.zeros(dim))
        self.norm = nn.LayerNorm(dim)
        self.widen, self.shrink = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), FIRST_GAMMA))

    def forward(self, x: Tensor) -> Tensor:
        """The block's equation."""
        mixed = self.norm(self.depthwise(x) + self.bias)
        return x + self.gamma * self.shrink(F.gelu(self.widen(mixed)))


class _Resample(nn.Module):
    """Layer norm, then a convolution that changes the grid."""

    def __init__(self, dim: int, conv: nn.Module) -> None:
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(dim), conv

    def forward(self, x: Tensor) -> Tensor:
        """From `(batch, *grid, dim)` to the grid and channels of the convolution."""
        return _channels_first(self.conv, self.norm(x))


def _blocks(dim: int, boundary: Sequence[Boundary], count: int) -> nn.Sequential:
    return nn.Sequential(*(ConvNextBlock(dim, boundary) for _ in range(count)))


def _channels_first(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x.movedim(-1, 1)).movedim(1, -1)
