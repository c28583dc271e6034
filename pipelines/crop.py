"""Label a scan only where it matters: within a box about what a first, quicker look has found.

The box is what was found and a margin in millimetres on each side. A structure that the second look brings to a face of
the box may have been cut there, so the box grows on that side, by a step that doubles each time, and is labelled anew,
until no structure touches a face that is not the scan's own. Outside the box all is background. Where the first look
finds nothing the whole scan is labelled: it takes long, but nothing is missed for its sake.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .volume import Volume

Box = tuple[slice, slice, slice]


def label_within(
    volume: Volume, found: np.ndarray, label: Callable[[Volume], np.ndarray], margin_mm: float
) -> np.ndarray:
    """Label a scan within a box.

    Args:
        volume: The scan.
        found: Where something was found, booleans in the shape and axis order of the scan.
        label: Labels a part of the scan, in its shape and axis order, 0 for background.
        margin_mm: How far the box reaches beyond what was found, if the scan does; then by how much it grows first.

    Returns:
        The shape of the scan, the type that `label` gives.

    Raises:
        ValueError: The margin is not 0 mm or more.
    """
    check_margin(margin_mm)
    box, step_mm = _around(found), margin_mm
    box = _grown(box, volume, np.ones((3, 2), bool), margin_mm)
    labels = label(part(volume, box))
    while (cut := _cut(labels, box, volume.shape)).any():
        box = _grown(box, volume, cut, step_mm)
        step_mm *= 2
        labels = label(part(volume, box))
    result = np.zeros(volume.shape, labels.dtype)
    result[box] = labels
    return result


def part(volume: Volume, box: Box) -> Volume:
    """The part of a volume in a box of its voxels, in its place in the world."""
    affine = volume.affine.copy()
    affine[:3, 3] += affine[:3, :3] @ [side.start for side in box]
    others = tuple(other[box] for other in volume.others)
    return replace(volume, array=volume.array[box], affine=affine, others=others, source=None)


def check_margin(margin_mm: float) -> None:
    """Refuse what is no margin."""
    if not 0 <= margin_mm < math.inf:
        raise ValueError(f"a margin is 0 mm or more, not {margin_mm:g}")


def _around(found: np.ndarray) -> Box:
    """The smallest box that holds all that was found; all voxels if there is none."""
    if not found.any():
        return _box((0, n) for n in found.shape)
    planes = (np.flatnonzero(found.any(others)) for others in ((1, 2), (0, 2), (0, 1)))
    return _box((int(one[0]), int(one[-1]) + 1) for one in planes)


def _grown(box: Box, volume: Volume, sides: np.ndarray, by_mm: float) -> Box:
    """The box, moved outwards on these sides, `(3, 2)`, by a voxel or more, but not out of the volume."""
    voxels = [max(1, math.ceil(by_mm / spacing)) for spacing in volume.spacing_mm]
    return _box(
        (max(0, side.start - low * by), min(n, side.stop + high * by))
        for side, (low, high), by, n in zip(box, sides.tolist(), voxels, volume.shape, strict=True)
    )


def _cut(labels: np.ndarray, box: Box, shape: tuple[int, int, int]) -> np.ndarray:
    """The sides, `(3, 2)`, at which labels touch a face of the box that is not one of the volume."""
    faces = [(labels.take(0, axis).any(), labels.take(-1, axis).any()) for axis in range(3)]
    inner = [(side.start > 0, side.stop < n) for side, n in zip(box, shape, strict=True)]
    return np.array(faces) & np.array(inner)


def _box(ends) -> Box:
    i, j, k = (slice(start, stop) for start, stop in ends)
    return i, j, k
