"""What every kappa can do, and how sources are taken from a cloud."""

from typing import Protocol, Self

import torch
from torch import Tensor


class Kappa(Protocol):
    """A kernel of pairs, as a record of tensors."""

    @property
    def pairs(self) -> tuple[int, int, int]:
        """How many clouds, targets and sources."""
        ...

    def integrate(self, u: Tensor, measure: Tensor, index: Tensor | None) -> Tensor:
        """The integral `(batch, targets, out)`.

        Args:
            u: `(batch, sources, in)`.
            measure: `(batch, sources)`, or with an index `(batch, targets, selected)`.
            index: `(batch, targets, selected)`, the sources of each target; None for all.
        """
        ...

    def select(self, index: Tensor) -> Self:
        """The same with the sources at `index` `(batch, selected)` only."""
        ...


def take(sources: Tensor, index: Tensor) -> Tensor:
    """From `(batch, sources, *)` and an index `(batch, *selected)` to `(batch, *selected, *)`."""
    batch = torch.arange(len(sources), device=sources.device).view(-1, *(1 for _ in index.shape[1:]))
    return sources[batch, index]
