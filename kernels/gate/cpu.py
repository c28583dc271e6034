"""The gate some rows at a time, so that its dozen element-wise steps meet their numbers in cache."""

from collections.abc import Iterator

import torch
from torch import Tensor

CACHE_BYTES = 1 << 20  # of one operand's rows


def apply(x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float) -> Tensor:
    """The gate; `x`, `control` `(..., channels)`."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    flat, x, control = y.view(-1, x.shape[-1]), _rows(x), _rows(control)
    for rows in _chunks(x):
        u, _, _, _ = _product(x[rows], control[rows], activation, unit, epsilon)
        u.mul_(_inverse_rms(u, epsilon))
        flat[rows] = u if scale is None else u.mul_(scale)
    return y


def gradients(
    dy: Tensor, x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by x, control and scale (empty without one)."""
    dx, dcontrol = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (x, control))
    flat_dx, flat_dcontrol = dx.view(-1, x.shape[-1]), dcontrol.view(-1, x.shape[-1])
    dy, x, control = _rows(dy), _rows(x), _rows(control)
    real = _real_type(x)
    dscale = torch.zeros(0 if scale is None else x.shape[-1], dtype=real, device=x.device)
    for rows in _chunks(x):
        u, n, length, opened = _product(x[rows], control[rows], activation, unit, epsilon)
        inverse = _inverse_rms(u, epsilon)
        g = dy[rows].to(real)
        if scale is not None:
            dscale += (g * u).mul_(inverse).sum(0)
            g = g * scale
        du = (g - u * (inverse.square() * (g * u).mean(-1, keepdim=True))).mul_(inverse)
        flat_dcontrol[rows] = du * n * _slope(control[rows].to(real), opened, activation)
        dn = du.mul_(opened)
        flat_dx[rows] = dn if length is None else (dn - n * (dn * n).sum(-1, keepdim=True)).mul_(length)
    return dx, dcontrol, dscale if scale is None else dscale.to(scale.dtype)


def _product(
    x: Tensor, control: Tensor, activation: str, unit: bool, epsilon: float
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """The product, its left factor, the inverse length of x where it is divided out, and the opened gate."""
    real = _real_type(x)
    n, control = x.to(real), control.to(real)
    length = None
    if unit:
        length = torch.rsqrt(n.square().sum(-1, keepdim=True) + epsilon)
        n = n * length
    opened = torch.sigmoid(control)
    if activation == "silu":
        opened.mul_(control)
    return n * opened, n, length, opened


def _slope(control: Tensor, opened: Tensor, activation: str) -> Tensor:
    """The derivative of the opened gate."""
    if activation == "sigmoid":
        return opened * (1 - opened)
    sigmoid = torch.sigmoid(control)
    return sigmoid + opened * (1 - sigmoid)


def _inverse_rms(u: Tensor, epsilon: float) -> Tensor:
    return torch.rsqrt(u.square().mean(-1, keepdim=True) + epsilon)


def _real_type(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])


def _chunks(x: Tensor) -> Iterator[slice]:
    size = max(1, CACHE_BYTES // (4 * x.shape[1]))
    return (slice(start, min(start + size, len(x))) for start in range(0, len(x), size))
