r"""Depthwise convolution in one, two or three dimensions, with kernels as long as the grid.

For each batch entry b, channel c and position p::

    y[b, c, p] = shortcut[c] x[b, c, p] + sum over q of x[b, c, q] kernel[b, c, p - q]

A true convolution, not a correlation: `torch.nn.ConvNd` mirrors the kernel. Lag zero lies at index `taps // 2` of each
axis. Outside its grid x is zero, or comes round again on periodic axes. Taps that can meet no sample are without
effect on an axis with zeros outside; on a periodic axis a kernel longer than the grid wraps round as often as it must.

Cost: O(N log N) in principle; `cpu.py` says how it is done. The sum as written is in `reference.py`.

Source: Poli et al. 2023, Hyena Hierarchy, arXiv:2302.10866, section 3; in several dimensions arXiv:2607.19378.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from . import ops

Boundary = Literal["zero", "periodic"]
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

__all__ = ["Boundary", "Spectrum", "fftconv", "spectrum"]


@dataclass(frozen=True)
class Spectrum:
    """A kernel made ready for one grid; `fftconv` takes it in place of the kernel, as often as wanted.

    Carries no gradient. Holds 8 bytes for each of channels x product of (2 n - 1) x n coefficients at full length.
    """

    wave: Tensor
    taps: tuple[int, ...]
    grid: tuple[int, ...]
    boundary: tuple[Boundary, ...]


def fftconv(
    x: Tensor,
    kernel: Tensor | Spectrum,
    *,
    boundary: Boundary | Sequence[Boundary] = "zero",
    shortcut: Tensor | None = None,
) -> Tensor:
    """Convolve each channel with its own kernel; the output has the shape of `x`.

    Args:
        x: `(batch, channels, *grid)` with one to three axes of any length from 1, float64, float32, float16 or
            bfloat16, any strides.
        kernel: `(1 or batch, channels, *taps)`, any floating type, any lengths from 1; or a `Spectrum` made by
            `spectrum` for this grid.
        boundary: What lies outside the grid: `"zero"`, `"periodic"`, or one of them for each axis.
        shortcut: `(channels,)`, adds `shortcut * x`; None adds nothing.

    Returns:
        A contiguous tensor with the shape, dtype and device of `x`. Sums are float32, for float64 input float64; so
        they are under autocast. Differentiable once by x, kernel and shortcut; opaque to `torch.compile`.

    Raises:
        ValueError: A rank, a count or a boundary does not fit; the message names both sides.
        TypeError: `x` or the kernel is not a floating tensor.
    """
    boundaries = _boundaries(boundary, x.ndim - 2)
    if isinstance(kernel, Spectrum):
        _check(x, kernel.wave.real, shortcut)
        _check_spectrum(x, kernel, boundaries)
        return ops.convolve_spectrum(x, kernel.wave, shortcut, list(kernel.taps), _periodic(boundaries), False)
    _check(x, kernel, shortcut)
    return ops.convolve(x, kernel, shortcut, _periodic(boundaries))


def spectrum(kernel: Tensor, grid: Sequence[int], boundary: Boundary | Sequence[Boundary] = "zero") -> Spectrum:
    """Make a kernel ready for one grid, for `fftconv` to use many times.

    Args:
        kernel: `(1 or batch, channels, *taps)`, any floating type. float64 makes a spectrum for float64 inputs, the
            others one for all others.
        grid: Lengths of the axes of the later `x`.
        boundary: As in `fftconv`.

    Raises:
        ValueError: The ranks do not fit, or the kernel needs a gradient, which a kept spectrum cannot carry.
        TypeError: The kernel is no floating tensor.
    """
    if kernel.dtype not in FLOATS:
        raise TypeError(f"the kernel must be a floating tensor, got {kernel.dtype}")
    if 0 in kernel.shape or 0 in tuple(grid):
        raise ValueError(f"an axis of length 0 in kernel {tuple(kernel.shape)} or grid {tuple(grid)}")
    if kernel.ndim - 2 != len(grid):
        raise ValueError(f"kernel {tuple(kernel.shape)} has {kernel.ndim - 2} axes of taps, grid {tuple(grid)} differs")
    if torch.is_grad_enabled() and kernel.requires_grad:
        raise ValueError("a kept spectrum carries no gradient: give fftconv the kernel itself, or use torch.no_grad()")
    boundaries = _boundaries(boundary, len(grid))
    wave = ops.spectrum(kernel, list(grid), _periodic(boundaries))
    return Spectrum(wave, tuple(kernel.shape[2:]), tuple(grid), boundaries)


def _boundaries(boundary: Boundary | Sequence[Boundary], axes: int) -> tuple[Boundary, ...]:
    if not 1 <= axes <= 3:
        raise ValueError(f"expected (batch, channels, *grid) with one to three axes of grid, got {axes} axes")
    each = (boundary,) * axes if isinstance(boundary, str) else tuple(boundary)
    if len(each) != axes or any(one not in ("zero", "periodic") for one in each):
        raise ValueError(f'boundary {boundary!r}: expected "zero", "periodic", or {axes} of them, one for each axis')
    return each


def _periodic(boundaries: Sequence[Boundary]) -> list[bool]:
    return [boundary == "periodic" for boundary in boundaries]


def _check(x: Tensor, kernel: Tensor, shortcut: Tensor | None) -> None:
    if x.dtype not in FLOATS or kernel.dtype not in FLOATS:
        raise TypeError(f"x and kernel must be floating tensors, got {x.dtype} and {kernel.dtype}")
    if kernel.ndim != x.ndim:
        raise ValueError(f"x {tuple(x.shape)} and kernel {tuple(kernel.shape)} must have the same number of axes")
    if kernel.shape[0] not in (1, x.shape[0]) or kernel.shape[1] != x.shape[1]:
        raise ValueError(
            f"x has {x.shape[0]} rows of {x.shape[1]} channels, kernel {kernel.shape[0]} of {kernel.shape[1]}: "
            "channels must agree, and the kernel have one row for all or one for each"
        )
    if 0 in x.shape[1:] or 0 in kernel.shape[1:]:
        raise ValueError(f"an axis of length 0 in x {tuple(x.shape)} or kernel {tuple(kernel.shape)}")
    if shortcut is not None and shortcut.shape != (x.shape[1],):
        raise ValueError(f"shortcut must have shape ({x.shape[1]},), got {tuple(shortcut.shape)}")


def _check_spectrum(x: Tensor, kernel: Spectrum, boundaries: tuple[Boundary, ...]) -> None:
    made, asked = (kernel.grid, kernel.boundary), (tuple(x.shape[2:]), boundaries)
    if made != asked:
        raise ValueError(f"the spectrum was made for grid and boundary {made}, x asks for {asked}")
    if (kernel.wave.dtype == torch.complex128) != (x.dtype == torch.float64):
        raise ValueError(f"x is {x.dtype}, the spectrum {kernel.wave.dtype}: float64 goes with complex128 only")
