"""Voxels that two label maps share, class by class, and the Dice score of them.

Voxels are counted in int64, whatever the type of the label maps.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Overlap:
    """Voxels of one class in a prediction, in a reference, and in both at one place."""

    prediction: int
    reference: int
    both: int

    @property
    def dice(self) -> float:
        """Twice the shared voxels over the sum, from 0 to 1; NaN where neither has the class."""
        total = self.prediction + self.reference
        return 2 * self.both / total if total else math.nan


def dice(prediction: np.ndarray, reference: np.ndarray, classes: Iterable[int]) -> dict[int, float]:
    """Dice of each class; arguments and errors are those of `overlaps`.

    Returns:
        Class to Dice from 0 to 1, or NaN where neither has the class.
    """
    return {index: counted.dice for index, counted in overlaps(prediction, reference, classes).items()}


def overlaps(prediction: np.ndarray, reference: np.ndarray, classes: Iterable[int]) -> dict[int, Overlap]:
    """Count the voxels of each class.

    Args:
        prediction: Class indices, any shape; any integer type, booleans, or floats that are whole numbers.
        reference: The same shape.
        classes: The classes to count. Voxels of others count as not being of these.

    Raises:
        ValueError: The shapes differ, a class is negative, or there are values that are not whole numbers.
    """
    if prediction.shape != reference.shape:
        raise ValueError(f"prediction has shape {prediction.shape}, reference {reference.shape}")
    classes = list(classes)
    if min(classes, default=0) < 0:
        raise ValueError(f"classes are counted from 0, these are {classes}")
    counts = _counts(prediction, reference, max(classes, default=0))
    return {index: Overlap(*counts[:, index].tolist()) for index in classes}


def _counts(prediction: np.ndarray, reference: np.ndarray, top: int) -> np.ndarray:
    """Voxels of each class 0..top in prediction, in reference and in both, `(3, top + 1)` int64."""
    if prediction.flags.f_contiguous:  # as NIfTI files are: slabs are cut where memory is contiguous
        prediction, reference = prediction.T, reference.T
    counts = np.zeros((3, top + 1), np.int64)
    # a slab at a time: bincount works on int64, which would be eight times a volume of uint8
    for one, other in zip(np.atleast_1d(prediction), np.atleast_1d(reference), strict=True):
        p, r = _indices(one, top), _indices(other, top)
        counts += [np.bincount(slab, minlength=top + 2)[:-1] for slab in (p, r, p[p == r])]
    return counts


def _indices(slab: np.ndarray, top: int) -> np.ndarray:
    """Flat int64 class indices, with all that is not in 0..top as top + 1."""
    with np.errstate(invalid="ignore"):  # a NaN is refused below
        indices = slab.astype(np.int64).ravel()
    if slab.dtype.kind not in "iub" and not np.array_equal(indices, slab.ravel()):
        raise ValueError("a label map holds whole numbers; these are not")
    indices[(indices < 0) | (indices > top)] = top + 1
    return indices
