"""The operators of `fftconv` as PyTorch sees them: opaque to compile and export, with gradients of their own.

Opaque because the compiler mishandles complex numbers (pytorch#97562, #174891, #188718). Autocast is switched off
inside, since DFT matrices in half precision would spoil the result.
"""

import torch
from torch import Tensor

from ..backend import implementation
from .plan import Plan


@torch.library.custom_op("fredholm::fftconv", mutates_args=())
def convolve(x: Tensor, kernel: Tensor, shortcut: Tensor | None, periodic: list[bool]) -> Tensor:
    """The convolution with a kernel."""
    plan = Plan.of(x.shape[2:], kernel.shape[2:], periodic)
    with torch.autocast(x.device.type, enabled=False):
        return implementation(__name__, x).convolve(x, kernel, shortcut, plan)


@torch.library.custom_op("fredholm::fftconv_gradients", mutates_args=())
def gradients(
    dy: Tensor, x: Tensor, kernel: Tensor, shortcut: Tensor | None, periodic: list[bool]
) -> tuple[Tensor, Tensor]:
    """Its gradients by `x` and by the kernel."""
    plan = Plan.of(x.shape[2:], kernel.shape[2:], periodic)
    with torch.autocast(x.device.type, enabled=False):
        return implementation(__name__, x).gradients(dy, x, kernel, shortcut, plan)


@torch.library.custom_op("fredholm::fftconv_spectrum", mutates_args=())
def convolve_spectrum(
    x: Tensor, wave: Tensor, shortcut: Tensor | None, taps: list[int], periodic: list[bool], adjoint: bool
) -> Tensor:
    """The convolution with a spectrum, or its transpose."""
    plan = Plan.of(x.shape[2:], taps, periodic)
    with torch.autocast(x.device.type, enabled=False):
        return implementation(__name__, x).convolve_spectrum(x, wave, shortcut, plan, adjoint)


@torch.library.custom_op("fredholm::spectrum", mutates_args=())
def spectrum(kernel: Tensor, grid: list[int], periodic: list[bool]) -> Tensor:
    """The half spectrum of a kernel."""
    plan = Plan.of(grid, kernel.shape[2:], periodic)
    with torch.autocast(kernel.device.type, enabled=False):
        return implementation(__name__, kernel).spectrum(kernel, plan)


@convolve.register_fake
def _(x: Tensor, kernel: Tensor, shortcut: Tensor | None, periodic: list[bool]) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@gradients.register_fake
def _(dy: Tensor, x: Tensor, kernel: Tensor, shortcut: Tensor | None, periodic: list[bool]) -> tuple[Tensor, Tensor]:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device), kernel.new_empty(kernel.shape)


@convolve_spectrum.register_fake
def _(x: Tensor, wave: Tensor, shortcut: Tensor | None, taps: list[int], periodic: list[bool], adjoint: bool) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@spectrum.register_fake
def _(kernel: Tensor, grid: list[int], periodic: list[bool]) -> Tensor:
    shape = Plan.of(grid, kernel.shape[2:], periodic).spectrum_shape
    dtype = torch.complex128 if kernel.dtype == torch.float64 else torch.complex64
    return kernel.new_empty((*kernel.shape[:2], *shape), dtype=dtype)


def _shortcut_gradient(dy: Tensor, x: Tensor, shortcut: Tensor | None) -> Tensor | None:
    if shortcut is None:
        return None
    real = torch.float64 if x.dtype == torch.float64 else torch.float32
    dims = (0, *range(2, x.ndim))
    return torch.sum(dy.to(real) * x, dims).to(shortcut.dtype)


def _save(ctx, inputs, output) -> None:
    x, kernel, shortcut, ctx.periodic = inputs
    ctx.save_for_backward(x, kernel, shortcut)


def _backward(ctx, dy: Tensor):
    x, kernel, shortcut = ctx.saved_tensors
    dx, dkernel = gradients(dy, x, kernel, shortcut, ctx.periodic)
    return dx, dkernel, _shortcut_gradient(dy, x, shortcut), None


def _save_spectrum(ctx, inputs, output) -> None:
    x, wave, shortcut, ctx.taps, ctx.periodic, ctx.adjoint = inputs
    ctx.save_for_backward(x if shortcut is not None else None, wave, shortcut)


def _backward_spectrum(ctx, dy: Tensor):
    x, wave, shortcut = ctx.saved_tensors
    dx = convolve_spectrum(dy, wave, shortcut, ctx.taps, ctx.periodic, not ctx.adjoint)
    dshortcut = None if x is None else _shortcut_gradient(dy, x, shortcut)
    return dx, None, dshortcut, None, None, None


convolve.register_autograd(_backward, setup_context=_save)
convolve_spectrum.register_autograd(_backward_spectrum, setup_context=_save_spectrum)
