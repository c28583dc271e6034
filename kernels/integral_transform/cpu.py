"""The perceptron's integral, streamed over blocks of targets and sources; gradients make each block anew.

Two steps of the literal sum are put off until they are cheap. The second layer is linear, so the hidden values of all
sources are summed first, each times its features, and it is applied once per target: `width x in` products a pair in
place of `width x in x out`. The first layer's products of two factors are linear in the source's, so for each target
they are one matrix: a plain product of matrices, no cosine and no element-wise product per pair.

A block of hidden values is `(rows, width, columns)`, so that its sum over sources is a product of matrices too. Its
sources are `(1, columns, *)`, or with an index, where each target has its own, `(rows, columns, *)`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from . import operator, second_layer
from .blocks import slices
from .parts import Parts

BLOCK_BYTES = 1 << 21  # of one block's hidden values, which stay in cache from one step to the next
COLUMNS = 256  # sources of a block at most


def integrate(parts: Parts, index: Tensor | None) -> Tensor:
    """The integral `(batch, targets, out)`; `index` `(batch, targets, selected)`, or None for all sources."""
    y = parts.u.new_empty(*parts.left.shape[:2], len(parts.weight))
    for sample, cloud in enumerate(_clouds(parts, index)):
        for rows in cloud.row_blocks():
            matrices, moments = cloud.operator(rows), cloud.no_moments(rows)
            for block in cloud.blocks(rows):
                moments.add(F.gelu(_first_layer(cloud.parts, block, matrices)), block.values())
            y[sample, rows] = second_layer.apply(moments.joined(), cloud.parts.weight)
    return y


def gradients(dy: Tensor, parts: Parts, index: Tensor | None) -> Parts:
    """Gradients by all parts."""
    real = _real_type(parts)
    sums = Parts(*(torch.zeros(part.shape, dtype=real, device=part.device) for part in parts))
    for sample, cloud in enumerate(_clouds(parts, index)):
        own = sums.of_sample(sample)
        for rows in cloud.row_blocks():
            _add_gradients(dy[sample, rows].to(real), cloud, rows, own)
    return Parts(*(total.to(part.dtype) for total, part in zip(sums, parts, strict=True)))


@dataclass(frozen=True)
class _Block:
    """Some targets and some sources, and what the sources have; `(1 or rows, columns, *)`."""

    rows: slice
    columns: slice
    index: Tensor | None  # (rows, columns): where in the cloud the sources are, if each target has its own
    right: Tensor
    factors: Tensor
    points: Tensor
    u: Tensor
    measure: Tensor

    def values(self) -> Tensor:
        """U times the measure, `(rows, columns, in)`."""
        return (self.u * self.measure[..., None]).expand(self.rows.stop - self.rows.start, -1, -1)

    def sum_products(self, a: Tensor, b: Tensor) -> Tensor:
        """Sum of `a` `(rows, k, columns)` times `b` `(rows, k, f)` over k, and over rows that share the sources."""
        return a.mT @ b if self.index is not None else (a.flatten(0, 1).mT @ b.flatten(0, 1))[None]

    def sum_rows(self, a: Tensor) -> Tensor:
        """Sum of `a` `(rows, columns, *)` over rows that share the sources."""
        return a if self.index is not None else a.sum(0, keepdim=True)

    def give(self, share: Tensor, total: Tensor) -> None:
        """Add `share` `(1 or rows, columns, *)` to the `total` `(sources, *)` of the cloud."""
        if self.index is None:
            total[self.columns] += share[0]
        else:
            total.index_add_(0, self.index.reshape(-1), share.flatten(0, 1))


@dataclass(frozen=True)
class _Moments:
    """Sums over sources; in two parts, for PyTorch adds a batch of products at once to contiguous memory alone."""

    hidden: Tensor  # (rows, width, in), hidden values times features
    plain: Tensor  # (rows, 1, in), the features, which the bias multiplies

    def add(self, hidden: Tensor, values: Tensor) -> None:
        """Take some more sources in."""
        self.hidden.baddbmm_(hidden, values)
        self.plain.add_(values.sum(1, keepdim=True))

    def joined(self) -> Tensor:
        """As the second layer takes them."""
        return torch.cat([self.hidden, self.plain], 1)


class _Cloud:
    """One sample and the blocks that make it up."""

    def __init__(self, parts: Parts, index: Tensor | None) -> None:
        if index is None:  # sources next to each other in memory, as they are in a block
            parts = parts._replace(right=parts.right.mT.contiguous().mT)
        self.parts = parts
        self.index = index
        self.targets, self.width = parts.left.shape
        self.columns = len(parts.right) if index is None else index.shape[1]

    def row_blocks(self) -> Iterator[slice]:
        """Targets at once, so many that their hidden values and operators stay in cache."""
        longest = max(min(COLUMNS, self.columns), self.parts.factors_y.shape[1], 1)
        return slices(self.targets, max(1, BLOCK_BYTES // (4 * self.width * longest)))

    def blocks(self, rows: slice) -> Iterator[_Block]:
        """All sources of these targets."""
        parts = self.parts
        for columns in slices(self.columns, COLUMNS):
            index = None if self.index is None else self.index[rows, columns]
            sources = (parts.right, parts.factors_y, parts.points_y, parts.u)
            right, factors, points, u = (each[None, columns] if index is None else each[index] for each in sources)
            measure = parts.measure[None, columns] if index is None else parts.measure[rows, columns]
            yield _Block(rows, columns, index, right, factors, points, u, measure)

    def operator(self, rows: slice) -> Tensor:
        """For each target the matrix that takes a source's factors into the first layer."""
        return operator.of_targets(self.parts.factors_x[rows], self.parts.factor_weight)

    def no_moments(self, rows: slice) -> "_Moments":
        """Zeros, to sum hidden values times features in."""
        u, count = self.parts.u, rows.stop - rows.start
        return _Moments(u.new_zeros(count, self.width, u.shape[1]), u.new_zeros(count, 1, u.shape[1]))


def _first_layer(parts: Parts, block: _Block, matrices: Tensor) -> Tensor:
    """What goes into GELU, `(rows, width, columns)`."""
    left = parts.left[block.rows, :, None]
    first = left.new_empty(len(left), left.shape[1], block.right.shape[1])  # by itself it would come out transposed
    torch.add(left, block.right.mT, out=first)
    if parts.points_x.shape[1]:
        first.addcmul_(parts.distance_weight[:, None], _distances(parts, block)[:, None])
    if parts.factors_y.shape[1]:
        first.baddbmm_(matrices, block.factors.mT.expand(len(first), -1, -1))
    return first


def _distances(parts: Parts, block: _Block) -> Tensor:
    """`(rows, columns)`; by differences, since far from the origin the product form cancels."""
    x = parts.points_x[block.rows, None]
    y = block.points.expand(len(x), -1, -1)
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")[:, 0]


def _add_gradients(dy: Tensor, cloud: _Cloud, rows: slice, sums: Parts) -> None:
    """Add what these targets give; `dy` `(rows, out)`."""
    parts = cloud.parts
    matrices, moments = cloud.operator(rows), cloud.no_moments(rows)
    doperator, dmoments = torch.zeros_like(matrices), second_layer.moments_gradient(dy, parts.weight)
    dhidden = dmoments[:, :-1].contiguous()
    for block in cloud.blocks(rows):
        first, values = _first_layer(parts, block, matrices), block.values()
        hidden = F.gelu(first)
        moments.add(hidden, values)
        dvalues = block.sum_products(hidden, dhidden) + block.sum_rows(dmoments[:, -1:])
        _add_values(dvalues, block, sums)
        dfirst = torch.ops.aten.gelu_backward(dhidden @ values.mT, first)
        doperator.baddbmm_(dfirst, block.factors.expand(len(dfirst), -1, -1))
        block.give(block.sum_products(dfirst, matrices), sums.factors_y)
        sums.left[rows] += dfirst.sum(-1)
        block.give(block.sum_rows(dfirst.mT), sums.right)
        _add_distances(dfirst, parts, block, sums)
    sums.weight.add_(second_layer.weight_gradient(dy, moments.joined(), parts.weight))
    factors = parts.factors_x[rows]
    operator.add_gradients(doperator, factors, parts.factor_weight, sums.factors_x[rows], sums.factor_weight)


def _add_values(dvalues: Tensor, block: _Block, sums: Parts) -> None:
    block.give(dvalues * block.measure[..., None], sums.u)
    dmeasure = (dvalues * block.u).sum(-1)
    if block.index is None:
        sums.measure[block.columns] += dmeasure[0]
    else:
        sums.measure[block.rows, block.columns] += dmeasure


def _add_distances(dfirst: Tensor, parts: Parts, block: _Block, sums: Parts) -> None:
    """By weight and points; a point on another one has no direction to move in and gets none."""
    if not parts.points_x.shape[1]:
        return
    distances = _distances(parts, block)
    sums.distance_weight.add_((dfirst @ distances[..., None]).sum((0, 2)))
    pull = (parts.distance_weight @ dfirst) / distances.where(distances > 0, torch.inf)
    moves = pull[..., None] * (parts.points_x[block.rows, None] - block.points)
    sums.points_x[block.rows] += moves.sum(1)
    block.give(block.sum_rows(-moves), sums.points_y)


def _clouds(parts: Parts, index: Tensor | None) -> Iterator[_Cloud]:
    real = _real_type(parts)
    parts = Parts(*(part.to(real) for part in parts))
    for sample in range(len(parts.left)):
        yield _Cloud(parts.of_sample(sample), None if index is None else index[sample])


def _real_type(parts: Parts) -> torch.dtype:
    return torch.float64 if parts.u.dtype == torch.float64 else torch.float32
