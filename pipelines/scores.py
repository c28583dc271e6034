"""Dice scores, with the rules that decide the awkward cases.

For one class in one case, with P and R the voxels of that class in prediction and reference::

    dice = 2 |P and R| / (|P| + |R|)

- both empty: NaN, "not scored"; the case says nothing about this class and takes no part in any mean;
- reference empty, prediction not: 0, a false positive is never free;
- prediction empty, reference not: 0, missed.

Voxels are counted in int64, whatever the type of the label maps. Two means over many cases are told apart by name:
`casewise` is the mean over cases of each case's own mean, `pooled` the mean over all scored (case, class) pairs.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from .volume import Volume, reordered, same_grid


@dataclass(frozen=True)
class DiceTable:
    """Scores of many cases.

    Args:
        rows: Case to class index to Dice, NaN where not scored.
        names: Class index to name.
    """

    rows: Mapping[str, Mapping[int, float]]
    names: Mapping[int, str]

    @property
    def mean_per_class(self) -> dict[int, float]:
        """Mean over the cases in which a class is scored; NaN if there is none."""
        classes = sorted({index for row in self.rows.values() for index in row})
        return {index: _mean(row.get(index, math.nan) for row in self.rows.values()) for index in classes}

    @property
    def mean_per_case(self) -> dict[str, float]:
        """Mean over the classes scored in a case; NaN if there is none."""
        return {case: _mean(row.values()) for case, row in self.rows.items()}

    @property
    def casewise(self) -> float:
        """Mean over cases of each case's mean over its scored classes: every case counts the same."""
        return _mean(self.mean_per_case.values())

    @property
    def pooled(self) -> float:
        """Mean over all scored (case, class) pairs: every score counts the same."""
        return _mean(value for row in self.rows.values() for value in row.values())

    def as_dict(self) -> dict[str, object]:
        """Plain types for JSON: classes by name, NaN as None."""
        return {
            "casewise": _plain(self.casewise),
            "pooled": _plain(self.pooled),
            "mean_per_class": self._named(self.mean_per_class),
            "mean_per_case": {case: _plain(value) for case, value in self.mean_per_case.items()},
            "cases": {case: self._named(row) for case, row in self.rows.items()},
        }

    def _named(self, row: Mapping[int, float]) -> dict[str, float | None]:
        return {self.names[index]: _plain(value) for index, value in row.items()}


def evaluate_pair(prediction: Volume, reference: Volume, names: Mapping[int, str]) -> dict[int, float]:
    """Dice of every named class but 0, the background.

    Args:
        prediction: A label map on the grid of `reference`; its axes may run in another order.
        reference: The label map to compare with.
        names: Class index to name.

    Raises:
        ValueError: The two are not on one grid; the message has both shapes and both affines.
    """
    prediction = reordered(prediction, like=reference)
    same_grid(reference, prediction)
    return dice(prediction.array, reference.array, [index for index in names if index != 0])


def dice(prediction: np.ndarray, reference: np.ndarray, classes: Iterable[int]) -> dict[int, float]:
    """Dice of each class, by the rules at the top of this file.

    Args:
        prediction: Class indices, any shape; any integer type, booleans, or floats that are whole numbers.
        reference: The same shape.
        classes: The classes to score. Others are not scored, yet their voxels count as not being of these.

    Returns:
        Class to Dice from 0 to 1, or NaN where neither has the class.

    Raises:
        ValueError: The shapes differ, a class is negative, or there are values that are not whole numbers.
    """
    if prediction.shape != reference.shape:
        raise ValueError(f"prediction has shape {prediction.shape}, reference {reference.shape}")
    classes = list(classes)
    if min(classes, default=0) < 0:
        raise ValueError(f"classes are counted from 0, these are {classes}")
    both, either = _counts(prediction, reference, max(classes, default=0))
    return {index: float(2 * both[index] / either[index]) if either[index] else math.nan for index in classes}


def _counts(prediction: np.ndarray, reference: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Voxels of each class 0..top where both agree, and in the one plus in the other, int64."""
    if prediction.flags.f_contiguous:  # as NIfTI files are: slabs are cut where memory is contiguous
        prediction, reference = prediction.T, reference.T
    both, either = np.zeros((2, top + 1), np.int64)
    # a slab at a time: bincount works on int64, which would be eight times a volume of uint8
    for one, other in zip(np.atleast_1d(prediction), np.atleast_1d(reference), strict=True):
        p, r = _indices(one, top), _indices(other, top)
        both += np.bincount(p[p == r], minlength=top + 2)[:-1]
        either += np.bincount(p, minlength=top + 2)[:-1] + np.bincount(r, minlength=top + 2)[:-1]
    return both, either


def _indices(slab: np.ndarray, top: int) -> np.ndarray:
    """Flat int64 class indices, with all that is not in 0..top as top + 1."""
    with np.errstate(invalid="ignore"):  # a NaN is refused below
        indices = slab.astype(np.int64).ravel()
    if slab.dtype.kind not in "iub" and not np.array_equal(indices, slab.ravel()):
        raise ValueError("a label map holds whole numbers; these are not")
    indices[(indices < 0) | (indices > top)] = top + 1
    return indices


def _mean(values: Iterable[float]) -> float:
    scored = [value for value in values if not math.isnan(value)]
    return math.fsum(scored) / len(scored) if scored else math.nan


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
