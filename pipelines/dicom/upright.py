"""A scan whose gantry was tilted, set upright for the network, and its labels back on the slices as they were taken.

Slices of a tilted gantry lie one above the other along a line that leans against their normal, so their affine is
sheared; a network has never seen that, and many programs refuse it. Seen along the normal instead, each slice only
moves within its own plane: no two slices are mixed, and the distance between them is the true one.
"""

import numpy as np
from scipy.ndimage import shift

from ..volume import Volume, grid_shift
from .pixels import AIR_HU

LEVEL = 0.1  # of a voxel: what the far end of a stack may lean and still count as upright


def upright(volume: Volume) -> Volume:
    """Move the slices of a scan within their planes, linearly between voxels, to lie along their normal.

    Args:
        volume: `(column, row, slice)`, HU, columns perpendicular to rows.

    Returns:
        A volume with a box that holds every slice and air around them; `volume` itself if it is upright already.
    """
    steps = _steps(volume.affine, volume.shape)
    if not steps.any():
        return volume
    low, high = _margins(steps)
    columns, rows, count = volume.shape
    array = np.full((columns + low[0] + high[0], rows + low[1] + high[1], count), AIR_HU, np.float32)
    array[low[0] : low[0] + columns, low[1] : low[1] + rows] = volume.array
    for k, step in enumerate(steps):
        array[..., k] = shift(array[..., k], step, order=1, cval=AIR_HU)
    affine = _straight(volume.affine)
    affine[:3, 3] -= affine[:3, :2] @ low
    return Volume(array, affine, path=volume.path)


def leaning(labels: np.ndarray, affine: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Bring labels of an upright scan back: each voxel as it was taken gets the label of the nearest one.

    Args:
        labels: On the voxels of `upright(volume)`.
        affine: Of `volume`.
        shape: Of `volume`.

    Raises:
        ValueError: The labels do not have the shape of `upright(volume)`.
    """
    steps = _steps(affine, shape)
    low, high = _margins(steps)
    columns, rows, count = shape
    expected = (columns + low[0] + high[0], rows + low[1] + high[1], count)
    if labels.shape != expected:
        raise ValueError(f"labels of shape {labels.shape} are not on the upright scan, which has shape {expected}")
    result = np.empty(shape, labels.dtype)
    for k, (i, j) in enumerate(np.rint(steps).astype(int) + low):
        result[..., k] = labels[i : i + columns, j : j + rows, k]
    return result


def _steps(affine: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """How far each slice moves along columns and rows, `(slices, 2)` voxels; zero if they are upright."""
    straight = _straight(affine)
    lean = np.linalg.solve(straight, affine[:, 2])[:2]
    if grid_shift(affine, straight, shape) <= LEVEL:
        lean = np.zeros(2)
    return np.arange(shape[2])[:, None] * lean


def _straight(affine: np.ndarray) -> np.ndarray:
    """The affine whose slices follow one another along their normal, from the same first voxel on."""
    normal = np.cross(*affine[:3, :2].T)
    normal /= np.linalg.norm(normal)
    straight = affine.copy()
    straight[:3, 2] = normal * (normal @ affine[:3, 2])
    return straight


def _margins(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Voxels to add before and behind columns and rows, so that no slice leaves the box."""
    return np.ceil(-steps.min(axis=0)).astype(int), np.ceil(steps.max(axis=0)).astype(int)
