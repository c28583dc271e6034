"""kappa as any function of a pair's tensors, block by block and made anew for gradients."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .blocks import slices
from .kappa import take

BLOCK_BYTES = 1 << 24  # of one block's values of kappa
COLUMNS = 256  # sources of a block at most

# By the number of axes that kappa's values have beside (batch, rows, columns): numbers, diagonals, matrices.
SUMS = ("bxy,bxyj->bxj", "bxyj,bxyj->bxj", "bxyij,bxyj->bxi")


@dataclass(frozen=True)
class PairwiseKappa:
    """A kernel that a function tells.

    Gradients reach what the function closes over as well as x, y, u and the measure. It is called on blocks of pairs,
    in backward again, so it must give the same each time. Not one opaque step: a compiler sees through it.

    Args:
        function: Called as `function(*x, *y)` with parts of the targets' tensors, `(batch, rows, 1, *)`, and of the
            sources', `(batch, 1 or rows, columns, *)`; gives `(batch, rows, columns)` numbers, `(..., channels)`
            diagonals or `(..., out, in)` matrices.
        x: The targets' tensors, `(batch, targets, *)` each.
        y: The sources', `(batch, sources, *)`.

    Raises:
        ValueError: The tensors do not agree in batch and points.
    """

    function: Callable[..., Tensor]
    x: tuple[Tensor, ...]
    y: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        if not self.x or not self.y or self.x[0].shape[0] != self.y[0].shape[0]:
            raise ValueError("targets and sources need a tensor each, with the same number of clouds")
        for side in (self.x, self.y):
            if any(each.ndim < 2 or each.shape[:2] != side[0].shape[:2] for each in side):
                shapes = [tuple(each.shape) for each in side]
                raise ValueError(f"tensors of points must be (batch, points, *) and agree in both, got {shapes}")

    @property
    def pairs(self) -> tuple[int, int, int]:
        """How many clouds, targets and sources."""
        return self.x[0].shape[0], self.x[0].shape[1], self.y[0].shape[1]

    def integrate(self, u: Tensor, measure: Tensor, index: Tensor | None) -> Tensor:
        """As `Kappa`."""
        kind = self._kind(u)
        size = max(1, BLOCK_BYTES // (4 * max(1, len(u) * COLUMNS * math.prod(kind))))
        channels = kind[0] if kind else u.shape[2]
        parts = [self._rows(rows, channels, u, measure, index) for rows in slices(self.pairs[1], size)]
        return torch.cat([u.new_zeros(len(u), 0, channels), *(part.to(u.dtype) for part in parts)], 1)

    def select(self, index: Tensor) -> "PairwiseKappa":
        """As `Kappa`."""
        return PairwiseKappa(self.function, self.x, tuple(take(each, index) for each in self.y))

    def _kind(self, u: Tensor) -> tuple[int, ...]:
        """The shape of kappa for one pair."""
        with torch.no_grad():
            one = self.function(*(each[:, :1, None] for each in self.x), *(each[:, None, :1] for each in self.y))
        kind = tuple(one.shape[3:])
        if not 3 <= one.ndim <= 5 or (kind and kind[-1] != u.shape[2]):
            raise ValueError(
                f"kappa must give (batch, rows, columns) and nothing, ({u.shape[2]},) or (out, {u.shape[2]}) behind, "
                f"as u has channels; got {tuple(one.shape)} for one pair"
            )
        return kind

    def _rows(self, rows: slice, channels: int, u: Tensor, measure: Tensor, index: Tensor | None) -> Tensor:
        """The integral at some targets, in the type that sums are in."""
        real = torch.float64 if u.dtype == torch.float64 else torch.float32
        total = torch.zeros(len(u), rows.stop - rows.start, channels, dtype=real, device=u.device)
        for columns in slices(measure.shape[-1], COLUMNS):
            given = (rows, columns, u, measure, index)
            if torch.is_grad_enabled():
                total = total + checkpoint(self._block, *given, use_reentrant=False, preserve_rng_state=False)
            else:
                total += self._block(*given)
        return total

    def _block(self, rows: slice, columns: slice, u: Tensor, measure: Tensor, index: Tensor | None) -> Tensor:
        """What some sources give some targets."""
        if index is None:
            *y, u, measure = (each[:, None, columns] for each in (*self.y, u, measure))
        else:
            *y, u = (take(each, index[:, rows, columns]) for each in (*self.y, u))
            measure = measure[:, rows, columns]
        kappa = self.function(*(each[:, rows, None] for each in self.x), *y)
        real = torch.float64 if u.dtype == torch.float64 else torch.float32
        with torch.autocast(u.device.type, enabled=False):
            values = u.to(real) * measure.to(real)[..., None]
            return torch.einsum(SUMS[kappa.ndim - 3], kappa.to(real), values)
