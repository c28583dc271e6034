"""Convolution through rectangular DFTs, a few channels at a time so that a spectrum stays in cache.

Each channel's spectrum is eight times its grid in three dimensions. Made for all channels at once it would travel
through memory at every axis; made for a few, it never leaves the second-level cache. Gradients keep `x` and the kernel
and make the spectra anew, which costs less than reading them back.

Plain PyTorch, so it also runs on any other device.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from .dft import Size, fast_box, real_transform, transform
from .plan import Plan

CACHE_BYTES = 4 << 20  # a chunk's spectrum; 2 to 8 MiB do about the same on current CPUs


def convolve(x: Tensor, kernel: Tensor, shortcut: Tensor | None, plan: Plan) -> Tensor:
    """`x` `(batch, channels, *grid)` with `kernel` `(1 or batch, channels, *taps)`; the result is like `x`."""
    real = _real_type(x)
    return _multiply(x, lambda channels: kernel_spectrum(kernel[:, channels].to(real), plan), shortcut, plan)


def convolve_spectrum(x: Tensor, wave: Tensor, shortcut: Tensor | None, plan: Plan, adjoint: bool) -> Tensor:
    """As `convolve`, with the kernel's spectrum at hand; `adjoint` gives the transposed convolution instead."""

    def waves(channels: slice) -> Tensor:
        kept = wave[:, channels]
        return torch.conj_physical(kept) if adjoint else kept

    return _multiply(x, waves, shortcut, plan)


def kernel_spectrum(kernel: Tensor, plan: Plan) -> Tensor:
    """From `(1 or batch, channels, *taps)` to its half spectrum `(1 or batch, channels, *frequencies)`, complex."""
    return _into(plan.centre(kernel), plan.kernel, plan)


def spectrum(kernel: Tensor, plan: Plan) -> Tensor:
    """`kernel_spectrum`, chunk by chunk."""
    real = _real_type(kernel)
    wave = kernel.new_empty((*kernel.shape[:2], *plan.spectrum_shape), dtype=real.to_complex())
    for channels in _channel_chunks(kernel.shape, plan):
        wave[:, channels] = kernel_spectrum(kernel[:, channels].to(real), plan)
    return wave


def gradients(dy: Tensor, x: Tensor, kernel: Tensor, shortcut: Tensor | None, plan: Plan) -> tuple[Tensor, Tensor]:
    """Gradients by `x` and by the kernel, made in one walk over the chunks.

    With X, K, D the spectra of x, kernel and dy: dx has the spectrum D conj(K), the kernel's gradient the sum over the
    batch of D conj(X).
    """
    real, shared = _real_type(x), kernel.shape[0] == 1
    dx, dkernel = _like(x), torch.empty_like(kernel, memory_format=torch.contiguous_format)
    for channels in _channel_chunks(x.shape, plan):
        wave = kernel_spectrum(kernel[:, channels].to(real), plan)
        dwave = torch.zeros_like(wave)
        for rows in _row_chunks(x.shape, plan):
            own = slice(None) if shared else rows
            part = dy[rows, channels].to(real)
            into = _into(part, plan.signal, plan)
            _finish(into * torch.conj_physical(wave[own]), part, shortcut, channels, plan, out=dx[rows, channels])
            into.mul_(_into(x[rows, channels].to(real), plan.signal, plan).conj_physical_())
            dwave[own] += into.sum(0, keepdim=True) if shared else into
        dkernel[:, channels] = plan.uncentre(_back(dwave, plan.kernel, plan)).to(kernel.dtype)
    return dx, dkernel


def _multiply(x: Tensor, waves: Callable[[slice], Tensor], shortcut: Tensor | None, plan: Plan) -> Tensor:
    y, real = _like(x), _real_type(x)
    for channels in _channel_chunks(x.shape, plan):
        wave = waves(channels)
        for rows in _row_chunks(x.shape, plan):
            part = x[rows, channels].to(real)
            product = _into(part, plan.signal, plan).mul_(wave if len(wave) == 1 else wave[rows])
            _finish(product, part, shortcut, channels, plan, out=y[rows, channels])
    return y


def _finish(product: Tensor, part: Tensor, shortcut: Tensor | None, channels: slice, plan: Plan, out: Tensor) -> None:
    y = _back(product, plan.signal, plan)
    if shortcut is None:
        out.copy_(y)
        return
    scale = shortcut[channels].to(y.dtype).view(-1, *(1 for _ in plan.axes))
    if out.dtype == y.dtype:
        torch.addcmul(y, part, scale, out=out)
    else:
        out.copy_(y.addcmul_(part, scale))


def _into(x: Tensor, sizes: tuple[Size, ...], plan: Plan) -> Tensor:
    """The half spectrum of `(rows, channels, *positions)`, last axis first."""
    if all(size.fast for size in sizes):
        return fast_box(sizes, x.dtype, x.device).forward(x)
    lead = x.shape[:2]
    wave = real_transform(sizes[-1], x.dtype, x.device).forward(x.reshape(-1, sizes[-1].positions))
    inner = wave.shape[-1]
    for size in reversed(sizes[:-1]):
        wave = transform(size, x.dtype, x.device).forward(wave.reshape(-1, size.positions, inner))
        inner *= size.frequencies
    return wave.reshape(*lead, *plan.spectrum_shape)


def _back(wave: Tensor, sizes: tuple[Size, ...], plan: Plan) -> Tensor:
    """The inverse of `_into`, first axis first."""
    lead, inner, real = wave.shape[:2], plan.spectrum_size, wave.dtype.to_real()
    if all(size.fast for size in sizes):
        return fast_box(sizes, real, wave.device).inverse(wave)
    for size in sizes[:-1]:
        inner //= size.frequencies
        wave = transform(size, real, wave.device).inverse(wave.reshape(-1, size.frequencies, inner))
    x = real_transform(sizes[-1], real, wave.device).inverse(wave.reshape(-1, plan.spectrum_shape[-1]))
    return x.reshape(*lead, *(size.positions for size in sizes))


def _real_type(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _like(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _channel_chunks(shape: Sequence[int], plan: Plan) -> Iterator[slice]:
    """Parts of the channels whose spectra, for the rows taken at once, fit the cache."""
    size = max(1, CACHE_BYTES // (8 * plan.spectrum_size * max(1, min(shape[0], _rows_at_once(plan)))))
    return (slice(start, min(start + size, shape[1])) for start in range(0, shape[1], size))


def _row_chunks(shape: Sequence[int], plan: Plan) -> Iterator[slice]:
    size = _rows_at_once(plan)
    return (slice(start, min(start + size, shape[0])) for start in range(0, shape[0], size))


def _rows_at_once(plan: Plan) -> int:
    return max(1, CACHE_BYTES // (8 * plan.spectrum_size))
