r"""Another spacing for the same box.

Convention: **full extent**. The box covered by the voxels, outer face to outer face, is kept exactly. An axis of n
voxels of s mm becomes m = max(1, round(n s / t)) voxels of n s / m mm, which is t or nearly so, and output voxel i has
its centre at input index::

    c(i) = (i + 1/2) n / m - 1/2

Along each axis the values are a small matrix times the axis. Its rows interpolate linearly between voxel centres at
c(i), or, where the axis becomes coarser by more than 1.5 times, average that linear interpolation over the output
voxel, so that nothing between the samples is lost. Half a voxel at either end continues the outermost value. Both kinds
reproduce constants, and ramps in the interior, and treat an axis and its mirror image alike.

Because the extent is kept, the shape alone says how to return: `resample_labels(labels, like.shape)`.
"""

from collections.abc import Sequence

import numpy as np
from scipy.ndimage import find_objects

from .survey import Look
from .thin import keep_thin
from .volume import Volume

AVERAGED = 1.5  # coarser than this: average instead of sample
TIE = 1e-5  # shares of a voxel closer than this are equal, whatever the rounding of float32
SLAB = 16  # output slices done at once: little memory, and a stray voxel of a label costs its own slab only
COUNTED = 65535  # labels up to here have their boxes found in one pass


def resample_image(volume: Volume, spacing_mm: Sequence[float]) -> Volume:
    """Bring an image, all its channels, to (nearly) another spacing.

    Args:
        volume: Any real type.
        spacing_mm: Wanted distance between voxels along the three axes of the array, in mm.

    Returns:
        A float32 volume on the same box, its affine moved so that the outer corners coincide; the volume itself if no
        axis changes its number of voxels.

    Raises:
        ValueError: The spacing is not three positive finite numbers.
    """
    shape = resampled_shape(volume, spacing_mm)
    if shape == volume.shape:
        return volume
    step = np.array(volume.shape) / np.array(shape)
    finer = np.diag((*step, 1.0))
    finer[:3, 3] = (step - 1) / 2
    array, *others = (resample_array(one, shape) for one in volume.channels)
    return Volume(array, volume.affine @ finer, others=tuple(others), path=volume.path)


def resampled_shape(volume: Volume | Look, spacing_mm: Sequence[float]) -> tuple[int, int, int]:
    """Shape in which `volume` has the given spacing, mm along each axis, as nearly as its extent allows."""
    if len(spacing_mm) != 3 or not all(0 < target < float("inf") for target in spacing_mm):
        raise ValueError(f"a spacing is three positive numbers of mm, not {tuple(spacing_mm)}")
    extents = (n * spacing for n, spacing in zip(volume.shape, volume.spacing_mm, strict=True))
    i, j, k = (max(1, round(extent / target)) for extent, target in zip(extents, spacing_mm, strict=True))
    return i, j, k


def resample_array(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Resample a bare array over the same box.

    Args:
        array: `(i, j, k)`, any real type, no NaN and no infinity.
        shape: Voxels wanted along each axis.

    Returns:
        float32, contiguous, of `shape`.
    """
    _check_shape(array, shape)
    matrices = {axis: axis_matrix(array.shape[axis], m) for axis, m in enumerate(shape) if array.shape[axis] != m}
    return np.ascontiguousarray(_along_axes(array.astype(np.float32), matrices))


def resample_labels(labels: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Resample a label map over the same box: each voxel gets the label that has the largest share in it.

    The share of a label is the resampled mask of its voxels; where shares are equal, the smaller label wins. Structures
    too thin to win a voxel are kept all the same, see `keep_thin`. One label is held at a time, within its own bounding
    box in a slab of the volume, so memory does not grow with their number.

    Args:
        labels: `(i, j, k)`, any integer type, 0 is background.
        shape: Voxels wanted along each axis.

    Returns:
        The type of `labels`, of `shape`; an exact copy if the shape is unchanged.

    Raises:
        ValueError: The labels are not integers, or a shape is not three positive numbers.
    """
    _check_shape(labels, shape)
    if labels.dtype.kind not in "iu":
        raise ValueError(f"labels are integers, these are {labels.dtype}")
    if labels.shape == tuple(shape):
        return labels.copy()
    matrices = [axis_matrix(n, m) for n, m in zip(labels.shape, shape, strict=True)]
    result = np.empty(tuple(shape), labels.dtype)
    for start in range(0, result.shape[0], SLAB):
        rows = slice(start, start + SLAB)
        columns = _span(matrices[0][rows], axis=1)
        result[rows] = _largest_share(labels[columns], [matrices[0][rows, columns], *matrices[1:]])
    keep_thin(labels, result)
    return result


def _largest_share(labels: np.ndarray, matrices: Sequence[np.ndarray]) -> np.ndarray:
    """The label with the largest share in each output voxel, one label after the other."""
    values = np.unique(labels)
    shape = tuple(matrix.shape[0] for matrix in matrices)
    result, largest = np.full(shape, values[0], labels.dtype), np.zeros(shape, np.float32)
    for value, box in zip(values, _boxes(labels, values), strict=True):
        reach = tuple(_span(matrix[:, side], axis=0) for matrix, side in zip(matrices, box, strict=True))
        parts = (matrix[rows, side] for matrix, rows, side in zip(matrices, reach, box, strict=True))
        share = _along_axes((labels[box] == value).astype(np.float32), dict(enumerate(parts)))
        best, winner = largest[reach], result[reach]
        wins = share > best + TIE
        best[wins], winner[wins] = share[wins], value
    return result


def _check_shape(array: np.ndarray, shape: Sequence[int]) -> None:
    if array.ndim != 3 or len(shape) != 3 or min(shape) < 1:
        raise ValueError(f"three axes of at least 1 are expected, not {array.shape} to {tuple(shape)}")


def _along_axes(array: np.ndarray, matrices: dict[int, np.ndarray]) -> np.ndarray:
    # the axis that shrinks most goes first: less is left for the others
    for axis, matrix in sorted(matrices.items(), key=lambda item: item[1].shape[0] / item[1].shape[1]):
        array = np.moveaxis(np.tensordot(matrix, array, axes=(1, axis)), 0, axis)
    return array


def axis_matrix(n: int, m: int) -> np.ndarray:
    """Weights that take n voxels to m over the same extent, `(m, n)` float32, each row with sum 1."""
    step = n / m
    centres = (np.arange(m)[:, None] + 0.5) * step - 0.5
    voxels = np.arange(-1, n + 1)[None]  # one more at either end, which repeats the outermost
    if step > AVERAGED:
        upper, lower = centres + step / 2 - voxels, centres - step / 2 - voxels
        weights = (_hat_integral(upper) - _hat_integral(lower)) / step
    else:
        weights = np.maximum(0.0, 1.0 - np.abs(centres - voxels))
    weights[:, 1] += weights[:, 0]
    weights[:, -2] += weights[:, -1]
    return weights[:, 1:-1].astype(np.float32)


def _hat_integral(x: np.ndarray) -> np.ndarray:
    """Integral from minus infinity to x of max(0, 1 - |x|)."""
    x = np.clip(x, -1.0, 1.0)
    return 0.5 + x - np.sign(x) * x**2 / 2


def _span(weights: np.ndarray, axis: int) -> slice:
    """Rows (axis 0) or columns (axis 1) of a part of a banded matrix, from the first to the last that is not zero."""
    places = np.nonzero(weights)[axis]
    return slice(int(places.min()), int(places.max()) + 1)


def _boxes(labels: np.ndarray, values: np.ndarray) -> list[tuple[slice, ...]]:
    """A box that holds every voxel of each value; the whole array where looking for a smaller one would not pay."""
    whole = tuple(slice(0, n) for n in labels.shape)
    if values[0] < 0 or values[-1] > COUNTED:
        return [whole] * len(values)
    found = find_objects(labels)
    return [found[value - 1] or whole if value > 0 else whole for value in values.tolist()]
