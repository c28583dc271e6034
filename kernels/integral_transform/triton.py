"""The perceptron's integral on a GPU: a program takes one point against all others that it meets, a tile at a time.

As in `cpu.py`, a point's matrix takes the others' factors into the first layer, and the second layer is put off until
the sums are there. Seen from a source, the targets are the others, and a matrix of its own takes their factors in. So
the same two kernels serve both sides: forward takes the moments of each target; backward takes moments and slopes of
each target, then of each source. Pairs are made anew each time and never leave their program, and what leaves it
belongs to its point alone: no atomics, the same bits in every run. Matrices and moments are made for some points at
once, in memory that does not grow with the clouds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..launch import launch, products
from . import operator, second_layer
from .blocks import slices
from .parts import Parts

CHUNK_BYTES = 1 << 26  # of the matrices of points taken at once
WIDTH = 32  # hidden values of a pair in one program
OTHERS = 32  # points met at once
FEATURES = 32  # of theirs at once
CHANNELS = 32  # of moments in one program
COLUMNS = 64  # of a matrix's gradient in one program
WARPS = 4


def integrate(parts: Parts, index: Tensor | None) -> Tensor:
    """The integral, as `cpu.integrate`."""
    y = parts.u.new_empty(*parts.left.shape[:2], len(parts.weight))
    flat, flat_y = _flat(parts), y.view(-1, y.shape[2])
    lists = None if index is None else _Lists.of_targets(index, parts)
    targets, values = _Side.of_targets(flat, parts, lists), _values(flat, lists)
    for rows in _chunks(targets):
        matrices = operator.of_targets(flat.factors_x[rows], flat.factor_weight)
        flat_y[rows] = second_layer.apply(targets.moments(rows, matrices, values), flat.weight)
    return y


def gradients(dy: Tensor, parts: Parts, index: Tensor | None) -> Parts:
    """Gradients by all parts, as `cpu.gradients`."""
    flat, dy = _flat(parts), dy.float().reshape(-1, dy.shape[2])
    sums = Parts(*(torch.zeros_like(part) for part in flat))
    lists = None if index is None else _Lists.of_targets(index, parts)
    _add_targets(dy, flat, _Side.of_targets(flat, parts, lists), _values(flat, lists), sums)
    lists = None if index is None or lists is None else lists.turned(index, len(flat.u))
    _add_sources(dy, flat, _Side.of_sources(flat, parts, lists), _values(flat, lists), sums)
    return Parts(*(total.view(part.shape).to(part.dtype) for total, part in zip(sums, parts, strict=True)))


def _add_targets(dy: Tensor, flat: Parts, targets: "_Side", values: Tensor, sums: Parts) -> None:
    """Gradients by what targets have and by what all share; and by the weights of lists."""
    for rows in _chunks(targets):
        factors = flat.factors_x[rows]
        matrices = operator.of_targets(factors, flat.factor_weight)
        moments = targets.moments(rows, matrices, values)
        sums.weight.add_(second_layer.weight_gradient(dy[rows], moments, flat.weight))
        dmoments = second_layer.moments_gradient(dy[rows], flat.weight)
        slopes = targets.slopes(rows, matrices, values, dmoments)
        operator.add_gradients(slopes.matrices, factors, flat.factor_weight, sums.factors_x[rows], sums.factor_weight)
        sums.left[rows], sums.points_x[rows] = slopes.linear, slopes.points
        sums.distance_weight.add_(slopes.distances)
        if targets.lists is not None:
            sums.measure[rows] = slopes.weights.view(sums.measure[rows].shape)


def _add_sources(dy: Tensor, flat: Parts, sources: "_Side", values: Tensor, sums: Parts) -> None:
    """Gradients by what sources have."""
    turned = flat.weight if flat.weight.ndim == 2 else flat.weight.transpose(0, 1)
    for rows in _chunks(sources):
        matrices = operator.of_sources(flat.factors_y[rows], flat.factor_weight)
        dvalues = second_layer.apply(sources.moments(rows, matrices, dy), turned)
        if sources.lists is None:
            sums.measure[rows] = (dvalues * flat.u[rows]).sum(1)
            dvalues *= flat.measure[rows, None]
        sums.u[rows] = dvalues
        slopes = sources.slopes(rows, matrices, dy, second_layer.moments_gradient(values[rows], turned))
        sums.factors_y[rows] = operator.sources_gradient(slopes.matrices, flat.factor_weight)
        sums.right[rows], sums.points_y[rows] = slopes.linear, slopes.points


@dataclass(frozen=True)
class _Lists:
    """Which others each point meets, where that is not its whole cloud."""

    starts: Tensor  # (points + 1,): where each point's list begins, and the last ends
    others: Tensor  # (length of all lists,)
    weights: Tensor  # (length of all lists,)

    @classmethod
    def of_targets(cls, index: Tensor, parts: Parts) -> "_Lists":
        """What each target selects."""
        batch, targets, selected = index.shape
        clouds = torch.arange(batch, device=index.device)[:, None, None]
        starts = torch.arange(batch * targets + 1, device=index.device) * selected
        others = (index + clouds * parts.u.shape[1]).flatten()
        return cls(starts, others, parts.measure.float().flatten())

    def turned(self, index: Tensor, sources: int) -> "_Lists":
        """The targets that select each source."""
        order = self.others.argsort(stable=True)
        starts = torch.searchsorted(self.others[order], torch.arange(sources + 1, device=order.device))
        return _Lists(starts, order // max(index.shape[2], 1), self.weights[order])


class _Slopes(NamedTuple):
    """Gradients by what some points have and by what they share."""

    linear: Tensor  # (points, width)
    matrices: Tensor  # (points, width, features)
    points: Tensor  # (points, axes)
    distances: Tensor  # (width,)
    weights: Tensor  # (length of their lists,)


@dataclass(frozen=True)
class _Side:
    """Points, one cloud after the other, and the others that they are taken against; float32, contiguous."""

    linear: Tensor  # (points, width)
    points: Tensor  # (points, axes)
    other_linear: Tensor  # (others, width)
    other_points: Tensor  # (others, axes)
    other_factors: Tensor  # (others, features)
    distance_weight: Tensor  # (width,)
    sizes: tuple[int, int]  # points and others of one cloud
    lists: _Lists | None  # None where a point meets all others of its cloud
    precision: str

    @classmethod
    def of_targets(cls, flat: Parts, parts: Parts, lists: _Lists | None) -> "_Side":
        """Targets against their sources."""
        sizes = parts.left.shape[1], parts.right.shape[1]
        tensors = flat.left, flat.points_x, flat.right, flat.points_y, flat.factors_y, flat.distance_weight
        return cls(*tensors, sizes, lists, products(parts.u.dtype))

    @classmethod
    def of_sources(cls, flat: Parts, parts: Parts, lists: _Lists | None) -> "_Side":
        """Sources against their targets."""
        sizes = parts.right.shape[1], parts.left.shape[1]
        factors = flat.factors_x.flatten(1)
        tensors = flat.right, flat.points_y, flat.left, flat.points_x, factors, flat.distance_weight
        return cls(*tensors, sizes, lists, products(parts.u.dtype))

    def moments(self, rows: slice, matrices: Tensor, vectors: Tensor) -> Tensor:
        """Sums over others of hidden values, the last a constant 1, times the others' `vectors` `(others, channels)`.

        Args:
            rows: The points.
            matrices: Theirs, `(points, width, features)`.
            vectors: The others'.

        Returns:
            `(points, width + 1, channels)`.
        """
        points, (width, channels) = rows.stop - rows.start, (self.linear.shape[1], vectors.shape[1])
        moments = vectors.new_empty(points, width + 1, channels)
        launch(
            _moments, points * triton.cdiv(width, WIDTH) * triton.cdiv(channels, CHANNELS),
            moments, matrices, vectors, *self._arguments(rows), channels, CHANNELS=CHANNELS, **self._options(),
        )  # fmt: skip
        return moments

    def slopes(self, rows: slice, matrices: Tensor, vectors: Tensor, dmoments: Tensor) -> _Slopes:
        """What the gradient by the moments, `(points, width + 1, channels)`, gives."""
        points, (width, features), axes = len(matrices), matrices.shape[1:], self.points.shape[1]
        tiles, new = triton.cdiv(width, WIDTH), self.linear.new_empty
        linear, distances, dmatrices = new(points, width), new(points, width), new(points, width, features)
        dpoints, begin, length = new(tiles, points, axes), 0, 0
        if self.lists is not None:
            begin, end = self.lists.starts[[rows.start, rows.stop]].tolist()
            length = end - begin
        weights = new(tiles, length)
        launch(
            _slopes, points * tiles * max(1, triton.cdiv(features, COLUMNS)),
            linear, dmatrices, distances, dpoints, weights, length, begin, dmoments,
            matrices, vectors, *self._arguments(rows), vectors.shape[1], points,
            CHANNELS=CHANNELS, COLUMNS=COLUMNS, **self._options(),
        )  # fmt: skip
        return _Slopes(linear, dmatrices, dpoints.sum(0), distances.sum(0), weights.sum(0))

    def _arguments(self, rows: slice) -> tuple[Any, ...]:
        lists = (None, None, None)
        if self.lists is not None:
            lists = self.lists.starts, self.lists.others, self.lists.weights
        tensors = self.linear, self.points, self.other_linear, self.other_points, self.other_factors
        sizes = self.linear.shape[1], self.other_factors.shape[1], self.points.shape[1]
        return *tensors, self.distance_weight, *lists, rows.start, *self.sizes, *sizes

    def _options(self) -> dict[str, Any]:
        tiles = {"WIDTH": WIDTH, "OTHERS": OTHERS, "FEATURES": FEATURES}
        axes = triton.next_power_of_2(max(self.points.shape[1], 1))
        return {**tiles, "AXES": axes, "PRECISION": self.precision, "num_warps": WARPS, "num_stages": 1}


@triton.jit
def _moments(
    moments_ptr,  # (rows, width + 1, channels); all float32, contiguous
    matrices_ptr,  # (rows, width, features)
    vectors_ptr,  # (others, channels)
    linear_ptr,  # (points, width); this and what follows as in _Side
    points_ptr,
    other_linear_ptr,
    other_points_ptr,
    other_factors_ptr,
    distance_weight_ptr,
    starts_ptr,  # as in _Lists, or None
    others_ptr,
    weights_ptr,
    first_row,
    own_count,
    other_count,
    width,
    features,
    axes,
    channels,
    CHANNELS: tl.constexpr,
    WIDTH: tl.constexpr,
    OTHERS: tl.constexpr,
    FEATURES: tl.constexpr,
    AXES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program sums WIDTH hidden values times CHANNELS channels for one point."""
    program, wide = tl.program_id(0), tl.cdiv(channels, CHANNELS)
    tiles = tl.cdiv(width, WIDTH)
    row, tile = (program // (wide * tiles)).to(tl.int64), (program // wide) % tiles
    k = tile * WIDTH + tl.arange(0, WIDTH)[:, None]
    channel = (program % wide) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    own = first_row + row
    start, stop = _range(starts_ptr, own, own_count, other_count)
    sums = tl.zeros((WIDTH, CHANNELS), tl.float32)
    total = tl.zeros((1, CHANNELS), tl.float32)
    for at in range(start, stop, OTHERS):
        other, weight, inside = _met(others_ptr, weights_ptr, at, stop, OTHERS)
        first, _, _ = _first(
            matrices_ptr, linear_ptr, points_ptr, other_linear_ptr, other_points_ptr, other_factors_ptr,
            distance_weight_ptr, row, own, other, inside, k, width, features, axes,
            WIDTH, OTHERS, FEATURES, AXES, PRECISION,
        )  # fmt: skip
        hidden, _ = _gelu(first)
        down = tl.trans(other)
        values = tl.load(vectors_ptr + down * channels + channel, tl.trans(inside) & (channel < channels), other=0.0)
        values *= tl.trans(weight)
        sums = tl.dot(hidden, values, sums, input_precision=PRECISION)
        total += tl.sum(values, 0, keep_dims=True)
    place = moments_ptr + row * (width + 1) * channels
    tl.store(place + k * channels + channel, sums, mask=(k < width) & (channel < channels))
    alone = tile + tl.zeros((1, 1), tl.int32) == 0
    tl.store(place + width * channels + channel, total, mask=(channel < channels) & alone)


@triton.jit
def _slopes(
    dlinear_ptr,  # (rows, width)
    dmatrices_ptr,  # (rows, width, features)
    ddistances_ptr,  # (rows, width)
    dpoints_ptr,  # (tiles of width, rows, axes)
    dweights_ptr,  # (tiles of width, length)
    length,  # of the rows' lists
    begin,  # of the first row's list
    dmoments_ptr,  # (rows, width + 1, channels)
    matrices_ptr,  # this and what follows as in _moments
    vectors_ptr,
    linear_ptr,
    points_ptr,
    other_linear_ptr,
    other_points_ptr,
    other_factors_ptr,
    distance_weight_ptr,
    starts_ptr,
    others_ptr,
    weights_ptr,
    first_row,
    own_count,
    other_count,
    width,
    features,
    axes,
    channels,
    rows,
    CHANNELS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    OTHERS: tl.constexpr,
    FEATURES: tl.constexpr,
    AXES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program takes WIDTH hidden values and COLUMNS columns of one point's matrix; the first of them the rest."""
    program, wide = tl.program_id(0), tl.maximum(tl.cdiv(features, COLUMNS), 1)
    tiles = tl.cdiv(width, WIDTH)
    row, tile = (program // (wide * tiles)).to(tl.int64), (program // wide) % tiles
    k = tile * WIDTH + tl.arange(0, WIDTH)[:, None]
    column = (program % wide) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    own, alone = first_row + row, program % wide + tl.zeros((1, 1), tl.int32) == 0
    dmoments_ptr += row * (width + 1) * channels
    start, stop = _range(starts_ptr, own, own_count, other_count)
    slope = tl.load(distance_weight_ptr + k, mask=k < width, other=0.0)
    dlinear = tl.zeros((WIDTH, 1), tl.float32)
    ddistances = tl.zeros((WIDTH, 1), tl.float32)
    dpoints = tl.zeros((AXES, 1), tl.float32)
    dmatrix = tl.zeros((WIDTH, COLUMNS), tl.float32)
    for at in range(start, stop, OTHERS):
        other, weight, inside = _met(others_ptr, weights_ptr, at, stop, OTHERS)
        first, difference, distance = _first(
            matrices_ptr, linear_ptr, points_ptr, other_linear_ptr, other_points_ptr, other_factors_ptr,
            distance_weight_ptr, row, own, other, inside, k, width, features, axes,
            WIDTH, OTHERS, FEATURES, AXES, PRECISION,
        )  # fmt: skip
        hidden, steepness = _gelu(first)
        dhidden, constant = _dhidden(
            dmoments_ptr, vectors_ptr, other, inside, k, width, channels, WIDTH, OTHERS, CHANNELS, PRECISION
        )
        if starts_ptr is not None:
            gained = tl.sum(hidden * dhidden, 0, keep_dims=True) + tl.where(tile == 0, constant, 0.0)
            place = dweights_ptr + tile.to(tl.int64) * length + (at - begin) + tl.arange(0, OTHERS)[None, :]
            tl.store(place, gained, mask=inside & alone)
        dfirst = dhidden * weight * steepness
        dlinear += tl.sum(dfirst, 1, keep_dims=True)
        ddistances += tl.sum(dfirst * distance, 1, keep_dims=True)
        pull = tl.where(distance > 0, tl.sum(dfirst * slope, 0, keep_dims=True) / tl.maximum(distance, 1e-37), 0.0)
        dpoints += tl.sum(pull * difference, 1, keep_dims=True)
        down = tl.trans(other)
        factors = tl.load(
            other_factors_ptr + down * features + column, tl.trans(inside) & (column < features), other=0.0
        )
        dmatrix = tl.dot(dfirst, factors, dmatrix, input_precision=PRECISION)
    here = k < width
    tl.store(dlinear_ptr + row * width + k, dlinear, mask=here & alone)
    tl.store(ddistances_ptr + row * width + k, ddistances, mask=here & alone)
    axis = tl.arange(0, AXES)[:, None]
    tl.store(dpoints_ptr + (tile.to(tl.int64) * rows + row) * axes + axis, dpoints, mask=(axis < axes) & alone)
    place = dmatrices_ptr + (row * width + k) * features + column
    tl.store(place, dmatrix, mask=here & (column < features))


@triton.jit
def _range(starts_ptr, own, own_count, other_count):
    """Where the others that a point meets begin and end, int64."""
    if starts_ptr is None:
        start = (own // own_count) * other_count
        stop = start + other_count
    else:
        start = tl.load(starts_ptr + own)
        stop = tl.load(starts_ptr + own + 1)
    return start, stop


@triton.jit
def _met(others_ptr, weights_ptr, at, stop, OTHERS: tl.constexpr):
    """Some others, int64, as offsets are, their weights in the sum, and which of them there are; `[1, OTHERS]`."""
    other = at + tl.arange(0, OTHERS)[None, :].to(tl.int64)
    inside = other < stop
    weight = inside.to(tl.float32)
    if others_ptr is not None:
        weight = tl.load(weights_ptr + other, mask=inside, other=0.0)
        other = tl.load(others_ptr + other, mask=inside, other=0)
    return other, weight, inside


@triton.jit
def _first(
    matrices_ptr, linear_ptr, points_ptr, other_linear_ptr, other_points_ptr, other_factors_ptr, distance_weight_ptr,
    row, own, other, inside, k, width, features, axes,
    WIDTH: tl.constexpr, OTHERS: tl.constexpr, FEATURES: tl.constexpr, AXES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What goes into GELU `[WIDTH, OTHERS]`, the points' differences `[AXES, OTHERS]` and distances `[1, OTHERS]`."""
    axis, here = tl.arange(0, AXES)[:, None], k < width
    place = tl.load(points_ptr + own * axes + axis, mask=axis < axes, other=0.0)
    difference = place - tl.load(other_points_ptr + other * axes + axis, mask=(axis < axes) & inside, other=0.0)
    distance = tl.sqrt(tl.sum(difference * difference, 0, keep_dims=True))
    first = tl.load(linear_ptr + own * width + k, mask=here, other=0.0)
    first += tl.load(other_linear_ptr + other * width + k, mask=here & inside, other=0.0)
    first += tl.load(distance_weight_ptr + k, mask=here, other=0.0) * distance
    for start in range(0, features, FEATURES):
        along, below = start + tl.arange(0, FEATURES)[None, :], start + tl.arange(0, FEATURES)[:, None]
        matrix = tl.load(matrices_ptr + (row * width + k) * features + along, here & (along < features), other=0.0)
        factors = tl.load(other_factors_ptr + other * features + below, inside & (below < features), other=0.0)
        first = tl.dot(matrix, factors, first, input_precision=PRECISION)
    return first, difference, distance


@triton.jit
def _dhidden(
    dmoments_ptr, vectors_ptr, other, inside, k, width, channels,
    WIDTH: tl.constexpr, OTHERS: tl.constexpr, CHANNELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients by the hidden values `[WIDTH, OTHERS]` and by the constant 1 `[1, OTHERS]`, but for the weights."""
    dhidden = tl.zeros((WIDTH, OTHERS), tl.float32)
    constant = tl.zeros((1, OTHERS), tl.float32)
    for start in range(0, channels, CHANNELS):
        along, below = start + tl.arange(0, CHANNELS)[None, :], start + tl.arange(0, CHANNELS)[:, None]
        values = tl.load(vectors_ptr + other * channels + below, mask=inside & (below < channels), other=0.0)
        here = (k < width) & (along < channels)
        dmoments = tl.load(dmoments_ptr + k * channels + along, mask=here, other=0.0)
        dhidden = tl.dot(dmoments, values, dhidden, input_precision=PRECISION)
        last = tl.load(dmoments_ptr + width * channels + below, mask=below < channels, other=0.0)
        constant += tl.sum(last * values, 0, keep_dims=True)
    return dhidden, constant


@triton.jit
def _gelu(x):
    """GELU and its derivative."""
    share = 0.5 + 0.5 * tl.erf(x * 0.7071067811865476)
    return x * share, share + x * tl.exp(-0.5 * x * x) * 0.3989422804014327


def _flat(parts: Parts) -> Parts:
    """All of float32 and contiguous, one cloud after the other."""
    shared = ("factor_weight", "distance_weight", "weight")
    real = {name: part.float().contiguous() for name, part in parts._asdict().items()}
    if not parts.points_x.shape[2]:  # without axes all points are at one place, and nobody set the weight
        real["distance_weight"] = torch.zeros_like(parts.distance_weight, dtype=torch.float32)
    flat = {name: part if name in shared else part.flatten(0, 1) for name, part in real.items()}
    return Parts(**flat)


def _values(flat: Parts, lists: _Lists | None) -> Tensor:
    """U, times the measure but for lists, which have weights."""
    return flat.u * flat.measure[:, None] if lists is None else flat.u


def _chunks(side: _Side) -> Iterator[slice]:
    """Points at once, so many that their matrices have room."""
    (points, width), features = side.linear.shape, side.other_factors.shape[1]
    return slices(points, max(1, CHUNK_BYTES // (4 * max(width * features, 1))))
