r"""The convolution as products of real matrices, for programs that leave PyTorch.

No FFT and no complex number is known to every runtime. So each axis is transformed by its DFT as a matrix, cosines and
sines apart; as in `dft.py` the matrices are rectangular where zeros would be padded or a result be cut::

    X[k] = sum over p of x[p] exp(-2 pi i k (p - c) / m)        x[p] = 1/m sum over k of X[k] exp(+2 pi i k p / m)

with the origin c at 0 for a signal and at lag zero for a kernel. Exact up to rounding, for any length and boundary.
Only operators of PyTorch's own are used, and no tensor comes from Python's numbers, so that a trace has all of it.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .plan import Plan

Pair = tuple[Tensor, Tensor]  # real and imaginary part


def convolve(x: Tensor, kernel: Tensor, shortcut: Tensor | None, plan: Plan) -> Tensor:
    """The convolution, as `cpu.convolve`."""
    kept = torch.float64 if x.dtype == torch.float64 else torch.float32
    signal, taps = x.to(kept), plan.centre(kernel.to(kept))
    origins = [axis.taps // 2 if axis.periodic else axis.reach for axis in plan.axes]
    wave = _times(_transform(signal, plan, [0] * len(origins)), _transform(taps, plan, origins))
    y = _back(wave, plan)
    if shortcut is not None:
        y = y + shortcut.to(kept).view(-1, *(1 for _ in plan.axes)) * signal
    return y.to(x.dtype)


def _transform(x: Tensor, plan: Plan, origins: Sequence[int]) -> Pair:
    """From real `(..., *positions)` to the half spectrum."""
    m = plan.axes[-1].frequencies
    cosines, sines = _waves(m // 2 + 1, x.shape[-1], origins[-1], m, x.dtype)
    pair = torch.matmul(x, cosines.T), -torch.matmul(x, sines.T)
    for dim in range(-2, -1 - len(plan.axes), -1):
        m = plan.axes[dim].frequencies
        cosines, sines = _waves(m, pair[0].shape[dim], origins[dim], m, x.dtype)
        pair = _along(dim, cosines, -sines, pair)
    return pair


def _back(wave: Pair, plan: Plan) -> Tensor:
    """From the half spectrum to real `(..., *samples)`."""
    dtype = wave[0].dtype
    for dim in range(-len(plan.axes), -1):
        axis = plan.axes[dim]
        cosines, sines = _waves(axis.frequencies, axis.samples, 0, axis.frequencies, dtype)
        wave = _along(dim, cosines.T / axis.frequencies, sines.T / axis.frequencies, wave)
    m = plan.axes[-1].frequencies
    cosines, sines = _waves(m // 2 + 1, plan.axes[-1].samples, 0, m, dtype)
    times = 2 - (2 * torch.arange(m // 2 + 1) % m == 0).to(dtype)  # the others stand for +k and -k of a real signal
    real, imaginary = (part * times / m for part in wave)
    return torch.matmul(real, cosines) - torch.matmul(imaginary, sines)


def _waves(frequencies: int, positions: int, origin: int, m: int, dtype: torch.dtype) -> Pair:
    """Cosines and sines of `2 pi k (p - origin) / m`, `(frequencies, positions)`, rounded once."""
    # The angle is reduced modulo a full turn in whole numbers, so that no digit is lost at high frequencies.
    turns = torch.outer(torch.arange(frequencies), torch.arange(positions) - origin) % m
    angles = turns.to(torch.float64) * (2 * math.pi / m)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _along(dim: int, real: Tensor, imaginary: Tensor, pair: Pair) -> Pair:
    """The product of the complex matrix `real + i imaginary` with an axis that is not the last."""

    def product(matrix: Tensor, x: Tensor) -> Tensor:
        return torch.matmul(matrix, x.flatten(dim + 1)).unflatten(-1, x.shape[dim + 1 :])

    return (
        product(real, pair[0]) - product(imaginary, pair[1]),
        product(imaginary, pair[0]) + product(real, pair[1]),
    )


def _times(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]
