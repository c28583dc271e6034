"""A convolution with a few taps that mixes channels and knows what lies outside the grid."""

from collections.abc import Sequence

from torch import Tensor, nn

from ..kernels import Boundary
from .hyena import wrap

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


class Convolution(nn.Module):
    """`nn.ConvNd` that keeps the grid and wraps round on periodic axes.

    Args:
        channels_in: Channels in.
        channels: Channels out.
        boundary: One for each axis.
        taps: Taps along each axis, an odd number.
        bias: Whether a constant is added.
    """

    def __init__(
        self, channels_in: int, channels: int, boundary: Sequence[Boundary], taps: int = 3, *, bias: bool = True
    ) -> None:
        super().__init__()
        self.boundary, self.reach = tuple(boundary), taps // 2
        zeros = tuple(self.reach * (edge == "zero") for edge in boundary)
        kind = CONVOLUTIONS[len(boundary) - 1]
        self.conv = kind(channels_in, channels, taps, padding=zeros, bias=bias)  # pyright: ignore[reportArgumentType]

    def forward(self, x: Tensor) -> Tensor:
        """From `(batch, channels_in, *grid)` to `(batch, channels, *grid)`."""
        for axis, edge in enumerate(self.boundary, start=2):
            if edge == "periodic":
                x = wrap(x, self.reach, axis)
        return self.conv(x)
