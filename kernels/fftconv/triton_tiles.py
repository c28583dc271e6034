"""What the Triton kernels of `fftconv` share: an axis folded, transformed and multiplied, as tiles in registers.

A complex tile is two real ones, in memory one tensor with the parts side by side. Sizes that no tile divides are
masked: what lies outside reads as zero. `axis` is a `waves.Fold`; q counts from its middle, k its frequencies.
"""

import triton
import triton.language as tl


@triton.jit
def waves(matrices, q, k, axis):
    """Cosines and sines; `q` and `k` are a column and a row, or a row and a column."""
    inside = (q < axis.half) & (k < axis.kept)
    at = matrices + q * axis.kept + k
    return tl.load(at, mask=inside, other=0.0), tl.load(at + axis.half * axis.kept, mask=inside, other=0.0)


@triton.jit
def upper(axis, q):
    """The positions of the upper half, and which exist."""
    return axis.upper + q, axis.upper + q < axis.positions


@triton.jit
def lower(axis, q):
    """The positions of the lower half, and which exist."""
    return axis.lower - q, q <= axis.lower


@triton.jit
def positive(axis, k):
    """Where the coefficients of the frequencies k lie, and which exist."""
    return k, k < axis.kept


@triton.jit
def negative(axis, k):
    """Where the coefficients of the frequencies -k lie, and which exist beside those of k."""
    return axis.negative + axis.step * k, (k > 0) & (2 * k < axis.period)


@triton.jit
def load(ptr, rows, columns, in_rows, in_columns, row_step, column_step):
    """The float32 tile at some rows and columns of a real matrix."""
    inside = in_rows[:, None] & in_columns[None, :]
    at = rows[:, None].to(tl.int64) * row_step + columns[None, :].to(tl.int64) * column_step  # may pass 2^31
    return tl.load(ptr + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def store(ptr, tile, rows, columns, in_rows, in_columns, row_step, column_step):
    """Round a tile to the matrix's type and write it."""
    inside = in_rows[:, None] & in_columns[None, :]
    at = rows[:, None].to(tl.int64) * row_step + columns[None, :].to(tl.int64) * column_step  # may pass 2^31
    tl.store(ptr + at, tile.to(ptr.dtype.element_ty), mask=inside)


@triton.jit
def load_complex(ptr, rows, columns, in_rows, in_columns, width):
    """The two tiles at some rows and columns of a contiguous complex matrix of `width` columns."""
    return tl.split(tl.load(*_complex(ptr, rows, columns, in_rows, in_columns, width), other=0.0))


@triton.jit
def store_complex(ptr, re, im, rows, columns, in_rows, in_columns, width):
    """Write two tiles into a contiguous complex matrix of `width` columns."""
    at, inside = _complex(ptr, rows, columns, in_rows, in_columns, width)
    tl.store(at, tl.join(re, im), mask=inside)


@triton.jit
def _complex(ptr, rows, columns, in_rows, in_columns, width):
    at = 2 * (rows[:, None].to(tl.int64) * width + columns[None, :])
    inside = in_rows[:, None] & in_columns[None, :]
    parts = tl.arange(0, 2)[None, None, :]
    return ptr + at[:, :, None] + parts, inside[:, :, None] & (parts >= 0)


@triton.jit
def fold(up_re, up_im, down_re, down_im):
    """Of two halves the even part, and the odd part times -i."""
    return up_re + down_re, up_im + down_im, up_im - down_im, down_re - up_re


@triton.jit
def fold_back(up_re, up_im, down_re, down_im):
    """As `fold` on the way back, where the odd part is times i."""
    return up_re + down_re, up_im + down_im, down_im - up_im, up_re - down_re


@triton.jit
def unfold(even_re, even_im, odd_re, odd_im):
    """The two halves of what `transform` made of even and odd part."""
    return even_re + odd_re, even_im + odd_im, even_re - odd_re, even_im - odd_im


@triton.jit
def transform(cosines, sines, even_re, even_im, odd_re, odd_im, a, b, c, d, PRECISION: tl.constexpr):
    """Add the products of the first axis to the sums a, b of the even and c, d of the odd part."""
    a = tl.dot(cosines, even_re, a, input_precision=PRECISION)
    b = tl.dot(cosines, even_im, b, input_precision=PRECISION)
    c = tl.dot(sines, odd_re, c, input_precision=PRECISION)
    d = tl.dot(sines, odd_im, d, input_precision=PRECISION)
    return a, b, c, d


@triton.jit
def zeros(ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Four sums to begin with."""
    zero = tl.zeros((ROWS, COLUMNS), tl.float32)
    return zero, zero, zero, zero


@triton.jit
def times(ptr, axis, k, columns, in_columns, width, p_re, p_im, n_re, n_im, CONJUGATE: tl.constexpr):
    """Coefficients at +k and -k times those of a kernel's spectrum, or their conjugates."""
    rows, in_rows = positive(axis, k)
    w_re, w_im = load_complex(ptr, rows, columns, in_rows, in_columns, width)
    p_re, p_im = _product(p_re, p_im, w_re, w_im, CONJUGATE)
    rows, in_rows = negative(axis, k)
    w_re, w_im = load_complex(ptr, rows, columns, in_rows, in_columns, width)
    n_re, n_im = _product(n_re, n_im, w_re, w_im, CONJUGATE)
    return p_re, p_im, n_re, n_im


@triton.jit
def _product(a_re, a_im, b_re, b_im, CONJUGATE: tl.constexpr):
    if CONJUGATE:
        b_im = -b_im
    return a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re


@triton.jit
def load_signs(ptr, axis, k, columns, in_columns, width):
    """Coefficients at +k and at -k, where there are such."""
    rows, in_rows = positive(axis, k)
    p_re, p_im = load_complex(ptr, rows, columns, in_rows, in_columns, width)
    rows, in_rows = negative(axis, k)
    n_re, n_im = load_complex(ptr, rows, columns, in_rows, in_columns, width)
    return p_re, p_im, n_re, n_im


@triton.jit
def store_signs(ptr, axis, k, columns, in_columns, width, p_re, p_im, n_re, n_im):
    """Write coefficients at +k and at -k."""
    rows, in_rows = positive(axis, k)
    store_complex(ptr, p_re, p_im, rows, columns, in_rows, in_columns, width)
    rows, in_rows = negative(axis, k)
    store_complex(ptr, n_re, n_im, rows, columns, in_rows, in_columns, width)


@triton.jit
def tile(program, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The matrix of a program that makes one tile of it, and the tile's rows and columns."""
    across = tl.cdiv(columns, COLUMNS)
    tiles = tl.cdiv(rows, ROWS) * across
    place = (program % tiles).to(tl.int32)
    i = place // across * ROWS + tl.arange(0, ROWS)
    return program // tiles, i, place % across * COLUMNS + tl.arange(0, COLUMNS)
