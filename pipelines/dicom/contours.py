"""Polygons round the voxels of a mask, and the mask inside polygons: each undoes the other, exactly.

Points are `(column, row)`, and 0 is the centre of the first voxel. A polygon runs along the sides of voxels, so that
its area is their number. One goes round each part of a mask whose voxels share sides; a hole is joined to it by a
keyhole, two lines in one place from the hole to the rim, since a DICOM contour has no holes.
"""

from collections.abc import Iterable

import numpy as np
from scipy.ndimage import find_objects
from skimage.measure import find_contours, label


def outlines(mask: np.ndarray) -> list[np.ndarray]:
    """Go round the voxels of a mask.

    Args:
        mask: `(rows, columns)`, bool.

    Returns:
        A polygon `(n, 2)` for each part, its last point to be joined to its first.
    """
    parts = np.asarray(label(mask, connectivity=1))  # voxels that share sides
    boxes = enumerate(find_objects(parts), 1)
    return [_outline(parts[box] == number) + np.array([box[1].start, box[0].start]) for number, box in boxes]


def inside(polygons: Iterable[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """Find the voxels whose centres lie inside.

    Args:
        polygons: `(n, 2)` each. Where an even number of them overlap is outside, so a hole may be a polygon of its own.
        shape: Rows and columns.

    Returns:
        `(rows, columns)`, bool.
    """
    rows, columns = shape
    crossings = np.zeros((rows, columns + 1), np.int32)  # of a row and an edge, at the first voxel to the right of them
    for points in polygons:
        x, y = points.T
        along_x, along_y = (np.roll(points, -1, axis=0) - points).T
        first, end = np.ceil(np.sort((y, y + along_y), axis=0)).astype(int).clip(0, rows)
        edge = np.repeat(np.arange(len(points)), end - first)
        row = np.arange(len(edge)) + np.repeat(end - np.cumsum(end - first), end - first)
        column = np.ceil(x[edge] + (row - y[edge]) / along_y[edge] * along_x[edge]).astype(int)
        np.add.at(crossings, (row, column.clip(0, columns)), 1)
    return np.cumsum(crossings, axis=1)[:, :-1] % 2 == 1


def _outline(part: np.ndarray) -> np.ndarray:
    """The rim of one part with its holes joined to it from left to right."""
    rim, *holes = sorted(
        map(_corners, find_contours(np.pad(part, 1).astype(float), 0.5)), key=lambda ring: ring[:, 0].min()
    )
    for hole in holes:
        hole = np.roll(hole, -hole[:, 0].argmin(), axis=0)
        x, y = hole[0]
        # what lies next to the left is a corner of the rim or of a hole joined before, since all corners are kept
        at = int(np.where((rim[:, 1] == y) & (rim[:, 0] < x), rim[:, 0], -np.inf).argmax())
        rim = np.concatenate([rim[: at + 1], hole, hole[:1], rim[at:]])
    return _straightened(rim)


def _corners(line: np.ndarray) -> np.ndarray:
    """From a closed line through the middles of voxel sides to the corners of voxels that it goes round."""
    # between two middles lies one corner, and NumPy's rows and columns still count the padding
    return np.floor(np.minimum(line[:-1], line[1:]))[:, ::-1] - 0.5


def _straightened(ring: np.ndarray) -> np.ndarray:
    """Without the points at which it goes straight on."""
    before, after = ring - np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0) - ring
    turns = before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]
    return ring[turns | ((before * after).sum(axis=1) < 0)]
