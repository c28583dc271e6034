"""The definition of `fftconv`, one tap at a time: slow, any dtype, and short enough to be seen to be right."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from ..definition import Definition, differentiate, evaluate
from .cpu import convolve_spectrum, spectrum  # a kept spectrum is the fast path's own form and has no definition
from .plan import Plan

__all__ = ["convolve", "convolve_spectrum", "fftconv_reference", "gradients", "spectrum"]


def fftconv_reference(x: Tensor, kernel: Tensor, *, periodic: Sequence[bool], shortcut: Tensor | None = None) -> Tensor:
    """`y[b, c, p] = shortcut[c] x[b, c, p] + sum over taps i of kernel[b, c, i] x[b, c, p - (i - taps // 2)]`.

    Args:
        x: `(batch, channels, *grid)`.
        kernel: `(1 or batch, channels, *taps)`.
        periodic: For each axis, whether it wraps round; else x is zero outside its grid.
        shortcut: `(channels,)`, or None for none.
    """
    expand = (..., *(None for _ in periodic))
    y = torch.zeros_like(x) if shortcut is None else shortcut[expand] * x
    for tap in itertools.product(*(range(taps) for taps in kernel.shape[2:])):
        moved = x
        for axis, (index, taps) in enumerate(zip(tap, kernel.shape[2:], strict=True)):
            moved = _move(moved, index - taps // 2, axis + 2, periodic[axis])
        y = y + kernel[(slice(None), slice(None), *tap)][expand] * moved
    return y


def _move(x: Tensor, lag: int, dim: int, periodic: bool) -> Tensor:
    """Give x at p - lag, for every p."""
    if periodic:
        return x.roll(lag, dim)
    index = torch.arange(x.shape[dim], device=x.device) - lag
    inside = (index >= 0) & (index < x.shape[dim])
    shape = [1] * x.ndim
    shape[dim] = -1
    return x.index_select(dim, index.clamp(0, x.shape[dim] - 1)) * inside.view(shape)


def convolve(x: Tensor, kernel: Tensor, shortcut: Tensor | None, plan: Plan) -> Tensor:
    """The convolution, as `cpu.convolve`."""
    return evaluate(_with(plan), x, kernel, shortcut)


def gradients(dy: Tensor, x: Tensor, kernel: Tensor, shortcut: Tensor | None, plan: Plan) -> list[Tensor | None]:
    """Gradients by x and kernel, as `cpu.gradients`."""
    return differentiate(_with(plan), dy, x, kernel, shortcut)[:2]


def _with(plan: Plan) -> Definition:
    periodic = [axis.periodic for axis in plan.axes]
    return lambda x, kernel, shortcut: fftconv_reference(x, kernel, periodic=periodic, shortcut=shortcut)
