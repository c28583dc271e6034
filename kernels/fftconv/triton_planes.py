"""The last two of three axes: planes of real samples, and their half spectra.

Samples are a `Samples`, `(batch, channels, N0, N1, N2)` of any strides. Spectra are `(batch, channels, N0, M1, K2)`:
complex, contiguous, K2 the frequencies from zero up. `first` and `second` are the `waves.Fold` of the two axes. In
one and two dimensions N0 is 1, and `convolve` does it all: the spectrum is never in memory.
"""

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from .triton_tiles import (
    fold_back,
    load,
    load_signs,
    lower,
    store,
    store_signs,
    tile,
    times,
    transform,
    unfold,
    upper,
    waves,
    zeros,
)


class Samples(NamedTuple):
    """A tensor of samples and its strides."""

    ptr: Tensor
    batch: int
    channel: int
    plane: int
    row: int
    column: int


@triton.jit
def planes_convolve(
    x,
    w_ptr,  # (kernel_rows, M1, K2)
    y,
    shortcut_ptr,  # (channels,) or None
    shortcut_step,
    channels,
    kernel_rows,
    first,
    second,
    CONJUGATE: tl.constexpr,
    PRECISION: tl.constexpr,
    HALF1: tl.constexpr,
    HALF2: tl.constexpr,
    T1: tl.constexpr,
    T2: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program convolves one plane of one channel, T1 x T2 frequencies at a time."""
    row = tl.program_id(0).to(tl.int64)
    w_ptr += 2 * (row % kernel_rows) * first.period * second.kept
    x_ptr, y_ptr = _plane(x, row, channels, 1), _plane(y, row, channels, 1)
    i, j = tl.arange(0, HALF1), tl.arange(0, HALF2)
    p, q, r, s = zeros(HALF1, HALF2)
    for start2 in range(0, second.kept, T2):
        k2 = start2 + tl.arange(0, T2)
        even_re, even_im, odd_re, odd_im = _rows_into(x_ptr, x, first, second, i, k2, PRECISION, HALF1, T2, BLOCK)
        a, b, c, d = zeros(HALF1, T2)
        for start1 in range(0, first.kept, T1):
            k1 = start1 + tl.arange(0, T1)
            cosines, sines = waves(first.into, i[None, :], k1[:, None], first)
            e, f, g, h = zeros(T1, T2)
            e, f, g, h = transform(cosines, sines, even_re, even_im, odd_re, odd_im, e, f, g, h, PRECISION)
            e, f, g, h = unfold(e, f, g, h)
            e, f, g, h = times(w_ptr, first, k1, k2, k2 < second.kept, second.kept, e, f, g, h, CONJUGATE)
            e, f, g, h = fold_back(e, f, g, h)
            cosines, sines = waves(first.back, i[:, None], k1[None, :], first)
            a, b, c, d = transform(cosines, sines, e, f, g, h, a, b, c, d, PRECISION)
        p, q, r, s = _rows_back(second, j, k2, a, b, c, d, p, q, r, s, PRECISION)
    _store_quarters(y_ptr, y, x_ptr, x, first, second, i, j, p, q, r, s, shortcut_ptr, row % channels, shortcut_step)


@triton.jit
def planes_into(
    x,
    s_ptr,  # (rows, M1, K2)
    channels,
    planes,
    first,
    second,
    PRECISION: tl.constexpr,
    T1: tl.constexpr,
    T2: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program makes T1 x T2 coefficients, of either sign along the first axis, of one plane."""
    row, k1, k2 = tile(tl.program_id(0).to(tl.int64), first.kept, second.kept, T1, T2)
    x_ptr = _plane(x, row, channels, planes)
    a, b, c, d = _coefficients(x_ptr, x, first, second, k1, k2, PRECISION, T1, T2, BLOCK)
    at = s_ptr + 2 * row * first.period * second.kept
    store_signs(at, first, k1, k2, k2 < second.kept, second.kept, a, b, c, d)


@triton.jit
def planes_correlate(
    d,
    x,
    s_ptr,  # (rows, M1, K2)
    channels,
    rows,
    batch,
    first,
    second,
    PRECISION: tl.constexpr,
    T1: tl.constexpr,
    T2: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program sums T1 x T2 coefficients of D conj(X), of either sign, over the batch, in its order."""
    row, k1, k2 = tile(tl.program_id(0).to(tl.int64), first.kept, second.kept, T1, T2)
    s_ptr += 2 * row * first.period * second.kept
    p_re, p_im, n_re, n_im = zeros(T1, T2)
    for _ in range(batch):
        d_ptr, x_ptr = _plane(d, row, channels, 1), _plane(x, row, channels, 1)
        a, b, c, e = _coefficients(d_ptr, d, first, second, k1, k2, PRECISION, T1, T2, BLOCK)
        f, g, h, o = _coefficients(x_ptr, x, first, second, k1, k2, PRECISION, T1, T2, BLOCK)
        p_re += a * f + b * g
        p_im += b * f - a * g
        n_re += c * h + e * o
        n_im += e * h - c * o
        row += rows
    store_signs(s_ptr, first, k1, k2, k2 < second.kept, second.kept, p_re, p_im, n_re, n_im)


@triton.jit
def planes_back(
    s_ptr,  # (rows, M1, K2)
    w_ptr,  # (kernel_rows, M1, K2), or None
    y,
    x,  # as y; not touched without shortcut
    shortcut_ptr,  # (channels,), or None
    shortcut_step,
    channels,
    planes,
    kernel_rows,
    first,
    second,
    CONJUGATE: tl.constexpr,
    PRECISION: tl.constexpr,
    HALF1: tl.constexpr,
    HALF2: tl.constexpr,
    T1: tl.constexpr,
    T2: tl.constexpr,
):
    """One program makes HALF1 x HALF2 samples in each quarter of a plane of S, or of S times W."""
    row, i, j = tile(tl.program_id(0).to(tl.int64), first.half, second.half, HALF1, HALF2)
    s_ptr += 2 * row * first.period * second.kept
    p, q, r, s = zeros(HALF1, HALF2)
    for start2 in range(0, second.kept, T2):
        k2 = start2 + tl.arange(0, T2)
        a, b, c, d = zeros(HALF1, T2)
        for start1 in range(0, first.kept, T1):
            k1 = start1 + tl.arange(0, T1)
            e, f, g, h = load_signs(s_ptr, first, k1, k2, k2 < second.kept, second.kept)
            if w_ptr is not None:
                at = w_ptr + 2 * (row % kernel_rows) * first.period * second.kept
                e, f, g, h = times(at, first, k1, k2, k2 < second.kept, second.kept, e, f, g, h, CONJUGATE)
            e, f, g, h = fold_back(e, f, g, h)
            cosines, sines = waves(first.back, i[:, None], k1[None, :], first)
            a, b, c, d = transform(cosines, sines, e, f, g, h, a, b, c, d, PRECISION)
        p, q, r, s = _rows_back(second, j, k2, a, b, c, d, p, q, r, s, PRECISION)
    x_ptr, y_ptr = _plane(x, row, channels, planes), _plane(y, row, channels, planes)
    channel = row // planes % channels
    _store_quarters(y_ptr, y, x_ptr, x, first, second, i, j, p, q, r, s, shortcut_ptr, channel, shortcut_step)


@triton.jit
def _plane(x, row, channels, planes):
    """Where one of all planes begins."""
    return (
        x.ptr + (row // planes // channels) * x.batch + (row // planes % channels) * x.channel + row % planes * x.plane
    )


@triton.jit
def _coefficients(
    x_ptr, x, first, second, k1, k2,
    PRECISION: tl.constexpr, T1: tl.constexpr, T2: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Those of a plane at (k1, k2) and at (-k1, k2)."""
    a, b, c, d = zeros(T1, T2)
    for start in range(0, first.half, BLOCK):
        i = start + tl.arange(0, BLOCK)
        even_re, even_im, odd_re, odd_im = _rows_into(x_ptr, x, first, second, i, k2, PRECISION, BLOCK, T2, BLOCK)
        cosines, sines = waves(first.into, i[None, :], k1[:, None], first)
        a, b, c, d = transform(cosines, sines, even_re, even_im, odd_re, odd_im, a, b, c, d, PRECISION)
    return unfold(a, b, c, d)


@triton.jit
def _rows_into(
    x_ptr, x, first, second, i, k2,
    PRECISION: tl.constexpr, ROWS: tl.constexpr, T2: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The second axis transformed, in the even part and in -i times the odd part of the first."""
    a, b, c, d = zeros(ROWS, T2)
    for start in range(0, second.half, BLOCK):
        j = start + tl.arange(0, BLOCK)
        ee, eo, oe, oo = _quarters(x_ptr, x, first, second, i, j)
        cosines, sines = waves(second.into, j[:, None], k2[None, :], second)
        a = tl.dot(ee, cosines, a, input_precision=PRECISION)
        b = tl.dot(-eo, sines, b, input_precision=PRECISION)
        c = tl.dot(-oo, sines, c, input_precision=PRECISION)
        d = tl.dot(-oe, cosines, d, input_precision=PRECISION)
    return a, b, c, d


@triton.jit
def _quarters(x_ptr, x, first, second, i, j):
    """The even and odd parts of a plane along both axes: even-even, even-odd, odd-even, odd-odd."""
    up, in_up = upper(first, i)
    down, in_down = lower(first, i)
    column, in_column = upper(second, j)
    above = load(x_ptr, up, column, in_up, in_column, x.row, x.column)
    below = load(x_ptr, down, column, in_down, in_column, x.row, x.column)
    even, odd = above + below, above - below
    column, in_column = lower(second, j)
    above = load(x_ptr, up, column, in_up, in_column, x.row, x.column)
    below = load(x_ptr, down, column, in_down, in_column, x.row, x.column)
    even_left, odd_left = above + below, above - below
    return even + even_left, even - even_left, odd + odd_left, odd - odd_left


@triton.jit
def _rows_back(second, j, k2, a, b, c, d, p, q, r, s, PRECISION: tl.constexpr):
    """Add what the second axis makes of a + ib and c + id: even parts to p and r, odd parts to q and s."""
    cosines, sines = waves(second.back, j[None, :], k2[:, None], second)
    p = tl.dot(a, cosines, p, input_precision=PRECISION)
    q = tl.dot(b, sines, q, input_precision=PRECISION)
    r = tl.dot(c, cosines, r, input_precision=PRECISION)
    s = tl.dot(d, sines, s, input_precision=PRECISION)
    return p, q, r, s


@triton.jit
def _store_quarters(
    y_ptr, y, x_ptr, x, first, second, i, j, p, q, r, s, shortcut_ptr, channel, shortcut_step
):  # fmt: skip
    """Write what `_rows_back` summed, plus the shortcut times x."""
    up, in_up = upper(first, i)
    down, in_down = lower(first, i)
    right, in_right = upper(second, j)
    left, in_left = lower(second, j)
    even, odd, even_below, odd_below = p + r, q + s, p - r, q - s
    _finish(y_ptr, y, x_ptr, x, even - odd, up, right, in_up, in_right, shortcut_ptr, channel, shortcut_step)
    _finish(y_ptr, y, x_ptr, x, even + odd, up, left, in_up, in_left, shortcut_ptr, channel, shortcut_step)
    _finish(
        y_ptr, y, x_ptr, x, even_below - odd_below, down, right, in_down, in_right, shortcut_ptr, channel, shortcut_step
    )
    _finish(
        y_ptr, y, x_ptr, x, even_below + odd_below, down, left, in_down, in_left, shortcut_ptr, channel, shortcut_step
    )


@triton.jit
def _finish(y_ptr, y, x_ptr, x, sums, rows, columns, in_rows, in_columns, shortcut_ptr, channel, shortcut_step):
    if shortcut_ptr is not None:
        shortcut = tl.load(shortcut_ptr + channel * shortcut_step).to(tl.float32)
        sums += shortcut * load(x_ptr, rows, columns, in_rows, in_columns, x.row, x.column)
    store(y_ptr, sums, rows, columns, in_rows, in_columns, y.row, y.column)
