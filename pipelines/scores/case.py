"""All scores of one case: a predicted label map against its reference."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import find_objects

from ..volume import Volume, reordered, same_grid
from .overlap import Overlap, overlaps
from .surface import surface_distances

SURFACE_METRICS = frozenset({"surface_dice", "hd95_mm", "hd_mm"})  # what takes time


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """Scores of one class in one case, by the rules of this package; NaN where not scored.

    Args:
        dice: From 0 to 1.
        surface_dice: From 0 to 1, at the tolerance asked for.
        hd95_mm: Hausdorff distance, its 95th percentile.
        hd_mm: Hausdorff distance.
        volume_ml: Volume in the prediction; a fact and no score, 0 where there is none.
        reference_ml: Volume in the reference.
    """

    dice: float
    surface_dice: float = math.nan
    hd95_mm: float = math.nan
    hd_mm: float = math.nan
    volume_ml: float
    reference_ml: float

    @property
    def volume_difference_ml(self) -> float:
        """How much the prediction has too much."""
        return math.nan if math.isnan(self.dice) else self.volume_ml - self.reference_ml

    @property
    def volume_difference_percent(self) -> float:
        """The same in percent of the reference; of nothing there is no percentage."""
        return 100 * self.volume_difference_ml / self.reference_ml if self.reference_ml else math.nan


def evaluate_pair(
    prediction: Volume,
    reference: Volume,
    names: Mapping[int, str],
    tolerance_mm: float | Mapping[int, float] | None = None,
    *,
    regions: Mapping[int, Sequence[int]] | None = None,
    ignored: int | None = None,
) -> dict[int, ClassScores]:
    """Score every named class but 0, the background.

    Args:
        prediction: A label map on the grid of `reference`; its axes may run in another order.
        reference: The label map to compare with.
        names: Class index to name.
        tolerance_mm: Of the surface Dice, for all or for each class. None leaves surfaces alone, which is much
            faster; their scores are then NaN.
        regions: Classes that are scored together under one index, such as the parts of a tumour.
        ignored: Value of the reference where nobody labelled: there neither has any class, and surfaces end.

    Raises:
        ValueError: The two are not on one grid (the message has both shapes and both affines), or hold values that
            are not whole numbers.
    """
    prediction = reordered(prediction, like=reference)
    same_grid(reference, prediction)
    if ignored is not None:
        prediction = replace(prediction, array=np.where(reference.array == ignored, 0, prediction.array))
    counts = overlaps(prediction.array, reference.array, [index for index in names if index != 0])
    measured = {} if tolerance_mm is None else _surfaces(prediction, reference, counts, tolerance_mm)
    scores = {
        index: ClassScores(
            dice=count.dice,
            volume_ml=count.prediction * reference.voxel_ml,
            reference_ml=count.reference * reference.voxel_ml,
            **measured.get(index, {}),
        )
        for index, count in counts.items()
    }
    for index, parts in (regions or {}).items():
        whole = {index: names[index]}
        wholes = [_together(volume, parts, index) for volume in (prediction, reference)]
        scores |= evaluate_pair(wholes[0], wholes[1], whole, tolerance_mm)
    return scores


def _together(volume: Volume, parts: Sequence[int], index: int) -> Volume:
    """The parts of a region under its own index, and nothing else."""
    return replace(volume, array=np.isin(volume.array, parts) * np.min_scalar_type(index).type(index))


def _surfaces(
    prediction: Volume,
    reference: Volume,
    counts: Mapping[int, Overlap],
    tolerance_mm: float | Mapping[int, float],
) -> dict[int, dict[str, float]]:
    """Scores of the surfaces of each class that somebody has."""
    boxes = _boxes(prediction.array, reference.array, max(counts, default=0))
    worst_mm = _diagonal_mm(reference)
    found: dict[int, dict[str, float]] = {}
    for index, count in counts.items():
        if count.prediction and count.reference:
            ours, theirs = (volume.array[boxes[index]] == index for volume in (prediction, reference))
            distances = surface_distances(ours, theirs, reference.affine[:3, :3])
            tolerance = tolerance_mm[index] if isinstance(tolerance_mm, Mapping) else tolerance_mm
            found[index] = {
                "surface_dice": distances.surface_dice(tolerance),
                "hd95_mm": distances.hausdorff_mm(95),
                "hd_mm": distances.hausdorff_mm(),
            }
        elif count.prediction or count.reference:
            found[index] = {"surface_dice": 0.0, "hd95_mm": worst_mm, "hd_mm": worst_mm}
    return found


def _boxes(prediction: np.ndarray, reference: np.ndarray, top: int) -> dict[int, tuple[slice, ...]]:
    """For each class that both have, a box that holds it in both; found in one pass, not one for each class."""
    pairs = zip(*(_objects(array, top) for array in (prediction, reference)), strict=True)
    return {
        index: tuple(slice(min(a.start, b.start), max(a.stop, b.stop)) for a, b in zip(*pair, strict=True))
        for index, pair in enumerate(pairs, 1)
        if None not in pair
    }


def _objects(array: np.ndarray, top: int) -> list:
    return find_objects(array if array.dtype.kind in "iu" else array.astype(np.int64), top) if top else []


def _diagonal_mm(volume: Volume) -> float:
    """The longest diagonal of the box of voxels: no two points of it are further apart."""
    corners = [(1, *signs) for signs in itertools.product((-1, 1), repeat=2)]
    across = volume.affine[:3, :3] @ (np.array(corners) * volume.shape).T
    return float(np.linalg.norm(across, axis=0).max())
