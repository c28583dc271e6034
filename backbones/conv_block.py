"""The convolutional blocks of the decoder, MONAI's `UnetrBasicBlock` and `UnetrUpBlock` by name and by number.

The parameters bear MONAI's names and the results are the same. What differs is how they come about: everything stays
channels-last, convolutions of one voxel are matrix products, and a block takes the two halves of its input apart
instead of joined, `conv([a, b]) = conv_a(a) + conv_b(b)`, so that the joined tensor, the largest of the network, never
exists.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels import instance_norm

SLOPE = 0.01  # of the leaky ReLU


class _Norm(nn.Module):
    """Instance norm, with a residual and a leaky ReLU where wanted; no parameters unless affine."""

    def __init__(self, channels: int, affine: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None

    def forward(self, x: Tensor, *, residual: Tensor | None = None, slope: float = 1.0) -> Tensor:
        """From `(batch, channels, *grid)` to the same, channels-last in memory."""
        return instance_norm(x, self.weight, self.bias, residual=residual, slope=slope)


class _Conv(nn.Module):
    """A convolution without bias under the name MONAI gives it, `conv.weight`."""

    def __init__(self, axes: int, channels_in: int, channels: int, taps: int) -> None:
        super().__init__()
        kind = (nn.Conv2d, nn.Conv3d)[axes - 2]
        self.conv = kind(channels_in, channels, taps, padding=taps // 2, bias=False)
        self.conv.to(memory_format=_layout(axes))  # pyright: ignore[reportCallIssue]

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        """Convolve parts that together have `channels_in` channels."""
        weights = self.conv.weight.split([part.shape[1] for part in parts], 1)
        y = self._one(parts[0], weights[0])
        for part, weight in zip(parts[1:], weights[1:], strict=True):
            y = y.add_(self._one(part, weight))
        return y

    def _one(self, x: Tensor, weight: Tensor) -> Tensor:
        if weight[0, 0].numel() == 1:
            return F.linear(x.movedim(1, -1), weight.flatten(1)).movedim(-1, 1)
        convolve = F.conv3d if x.ndim == 5 else F.conv2d
        if x.shape[1] == 1:
            x, weight = _with_zero_channel(x), F.pad(weight, (0, 0) * (x.ndim - 2) + (0, 1))
        weight = weight.contiguous(memory_format=_layout(x.ndim - 2))
        if torch.is_grad_enabled() and x.device.type == "cpu" and x.ndim == 5 and x.shape[2] == 2:
            # oneDNN's bfloat16 gradient by the weight reads memory that nobody wrote where the first axis has length 2.
            with torch.autocast("cpu", enabled=False):
                return convolve(x.float(), weight.float(), padding=self.conv.padding).to(x.dtype)
        return convolve(x, weight, padding=self.conv.padding)


def _layout(axes: int) -> torch.memory_format:
    return torch.channels_last_3d if axes == 3 else torch.channels_last


def _with_zero_channel(x: Tensor) -> Tensor:
    """One channel has no layout of its own, and convolution would answer in channels-first; two have one."""
    return F.pad(x.movedim(1, -1), (0, 1)).movedim(-1, 1)


class ResidualConvolution(nn.Module):
    """Two 3-tap convolutions with instance norm and leaky ReLU, and a residual round them.

    Args:
        axes: 2 or 3.
        channels_in: Channels of all parts of the input together.
        channels: Channels of the output.
        affine: Whether the norms learn a scale and an offset.
    """

    def __init__(self, axes: int, channels_in: int, channels: int, affine: bool = False) -> None:
        super().__init__()
        self.conv1 = _Conv(axes, channels_in, channels, 3)
        self.conv2 = _Conv(axes, channels, channels, 3)
        self.norm1 = _Norm(channels, affine)
        self.norm2 = _Norm(channels, affine)
        self.conv3 = _Conv(axes, channels_in, channels, 1) if channels_in != channels else None
        self.norm3 = _Norm(channels, affine) if channels_in != channels else None

    def forward(self, *parts: Tensor) -> Tensor:
        """From parts `(batch, *, *grid)`, channels-last in memory, to `(batch, channels, *grid)`."""
        y = self.conv2([self.norm1(self.conv1(parts), slope=SLOPE)])
        residual = parts[0]
        if self.conv3 is not None and self.norm3 is not None:
            residual = self.norm3(self.conv3(parts))
        return self.norm2(y, residual=residual, slope=SLOPE)


class EncoderBlock(nn.Module):
    """A residual convolution on its own, `UnetrBasicBlock`."""

    def __init__(self, axes: int, channels_in: int, channels: int, affine: bool = False) -> None:
        super().__init__()
        self.layer = ResidualConvolution(axes, channels_in, channels, affine)

    def forward(self, x: Tensor) -> Tensor:
        """From `(batch, channels_in, *grid)` to `(batch, channels, *grid)`."""
        return self.layer(x)


class DecoderBlock(nn.Module):
    """Twice as fine, then a residual convolution together with the skip connection, `UnetrUpBlock`."""

    def __init__(self, axes: int, channels_in: int, channels: int, affine: bool = False) -> None:
        super().__init__()
        kind = (nn.ConvTranspose2d, nn.ConvTranspose3d)[axes - 2]
        self.transp_conv = nn.ModuleDict({"conv": kind(channels_in, channels, 2, stride=2, bias=False)})
        self.conv_block = ResidualConvolution(axes, 2 * channels, channels, affine)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """From `(batch, channels_in, *grid)` and the skip on the finer grid to `(batch, channels, *finer grid)`."""
        return self.conv_block(self.transp_conv["conv"](x), skip)


class Head(nn.Module):
    """Logits of each voxel, `UnetOutBlock`."""

    def __init__(self, axes: int, channels_in: int, channels: int) -> None:
        super().__init__()
        kind = (nn.Conv2d, nn.Conv3d)[axes - 2]
        self.conv = nn.ModuleDict({"conv": kind(channels_in, channels, 1)})

    def forward(self, x: Tensor) -> Tensor:
        """From `(batch, channels_in, *grid)` to `(batch, channels, *grid)`."""
        weight, bias = self.conv["conv"].parameters()
        return F.linear(x.movedim(1, -1), weight.flatten(1), bias).movedim(-1, 1)
