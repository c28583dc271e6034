"""The definition of `instance_norm`, by autograd in the arguments' own type."""

import torch
import torch.nn.functional as F
from torch import Tensor


def instance_norm_reference(
    x: Tensor, scale: Tensor | None, offset: Tensor | None, *, residual: Tensor | None, slope: float, epsilon: float
) -> Tensor:
    """As `instance_norm`."""
    expand = (..., *(None for _ in x.shape[2:]))
    centred = x - _mean(x)
    y = centred * torch.rsqrt(_mean(centred.square()) + epsilon)
    if scale is not None:
        y = y * scale[expand]
    if offset is not None:
        y = y + offset[expand]
    if residual is not None:
        y = y + residual
    return F.leaky_relu(y, slope)


def _mean(x: Tensor) -> Tensor:
    """Over the grid, axis by axis: programs made of this sum few terms at a time, and float32 is enough for them."""
    for axis in range(2, x.ndim):
        x = x.mean(axis, keepdim=True)
    return x
