"""The first of three axes: lines of complex numbers, each through its spectrum.

What lies before is `(rows, N0, lines)`, a spectrum `(rows, M0, lines)`: complex, contiguous, the numbers of all lines
side by side, so that reads and writes run along them. `axis` is a `waves.Fold`, sizes are counted in numbers.
"""

import triton
import triton.language as tl

from .triton_tiles import (
    fold,
    fold_back,
    load_complex,
    load_signs,
    lower,
    store_complex,
    store_signs,
    tile,
    times,
    transform,
    unfold,
    upper,
    waves,
    zeros,
)


@triton.jit
def lines_convolve(
    x_ptr,  # (rows, N0, lines)
    w_ptr,  # (kernel_rows, M0, lines)
    y_ptr,  # as x; may be x itself
    axis,
    lines,
    kernel_rows,
    CONJUGATE: tl.constexpr,
    PRECISION: tl.constexpr,
    HALF: tl.constexpr,
    T: tl.constexpr,
    LINES: tl.constexpr,
):
    """One program convolves LINES lines, T frequencies at a time."""
    blocks = tl.cdiv(lines, LINES)
    row = tl.program_id(0).to(tl.int64) // blocks
    line = tl.program_id(0) % blocks * LINES + tl.arange(0, LINES)
    x_ptr += 2 * row * axis.positions * lines
    y_ptr += 2 * row * axis.positions * lines
    w_ptr += 2 * (row % kernel_rows) * axis.period * lines
    q = tl.arange(0, HALF)
    inside = line < lines
    even_re, even_im, odd_re, odd_im = _folded(x_ptr, axis, q, line, lines)
    a, b, c, d = zeros(HALF, LINES)
    for start in range(0, axis.kept, T):
        k = start + tl.arange(0, T)
        cosines, sines = waves(axis.into, q[None, :], k[:, None], axis)
        e, f, g, h = zeros(T, LINES)
        e, f, g, h = transform(cosines, sines, even_re, even_im, odd_re, odd_im, e, f, g, h, PRECISION)
        e, f, g, h = unfold(e, f, g, h)
        e, f, g, h = times(w_ptr, axis, k, line, inside, lines, e, f, g, h, CONJUGATE)
        e, f, g, h = fold_back(e, f, g, h)
        cosines, sines = waves(axis.back, q[:, None], k[None, :], axis)
        a, b, c, d = transform(cosines, sines, e, f, g, h, a, b, c, d, PRECISION)
    _store_halves(y_ptr, axis, q, line, lines, a, b, c, d)


@triton.jit
def lines_into(
    x_ptr,  # (rows, N0, lines)
    s_ptr,  # (rows, M0, lines)
    axis,
    lines,
    PRECISION: tl.constexpr,
    T: tl.constexpr,
    LINES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program makes T frequencies, of either sign, of LINES lines."""
    row, k, line = tile(tl.program_id(0).to(tl.int64), axis.kept, lines, T, LINES)
    x_ptr += 2 * row * axis.positions * lines
    a, b, c, d = _coefficients(x_ptr, axis, k, line, lines, PRECISION, T, LINES, BLOCK)
    store_signs(s_ptr + 2 * row * axis.period * lines, axis, k, line, line < lines, lines, a, b, c, d)


@triton.jit
def lines_correlate(
    d_ptr,  # (batch * rows, N0, lines)
    x_ptr,  # as d
    s_ptr,  # (rows, M0, lines)
    axis,
    lines,
    rows,
    batch,
    PRECISION: tl.constexpr,
    T: tl.constexpr,
    LINES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program sums T frequencies of D conj(X), of either sign, of LINES lines over the batch, in its order."""
    row, k, line = tile(tl.program_id(0).to(tl.int64), axis.kept, lines, T, LINES)
    p_re, p_im, n_re, n_im = zeros(T, LINES)
    for _ in range(batch):
        at = 2 * row * axis.positions * lines
        a, b, c, d = _coefficients(d_ptr + at, axis, k, line, lines, PRECISION, T, LINES, BLOCK)
        e, f, g, h = _coefficients(x_ptr + at, axis, k, line, lines, PRECISION, T, LINES, BLOCK)
        p_re += a * e + b * f
        p_im += b * e - a * f
        n_re += c * g + d * h
        n_im += d * g - c * h
        row += rows
    row -= rows * batch
    at = s_ptr + 2 * row * axis.period * lines
    store_signs(at, axis, k, line, line < lines, lines, p_re, p_im, n_re, n_im)


@triton.jit
def lines_back(
    s_ptr,  # (rows, M0, lines)
    w_ptr,  # (kernel_rows, M0, lines) or None
    y_ptr,  # (rows, N0, lines)
    axis,
    lines,
    kernel_rows,
    CONJUGATE: tl.constexpr,
    PRECISION: tl.constexpr,
    HALF: tl.constexpr,
    T: tl.constexpr,
    LINES: tl.constexpr,
):
    """One program makes HALF positions, of either half, of LINES lines of S, or of S times W."""
    row, q, line = tile(tl.program_id(0).to(tl.int64), axis.half, lines, HALF, LINES)
    s_ptr += 2 * row * axis.period * lines
    inside = line < lines
    a, b, c, d = zeros(HALF, LINES)
    for start in range(0, axis.kept, T):
        k = start + tl.arange(0, T)
        e, f, g, h = load_signs(s_ptr, axis, k, line, inside, lines)
        if w_ptr is not None:
            at = w_ptr + 2 * (row % kernel_rows) * axis.period * lines
            e, f, g, h = times(at, axis, k, line, inside, lines, e, f, g, h, CONJUGATE)
        e, f, g, h = fold_back(e, f, g, h)
        cosines, sines = waves(axis.back, q[:, None], k[None, :], axis)
        a, b, c, d = transform(cosines, sines, e, f, g, h, a, b, c, d, PRECISION)
    _store_halves(y_ptr + 2 * row * axis.positions * lines, axis, q, line, lines, a, b, c, d)


@triton.jit
def _coefficients(
    x_ptr, axis, k, line, lines, PRECISION: tl.constexpr, T: tl.constexpr, LINES: tl.constexpr, BLOCK: tl.constexpr
):
    """Those of the frequencies k and -k of some lines."""
    a, b, c, d = zeros(T, LINES)
    for start in range(0, axis.half, BLOCK):
        q = start + tl.arange(0, BLOCK)
        even_re, even_im, odd_re, odd_im = _folded(x_ptr, axis, q, line, lines)
        cosines, sines = waves(axis.into, q[None, :], k[:, None], axis)
        a, b, c, d = transform(cosines, sines, even_re, even_im, odd_re, odd_im, a, b, c, d, PRECISION)
    return unfold(a, b, c, d)


@triton.jit
def _folded(x_ptr, axis, q, line, lines):
    """Even part and -i times odd part of some lines."""
    row, in_row = upper(axis, q)
    up_re, up_im = load_complex(x_ptr, row, line, in_row, line < lines, lines)
    row, in_row = lower(axis, q)
    down_re, down_im = load_complex(x_ptr, row, line, in_row, line < lines, lines)
    return fold(up_re, up_im, down_re, down_im)


@triton.jit
def _store_halves(y_ptr, axis, q, line, lines, a, b, c, d):
    up_re, up_im, down_re, down_im = unfold(a, b, c, d)
    row, in_row = upper(axis, q)
    store_complex(y_ptr, up_re, up_im, row, line, in_row, line < lines, lines)
    row, in_row = lower(axis, q)
    store_complex(y_ptr, down_re, down_im, row, line, in_row, line < lines, lines)
