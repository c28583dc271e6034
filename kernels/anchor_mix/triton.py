"""The mix in one kernel on a GPU, from projection to residual, and its gradients in three.

A program holds some rows and streams over the anchors, a tile at a time: once for the norm, once for the softmax, its
coordinates made anew each time, so that neither takes more room the more anchors there are. Means, variances and
covariances are merged tile by tile, since differences of large sums would lose their digits. Backward keeps two numbers
for each row and anchor, its weight and its coordinate's gradient; what sums over rows is summed within each program,
then over programs: no atomics, the same bits in every run.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..launch import launch, products
from .parts import Parts

ROWS = 32  # of one program
ANCHORS = 16  # at once; these tiles with two warps spill nothing, larger ones do on some chips
CHANNELS = 32  # at once, and so of the branch's width
PARTS = 128  # that share the rows in sums over them
WARPS = 2


def apply(parts: Parts, epsilon: float) -> Tensor:
    """The mix, as `cpu.apply`."""
    y = torch.empty(parts.x.shape, dtype=parts.x.dtype, device=parts.x.device)
    if y.numel() == 0:
        return y
    x, branch = _rows(parts.x), _rows(parts.branch)
    launch(
        _apply, triton.cdiv(len(x), ROWS) * triton.cdiv(x.shape[1], CHANNELS),
        x, branch, y, *_shared(parts),
        *x.shape, branch.shape[1], len(parts.anchors), *x.stride(), *branch.stride(), epsilon, **_options(x),
    )  # fmt: skip
    return y


def gradients(dy: Tensor, parts: Parts, epsilon: float) -> list[Tensor]:
    """Gradients by all parts, as `cpu.gradients`."""
    if parts.x.numel() == 0:
        return [torch.zeros_like(part) for part in parts.given()]
    dx, dbranch = (torch.empty(each.shape, dtype=each.dtype, device=each.device) for each in parts[:2])
    dy, x, branch, options = _rows(dy), _rows(parts.x), _rows(parts.branch), _options(parts.x)
    rows, count = len(x), len(parts.anchors)
    blocks = triton.cdiv(rows, ROWS)
    new = {"dtype": torch.float32, "device": x.device}
    shares, dc = torch.empty(rows, count, **new), torch.empty(rows, count, **new)
    by_anchor, by_alpha = torch.empty(blocks, 3, count, **new), torch.empty(blocks, **new)
    launch(
        _gradients, blocks,
        dy, x, branch, dx, shares, dc, by_anchor, by_alpha,
        *_shared(parts),
        *x.shape, branch.shape[1], count, *dy.stride(), *x.stride(), *branch.stride(), epsilon, **options,
    )  # fmt: skip
    dmeasure, dmasses, dbias = (each.sum(0) for each in by_anchor.unbind(1))
    found = [_sum_products(shares, dy, options), dmeasure, dmasses, by_alpha.sum()]
    if parts.weight is None:
        dbranch.copy_(dc.view(dbranch.shape))
    else:
        width = branch.shape[1]
        launch(
            _through, blocks * triton.cdiv(width, CHANNELS),
            dc, parts.weight.float().contiguous(), dbranch, rows, count, width, **options,
        )  # fmt: skip
        found += [_sum_products(dc, branch, options), dbias]
    return [dx, dbranch, *(each.to(part.dtype) for each, part in zip(found, parts.given()[2:], strict=True))]


def _sum_products(a: Tensor, b: Tensor, options: dict[str, Any]) -> Tensor:
    """The sum over rows of `a` `(rows, anchors)` times `b` `(rows, columns)`: `(anchors, columns)`."""
    (rows, count), columns = a.shape, b.shape[1]
    blocks = triton.cdiv(rows, ROWS)
    parts = min(blocks, PARTS)
    partial = torch.empty(parts, count, columns, dtype=torch.float32, device=a.device)
    launch(
        _sums, parts * triton.cdiv(count, ANCHORS) * triton.cdiv(columns, CHANNELS),
        a, b, partial, rows, count, columns, triton.cdiv(blocks, parts), *b.stride(), **options,
    )  # fmt: skip
    return partial.sum(0)


@triton.jit
def _apply(
    x_ptr,  # (rows, channels), any strides
    branch_ptr,  # (rows, width), any strides
    y_ptr,  # (rows, channels), contiguous
    anchors_ptr,  # (anchors, channels); this and what follows float32, contiguous
    measure_ptr,  # (anchors,)
    masses_ptr,  # (anchors,)
    alpha_ptr,  # ()
    weight_ptr,  # (anchors, width) or None
    bias_ptr,  # (anchors,) or None
    rows,
    channels,
    width,
    anchors,
    x_row,
    x_step,
    branch_row,
    branch_step,
    epsilon,
    ROWS: tl.constexpr,
    ANCHORS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program mixes CHANNELS channels of ROWS rows."""
    tiles = tl.cdiv(channels, CHANNELS)
    row = _places(tl.program_id(0) // tiles, ROWS)
    channel = (tl.program_id(0) % tiles) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    mean, inverse, peak = _norm(
        branch_ptr, weight_ptr, bias_ptr, measure_ptr, row, rows, width, anchors, branch_row, branch_step, epsilon,
        ROWS, ANCHORS, CHANNELS, PRECISION,
    )  # fmt: skip
    total = tl.zeros((ROWS, 1), tl.float32)
    mixed = tl.zeros((ROWS, CHANNELS), tl.float32)
    for start in range(0, anchors, ANCHORS):
        c, _ = _coordinates(
            branch_ptr, weight_ptr, bias_ptr, row, rows, width, start, anchors, branch_row, branch_step,
            ROWS, ANCHORS, CHANNELS, PRECISION,
        )  # fmt: skip
        power = tl.exp((c - mean) * inverse - peak) * _of_anchors(masses_ptr, start, anchors, ANCHORS)
        total += tl.sum(power, 1, keep_dims=True)
        below = start + tl.arange(0, ANCHORS)[:, None]
        some = tl.load(
            anchors_ptr + below * channels + channel, mask=(below < anchors) & (channel < channels), other=0.0
        )
        mixed = tl.dot(power, some, mixed, input_precision=PRECISION)
    inside = (row < rows) & (channel < channels)
    x = _load(x_ptr, row, channel, x_row, x_step, inside)
    alpha = tl.load(alpha_ptr)
    y = (1 - alpha) * x + alpha * (mixed / total)
    tl.store(y_ptr + row * channels + channel, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _gradients(
    dy_ptr,  # (rows, channels), any strides
    x_ptr,  # as dy
    branch_ptr,  # (rows, width), any strides
    dx_ptr,  # (rows, channels), contiguous
    shares_ptr,  # (rows, anchors): the weights times alpha; this and what follows float32, contiguous
    dc_ptr,  # (rows, anchors)
    by_anchor_ptr,  # (programs, 3, anchors): by measure, masses and bias
    by_alpha_ptr,  # (programs,)
    anchors_ptr,  # (anchors, channels)
    measure_ptr,  # (anchors,)
    masses_ptr,  # (anchors,)
    alpha_ptr,  # ()
    weight_ptr,  # (anchors, width) or None
    bias_ptr,  # (anchors,) or None
    rows,
    channels,
    width,
    anchors,
    dy_row,
    dy_step,
    x_row,
    x_step,
    branch_row,
    branch_step,
    epsilon,
    ROWS: tl.constexpr,
    ANCHORS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program takes ROWS rows; all but the sums over rows of products is done here."""
    row = _places(tl.program_id(0), ROWS)
    alpha = tl.load(alpha_ptr)
    mean, inverse, peak = _norm(
        branch_ptr, weight_ptr, bias_ptr, measure_ptr, row, rows, width, anchors, branch_row, branch_step, epsilon,
        ROWS, ANCHORS, CHANNELS, PRECISION,
    )  # fmt: skip
    total = tl.zeros((ROWS, 1), tl.float32)
    drawn = tl.zeros((ROWS, 1), tl.float32)  # the mean of `toward`
    middle = tl.zeros((ROWS, 1), tl.float32)  # the mean of n
    spread = tl.zeros((ROWS, 1), tl.float32)  # total times their covariance
    for start in range(0, anchors, ANCHORS):
        c, _ = _coordinates(
            branch_ptr, weight_ptr, bias_ptr, row, rows, width, start, anchors, branch_row, branch_step,
            ROWS, ANCHORS, CHANNELS, PRECISION,
        )  # fmt: skip
        toward = _toward(
            dy_ptr, anchors_ptr, row, rows, start, anchors, channels, dy_row, dy_step,
            ROWS, ANCHORS, CHANNELS, PRECISION,
        )  # fmt: skip
        n = (c - mean) * inverse
        power = tl.exp(n - peak) * _of_anchors(masses_ptr, start, anchors, ANCHORS)
        total, drawn, middle, spread = _merged(total, drawn, middle, spread, power, toward, n)
    slope = alpha * spread / total  # the sum over anchors of n times the gradient by it

    for start in range(0, anchors, ANCHORS):
        c, anchor = _coordinates(
            branch_ptr, weight_ptr, bias_ptr, row, rows, width, start, anchors, branch_row, branch_step,
            ROWS, ANCHORS, CHANNELS, PRECISION,
        )  # fmt: skip
        toward = _toward(
            dy_ptr, anchors_ptr, row, rows, start, anchors, channels, dy_row, dy_step,
            ROWS, ANCHORS, CHANNELS, PRECISION,
        )  # fmt: skip
        here = row < rows
        n = tl.where(here, (c - mean) * inverse, 0.0)
        relative = tl.exp(n - peak) / total
        w = relative * _of_anchors(masses_ptr, start, anchors, ANCHORS)
        pull = tl.where(here, alpha * (toward - drawn), 0.0)
        # The gradients by n add up to nothing, for the weights add up to 1; so only their products with n count.
        dc = (w * pull - _of_anchors(measure_ptr, start, anchors, ANCHORS) * n * slope) * inverse
        inside = here & (anchor < anchors)
        tl.store(shares_ptr + row * anchors + anchor, alpha * w, mask=inside)
        tl.store(dc_ptr + row * anchors + anchor, dc, mask=inside)
        place = by_anchor_ptr + tl.program_id(0).to(tl.int64) * 3 * anchors + anchor
        tl.store(place, tl.sum(-0.5 * n * n * slope, 0, keep_dims=True), mask=anchor < anchors)
        tl.store(place + anchors, tl.sum(pull * relative, 0, keep_dims=True), mask=anchor < anchors)
        tl.store(place + 2 * anchors, tl.sum(tl.where(here, dc, 0.0), 0, keep_dims=True), mask=anchor < anchors)

    along = tl.where(row < rows, drawn, 0.0)
    for start in range(0, channels, CHANNELS):
        channel = start + tl.arange(0, CHANNELS)[None, :]
        inside = (row < rows) & (channel < channels)
        dy = _load(dy_ptr, row, channel, dy_row, dy_step, inside)
        along -= tl.sum(dy * _load(x_ptr, row, channel, x_row, x_step, inside), 1, keep_dims=True)
        tl.store(dx_ptr + row * channels + channel, ((1 - alpha) * dy).to(dx_ptr.dtype.element_ty), mask=inside)
    tl.store(by_alpha_ptr + tl.program_id(0), tl.sum(along))


@triton.jit
def _sums(
    a_ptr,  # (rows, anchors), float32, contiguous
    b_ptr,  # (rows, columns), any strides
    partial_ptr,  # (parts, anchors, columns), float32
    rows,
    anchors,
    columns,
    blocks,  # of rows, for each part
    b_row,
    b_step,
    ROWS: tl.constexpr,
    ANCHORS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program sums products of ANCHORS and CHANNELS columns over its part of the rows."""
    wide = tl.cdiv(columns, CHANNELS)
    tiles = tl.cdiv(anchors, ANCHORS) * wide
    part, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    anchor = (tile // wide) * ANCHORS + tl.arange(0, ANCHORS)[:, None]
    column = (tile % wide) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    total = tl.zeros((ANCHORS, CHANNELS), tl.float32)
    for block in range(blocks):
        first = (part.to(tl.int64) * blocks + block) * ROWS
        along, down = first + tl.arange(0, ROWS)[None, :], first + tl.arange(0, ROWS)[:, None]
        a = tl.load(a_ptr + along * anchors + anchor, mask=(along < rows) & (anchor < anchors), other=0.0)
        b = _load(b_ptr, down, column, b_row, b_step, (down < rows) & (column < columns))
        total = tl.dot(a, b, total, input_precision=PRECISION)
    place = partial_ptr + (part.to(tl.int64) * anchors + anchor) * columns + column
    tl.store(place, total, mask=(anchor < anchors) & (column < columns))


@triton.jit
def _through(
    dc_ptr,  # (rows, anchors), float32, contiguous
    weight_ptr,  # (anchors, width), float32, contiguous
    dbranch_ptr,  # (rows, width), contiguous
    rows,
    anchors,
    width,
    ROWS: tl.constexpr,
    ANCHORS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program takes ROWS gradients by coordinates through CHANNELS columns of the projection."""
    tiles = tl.cdiv(width, CHANNELS)
    row = _places(tl.program_id(0) // tiles, ROWS)
    column = (tl.program_id(0) % tiles) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    for start in range(0, anchors, ANCHORS):
        anchor, below = start + tl.arange(0, ANCHORS)[None, :], start + tl.arange(0, ANCHORS)[:, None]
        dc = tl.load(dc_ptr + row * anchors + anchor, mask=(row < rows) & (anchor < anchors), other=0.0)
        weight = tl.load(weight_ptr + below * width + column, mask=(below < anchors) & (column < width), other=0.0)
        total = tl.dot(dc, weight, total, input_precision=PRECISION)
    inside = (row < rows) & (column < width)
    tl.store(dbranch_ptr + row * width + column, total.to(dbranch_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _norm(
    branch_ptr, weight_ptr, bias_ptr, measure_ptr, row, rows, width, anchors, branch_row, branch_step, epsilon,
    ROWS: tl.constexpr, ANCHORS: tl.constexpr, CHANNELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Mean of each row's coordinates, what normalises them, and the largest of them when normalised; `[ROWS, 1]`."""
    seen = tl.zeros((ROWS, 1), tl.float32)
    mean = tl.zeros((ROWS, 1), tl.float32)
    variance = tl.zeros((ROWS, 1), tl.float32)
    peak = tl.full((ROWS, 1), float("-inf"), tl.float32)
    for start in range(0, anchors, ANCHORS):
        c, anchor = _coordinates(
            branch_ptr, weight_ptr, bias_ptr, row, rows, width, start, anchors, branch_row, branch_step,
            ROWS, ANCHORS, CHANNELS, PRECISION,
        )  # fmt: skip
        p = _of_anchors(measure_ptr, start, anchors, ANCHORS)
        peak = tl.maximum(peak, tl.max(tl.where(anchor < anchors, c, float("-inf")), 1, keep_dims=True))
        seen, mean, _, variance = _merged(seen, mean, mean, variance, p, c, c)
    inverse = tl.rsqrt(variance + epsilon)
    return mean, inverse, (peak - mean) * inverse


@triton.jit
def _merged(total, mean_a, mean_b, spread, weights, a, b):
    """Total weight, two means and the sum of products about them, with a tile's numbers added; `[ROWS, 1]`."""
    added = tl.sum(weights + tl.zeros_like(a), 1, keep_dims=True)
    weights = weights / tl.maximum(added, 1e-37)  # so that of one anchor alone the mean is exact
    tile_a, tile_b = tl.sum(weights * a, 1, keep_dims=True), tl.sum(weights * b, 1, keep_dims=True)
    spread += tl.sum(weights * (a - tile_a) * (b - tile_b), 1, keep_dims=True) * added
    share = added / tl.maximum(total + added, 1e-37)
    spread += (tile_a - mean_a) * (tile_b - mean_b) * total * share
    return total + added, mean_a + (tile_a - mean_a) * share, mean_b + (tile_b - mean_b) * share, spread


@triton.jit
def _coordinates(
    branch_ptr, weight_ptr, bias_ptr, row, rows, width, start, anchors, branch_row, branch_step,
    ROWS: tl.constexpr, ANCHORS: tl.constexpr, CHANNELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Coordinates `[ROWS, ANCHORS]` by the anchors from `start` on, and those anchors `[1, ANCHORS]`."""
    anchor = start + tl.arange(0, ANCHORS)[None, :]
    if weight_ptr is None:
        c = _load(branch_ptr, row, anchor, branch_row, branch_step, (row < rows) & (anchor < anchors))
    else:
        c = tl.zeros((ROWS, ANCHORS), tl.float32) + _of_anchors(bias_ptr, start, anchors, ANCHORS)
        for first in range(0, width, CHANNELS):
            along, below = first + tl.arange(0, CHANNELS)[None, :], first + tl.arange(0, CHANNELS)[:, None]
            branch = _load(branch_ptr, row, along, branch_row, branch_step, (row < rows) & (along < width))
            weight = tl.load(weight_ptr + anchor * width + below, mask=(anchor < anchors) & (below < width), other=0.0)
            c = tl.dot(branch, weight, c, input_precision=PRECISION)
    return c, anchor


@triton.jit
def _toward(
    dy_ptr, anchors_ptr, row, rows, start, anchors, channels, dy_row, dy_step,
    ROWS: tl.constexpr, ANCHORS: tl.constexpr, CHANNELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """How the loss changes with each anchor's weight, but for alpha; `[ROWS, ANCHORS]`."""
    anchor = start + tl.arange(0, ANCHORS)[None, :]
    total = tl.zeros((ROWS, ANCHORS), tl.float32)
    for first in range(0, channels, CHANNELS):
        along, below = first + tl.arange(0, CHANNELS)[None, :], first + tl.arange(0, CHANNELS)[:, None]
        dy = _load(dy_ptr, row, along, dy_row, dy_step, (row < rows) & (along < channels))
        some = tl.load(anchors_ptr + anchor * channels + below, (anchor < anchors) & (below < channels), other=0.0)
        total = tl.dot(dy, some, total, input_precision=PRECISION)
    return total


@triton.jit
def _of_anchors(ptr, start, anchors, ANCHORS: tl.constexpr):
    """A number for each anchor, `[1, ANCHORS]`, zero beyond the last."""
    anchor = start + tl.arange(0, ANCHORS)[None, :]
    return tl.load(ptr + anchor, mask=anchor < anchors, other=0.0)


@triton.jit
def _load(ptr, row, column, row_stride, step, inside):
    return tl.load(ptr + row * row_stride + column.to(tl.int64) * step, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _places(block, ROWS: tl.constexpr):
    """Rows of a block `[ROWS, 1]`, int64, as offsets are."""
    return block.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]


def _rows(x: Tensor) -> Tensor:
    """`(rows, channels)`; a view wherever rows lie at equal steps."""
    return x.reshape(-1, x.shape[-1])


def _shared(parts: Parts) -> list[Tensor | None]:
    """What all rows share, as the kernels take it: float32, contiguous."""
    return [None if each is None else each.float().contiguous() for each in parts[2:]]


def _options(x: Tensor) -> dict[str, Any]:
    """What the kernels are specialised by."""
    tiles = {"ROWS": ROWS, "ANCHORS": ANCHORS, "CHANNELS": CHANNELS}
    return {**tiles, "PRECISION": products(x.dtype), "num_warps": WARPS, "num_stages": 1}
