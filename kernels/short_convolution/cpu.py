"""PyTorch's depthwise convolution forwards, and a way back that is as fast."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def apply(x: Tensor, weight: Tensor, padding: Sequence[int]) -> Tensor:
    """The convolution of `(batch, *grid, channels)`."""
    dtype, x = x.dtype, x.movedim(-1, 1)  # a view whose memory is channels-last, which the depthwise kernels like best
    if x.shape[1] == 1 and dtype == torch.bfloat16:
        x = x.float()  # oneDNN gives zeros for one channel in bfloat16 where the first axis has length 1
    y = CONVOLVE[x.ndim - 2](x, weight.to(x.dtype), padding=tuple(padding), groups=x.shape[1])
    return y.to(dtype).movedim(1, -1).contiguous()


def gradients(dy: Tensor, x: Tensor, weight: Tensor, padding: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Gradients by x and by the weight."""
    taps = weight.shape[2:]
    back = [t - 1 - p for t, p in zip(taps, padding, strict=True)]
    dx = apply(_cut(dy, back), weight.flip(*range(2, weight.ndim)), [max(0, b) for b in back])
    real = torch.float64 if x.dtype == torch.float64 else torch.float32
    ones, zeros = [1] * len(taps), [0] * len(taps)
    _, dweight, _ = torch.ops.aten.convolution_backward(
        *(each.to(real).movedim(-1, 1) for each in (dy, x)),
        *(weight.to(real), None, ones, list(padding), ones, False, zeros, x.shape[-1], [False, True, False]),
    )
    return dx, dweight.to(weight.dtype)


def _cut(dy: Tensor, back: Sequence[int]) -> Tensor:
    """Where the padding was wider than the taps, the outermost results saw zeros alone."""
    for axis, b in enumerate(back, start=1):
        if b < 0:
            dy = dy.narrow(axis, -b, dy.shape[axis] + 2 * b)
    return dy
