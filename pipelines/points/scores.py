"""How often a classifier is right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..scores import bootstrap_interval


@dataclass(frozen=True)
class Confusion:
    """How many clouds of each class were taken for which.

    Args:
        counts: `(truth, prediction)`.
        names: The classes.
    """

    counts: np.ndarray
    names: Sequence[str]

    @classmethod
    def of(cls, labels: np.ndarray, predictions: np.ndarray, names: Sequence[str]) -> "Confusion":
        """Count them."""
        counts = np.zeros((len(names), len(names)), dtype=np.int64)
        np.add.at(counts, (labels, predictions), 1)
        return cls(counts, names)

    @property
    def overall(self) -> float:
        """Share of all clouds that are right."""
        return float(np.trace(self.counts) / self.counts.sum())

    @property
    def per_class(self) -> Mapping[str, float]:
        """Share of each class's clouds that are right; NaN where there are none."""
        sums = self.counts.sum(1)
        shares = np.where(sums > 0, np.diag(self.counts) / np.maximum(sums, 1), np.nan)
        return dict(zip(self.names, shares.tolist(), strict=True))

    @property
    def mean_class(self) -> float:
        """Mean of `per_class` over the classes that there are."""
        return float(np.nanmean([*self.per_class.values()]))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of `overall`, over clouds."""
        right = int(np.trace(self.counts))
        return bootstrap_interval([1.0] * right + [0.0] * int(self.counts.sum() - right))
