r"""Discrete Fourier transforms of one axis between `positions` samples and `frequencies` coefficients.

A convolution with zeros outside needs more frequencies than samples. Here the transform is rectangular, so neither the
padding on the way in nor the crop on the way out ever exists in memory::

    X[k] = sum over p of x[p] exp(-2 pi i k (p - c) / m)        x[p] = 1/m sum over k of X[k] exp(+2 pi i k (p - c) / m)

with m `frequencies` and the origin `c` at the middle of the samples. A signal is centred on its middle and a kernel on
lag zero, which is the middle of its taps, so one transform serves both; the phase of `c` cancels between the way in
and the way out.

Three ways to the same numbers, chosen by length and boundary:

- short axes: one product with the complex matrix;
- medium axes: the samples are folded about their middle first, and cosines and sines are applied as two real products
  of half the size each, a quarter of the arithmetic;
- long axes, and those where there is no padding to skip, as of periodic grids and of kernels as long as the grid:
  `torch.fft`, O(m log m).

Conjugates are made, never marked: inside a custom operator a compiler may not see PyTorch's mark.

The first two order the frequencies 0, 1, ..., m // 2, -1, -2, ..., -((m - 1) // 2). `torch.fft` has the negative ones
the other way round, and they are turned where the partner goes by matrix: signal and kernel of an axis always agree.

Source: the folding is the textbook split of a DFT into its even and odd part (e.g. Rabiner and Gold, 1975, ch. 6).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

DENSE_UP_TO = 16  # positions; up to here a fold costs more passes than it saves products
LONG_ABOVE = 512  # frequencies; from here on O(m log m) wins over any matrix
FULL_ABOVE = 32  # the same where at least two of three positions hold a sample


class Transform(Protocol):
    """A transform along the middle axis of `(outer, positions, inner)` complex tensors."""

    def forward(self, x: Tensor) -> Tensor:
        """From `(outer, positions, inner)` to `(outer, frequencies, inner)`."""
        ...

    def inverse(self, spectrum: Tensor) -> Tensor:
        """From `(outer, frequencies, inner)` to `(outer, positions, inner)`."""
        ...


class RealTransform(Protocol):
    """A transform along the last axis of real tensors; keeps the frequencies 0 ... m // 2."""

    def forward(self, x: Tensor) -> Tensor:
        """From real `(rows, positions)` to complex `(rows, m // 2 + 1)`."""
        ...

    def inverse(self, spectrum: Tensor) -> Tensor:
        """From complex `(rows, m // 2 + 1)` to real `(rows, positions)`."""
        ...


@dataclass(frozen=True)
class Size:
    """What a transform is made for.

    Args:
        positions: Samples in and out.
        frequencies: Coefficients, m.
        origin: Where sample 0's place is counted from in an FFT: 0 for a signal, the middle for a kernel.
        fast: Whether to take `torch.fft` in place of a matrix.
        mirrored: Whether the negative frequencies must come as the matrices give them, -1 first.
    """

    positions: int
    frequencies: int
    origin: int
    fast: bool
    mirrored: bool


# Kept matrices serve training too, so they must not be made as inference tensors.
@lru_cache(maxsize=256)
@torch.inference_mode(False)
def transform(size: Size, dtype: torch.dtype, device: torch.device) -> Transform:
    """The transform of an axis that is not the last; `dtype` is the real type, float32 or float64."""
    if size.fast:
        return _Fast(size, dtype, device)
    kind = _Dense if size.positions <= DENSE_UP_TO else _Folded
    return kind(size.positions, size.frequencies, dtype, device)


@lru_cache(maxsize=256)
@torch.inference_mode(False)
def real_transform(size: Size, dtype: torch.dtype, device: torch.device) -> RealTransform:
    """The transform of the last axis; `dtype` is the real type, float32 or float64."""
    if size.fast:
        return _RealFast(size, dtype, device)
    return _RealDense(size.positions, size.frequencies, dtype, device)


class FastBox:
    """All axes at once through `torch.fft`, where every one of them goes that way."""

    def __init__(self, sizes: tuple[Size, ...], dtype: torch.dtype, device: torch.device) -> None:
        self.sizes = sizes
        self.frequencies = [size.frequencies for size in sizes]
        self.dims = tuple(range(-len(sizes), 0))
        counts = [*self.frequencies[:-1], self.frequencies[-1] // 2 + 1]
        self.phase: Tensor | None = None
        for dim, size, count in zip(self.dims, sizes, counts, strict=True):
            phase = _origin_phase(size, torch.float64, device, count)
            if phase is not None:
                phase = phase.view(-1, *(1 for _ in range(-1 - dim)))
                self.phase = phase if self.phase is None else self.phase * phase
        if self.phase is not None:
            self.phase = self.phase.to(dtype.to_complex())

    def forward(self, x: Tensor) -> Tensor:
        """From real `(..., *positions)` to complex `(..., *frequencies)`, half of them along the last axis."""
        for dim, m in zip(self.dims, self.frequencies, strict=True):
            x = _wrap(x, m, dim)
        spectrum = torch.fft.rfftn(x, self.frequencies, self.dims)
        if self.phase is not None:
            spectrum.mul_(self.phase)
        for dim, size in zip(self.dims[:-1], self.sizes, strict=False):
            spectrum = _mirror(spectrum, size, dim)
        return spectrum

    def inverse(self, spectrum: Tensor) -> Tensor:
        """The way back."""
        for dim, size in zip(self.dims[:-1], self.sizes, strict=False):
            spectrum = _mirror(spectrum, size, dim)
        if self.phase is not None:
            spectrum = spectrum * torch.conj_physical(self.phase)
        x = torch.fft.irfftn(spectrum, self.frequencies, self.dims)
        for dim, size in zip(self.dims, self.sizes, strict=True):
            x = _unwrap(x, size.positions, dim)
        return x


@lru_cache(maxsize=64)
@torch.inference_mode(False)
def fast_box(sizes: tuple[Size, ...], dtype: torch.dtype, device: torch.device) -> FastBox:
    """The transform of all axes together; each of `sizes` must be fast."""
    return FastBox(sizes, dtype, device)


def good_frequencies(least: int) -> int:
    """The smallest suitable number of frequencies: `least`, or for longer axes the next product of 2, 3 and 5."""
    if least <= FULL_ABOVE:
        return least
    while _without_small_factors(least) != 1:
        least += 1
    return least


def _without_small_factors(n: int) -> int:
    for prime in (2, 3, 5):
        while n % prime == 0:
            n //= prime
    return n


def _waves(frequencies: Tensor, positions: int, m: int) -> Tensor:
    """exp(-2 pi i k (p - c) / m) in complex128, `(frequencies, positions)`."""
    centred = 2 * torch.arange(positions, dtype=torch.int64) - (positions - 1)  # twice p - c, a whole number
    # The angle is reduced modulo a full turn in whole numbers, so that no digit is lost at high frequencies.
    turns = torch.outer(frequencies, centred) % (2 * m)
    return torch.exp(turns.to(torch.float64) * (-1j * math.pi / m))


def _signed_frequencies(m: int) -> Tensor:
    return torch.cat((torch.arange(m // 2 + 1), -torch.arange(1, (m - 1) // 2 + 1)))


def _as_real(x: Tensor) -> Tensor:
    """Interleave real and imaginary parts along the last axis."""
    return torch.view_as_real(x).flatten(-2)


def _as_complex(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


class _Dense:
    def __init__(self, positions: int, frequencies: int, dtype: torch.dtype, device: torch.device) -> None:
        waves = _waves(_signed_frequencies(frequencies), positions, frequencies)
        self.into = waves.to(device, dtype.to_complex())
        self.back = (torch.conj_physical(waves).T / frequencies).to(device, dtype.to_complex()).contiguous()

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(self.into, x)

    def inverse(self, spectrum: Tensor) -> Tensor:
        return torch.matmul(self.back, spectrum)


class _Folded:
    """X[+-k] = C e -+ i S o, where e and o are the even and the odd part of the samples about their middle."""

    def __init__(self, positions: int, frequencies: int, dtype: torch.dtype, device: torch.device) -> None:
        self.half = (positions + 1) // 2
        self.lower = positions // 2  # how many samples lie strictly below the middle or pair with one above
        self.negative = (frequencies - 1) // 2
        upper = _waves(torch.arange(frequencies // 2 + 1), positions, frequencies)[:, positions - self.half :]
        cosines, sines = upper.real.clone(), -upper.imag
        self.cosines_back = (cosines.T / frequencies).to(device, dtype).contiguous()
        self.sines_back = (sines.T / frequencies).to(device, dtype).contiguous()
        if positions % 2:
            cosines[:, 0] /= 2  # the middle sample meets itself in the fold
        self.cosines, self.sines = cosines.to(device, dtype), sines.to(device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        upper, lower = x[:, x.shape[1] - self.half :], x[:, : self.half].flip(1)
        even = _as_complex(torch.matmul(self.cosines, _as_real(upper + lower)))
        odd = _as_complex(torch.matmul(self.sines, _as_real((upper - lower).mul_(1j))))
        count = even.shape[1]
        spectrum = x.new_empty(x.shape[0], count + self.negative, x.shape[2])
        torch.sub(even, odd, out=spectrum[:, :count])
        torch.add(even[:, 1 : self.negative + 1], odd[:, 1 : self.negative + 1], out=spectrum[:, count:])
        return spectrum

    def inverse(self, spectrum: Tensor) -> Tensor:
        count = spectrum.shape[1] - self.negative
        even, odd = spectrum[:, :count].clone(), spectrum[:, :count].clone()
        even[:, 1 : self.negative + 1] += spectrum[:, count:]
        odd[:, 1 : self.negative + 1] -= spectrum[:, count:]
        even = _as_complex(torch.matmul(self.cosines_back, _as_real(even)))
        odd = _as_complex(torch.matmul(self.sines_back, _as_real(odd))).mul_(1j)
        x = spectrum.new_empty(spectrum.shape[0], self.half + self.lower, spectrum.shape[2])
        torch.add(even, odd, out=x[:, self.lower :])
        x[:, : self.lower] = (even - odd)[:, self.half - self.lower :].flip(1)
        return x


class _Fast:
    def __init__(self, size: Size, dtype: torch.dtype, device: torch.device) -> None:
        self.size = size
        self.phase = _origin_phase(size, dtype, device, size.frequencies)

    def forward(self, x: Tensor) -> Tensor:
        m = self.size.frequencies
        spectrum = torch.fft.fft(_wrap(x, m, 1), n=m, dim=1)
        return _mirror(spectrum if self.phase is None else spectrum.mul_(self.phase[:, None]), self.size, 1)

    def inverse(self, spectrum: Tensor) -> Tensor:
        spectrum = _mirror(spectrum, self.size, 1)
        if self.phase is not None:
            spectrum = spectrum * torch.conj_physical(self.phase[:, None])
        return _unwrap(torch.fft.ifft(spectrum, dim=1), self.size.positions, 1)


class _RealDense:
    def __init__(self, positions: int, frequencies: int, dtype: torch.dtype, device: torch.device) -> None:
        waves = _waves(torch.arange(frequencies // 2 + 1), positions, frequencies)
        weight = torch.full((len(waves), 1), 2.0, dtype=torch.float64)  # +k and -k of a real signal
        weight[0] = 1
        if frequencies % 2 == 0:
            weight[-1] = 1
        self.into = _as_real(waves.T.contiguous()).to(device, dtype)
        self.back = torch.view_as_real(waves * weight / frequencies).movedim(2, 1).flatten(0, 1).to(device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return _as_complex(torch.matmul(x, self.into))

    def inverse(self, spectrum: Tensor) -> Tensor:
        return torch.matmul(_as_real(spectrum), self.back)


class _RealFast:
    def __init__(self, size: Size, dtype: torch.dtype, device: torch.device) -> None:
        self.size = size
        self.phase = _origin_phase(size, dtype, device, size.frequencies // 2 + 1)

    def forward(self, x: Tensor) -> Tensor:
        m = self.size.frequencies
        spectrum = torch.fft.rfft(_wrap(x, m, 1), n=m)
        return spectrum if self.phase is None else spectrum.mul_(self.phase)

    def inverse(self, spectrum: Tensor) -> Tensor:
        if self.phase is not None:
            spectrum = spectrum * torch.conj_physical(self.phase)
        return _unwrap(torch.fft.irfft(spectrum, n=self.size.frequencies), self.size.positions, 1)


def _mirror(spectrum: Tensor, size: Size, dim: int) -> Tensor:
    """Turn the negative frequencies of `torch.fft` round, where a matrix is the partner; and back again."""
    if not size.mirrored:
        return spectrum
    return spectrum.index_select(dim, _mirrored_order(size.frequencies, spectrum.device))


@lru_cache(maxsize=256)
@torch.inference_mode(False)
def _mirrored_order(m: int, device: torch.device) -> Tensor:
    places = torch.arange(m, device=device)
    return torch.cat((places[: m // 2 + 1], places[m // 2 + 1 :].flip(0)))


def _wrap(x: Tensor, period: int, dim: int) -> Tensor:
    """Sum the samples of a kernel longer than a periodic grid that fall on one place."""
    parts = x.split(period, dim)
    if len(parts) == 1:
        return x
    total = parts[0].clone()
    for part in parts[1:]:
        total.narrow(dim, 0, part.shape[dim]).add_(part)
    return total


def _unwrap(x: Tensor, positions: int, dim: int) -> Tensor:
    """The first `positions` samples of a signal that repeats itself."""
    if positions <= x.shape[dim]:
        return x.narrow(dim, 0, positions)
    times = -(-positions // x.shape[dim])
    return torch.cat((x,) * times, dim).narrow(dim, 0, positions)


def _origin_phase(size: Size, dtype: torch.dtype, device: torch.device, count: int) -> Tensor | None:
    """exp(+2 pi i k origin / m) for the first `count` frequencies in the order of `torch.fft`; None where it is 1."""
    if size.origin == 0:
        return None
    turns = (torch.arange(count) * size.origin) % size.frequencies
    return torch.exp(turns.to(torch.float64) * (2j * math.pi / size.frequencies)).to(device, dtype.to_complex())
