"""What lies in an image file, and what is made of it: an image of numbers, or a map of labels.

The same for every format: an image is float32 and finite, a label map is exact whole numbers in the smallest type.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .volume import Volume

QUANTISED = 1e-3  # how far a label may be from a whole number if its file keeps scaled integers
READ_AS = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64)
WRITTEN_AS = (np.uint8, np.int16, np.int32)  # what every tool reads


@dataclass(frozen=True, eq=False)
class Stored:
    """The content of a file.

    Args:
        array: `(i, j, k)`, numbers before scaling, any real type.
        slope: What they are multiplied with.
        inter: What is then added.
        affine: Voxel index to RAS+ millimetres.
        source: What the file said of itself, for the writer of its format.
        path: The file.
    """

    array: np.ndarray
    slope: float
    inter: float
    affine: np.ndarray
    source: object
    path: Path

    def image(self) -> Volume:
        """The numbers as float32; those that are not finite get the lowest value, with a warning that counts them.

        Raises:
            ValueError: No number is finite.
        """
        return Volume(_finite(self._scaled(), self.path), self.affine, self.source, self.path)

    def labels(self) -> Volume:
        """The numbers as labels, exactly: integers never pass through floating point.

        Floats that are whole numbers are accepted, and scaled integers within 0.001.

        Raises:
            ValueError: A value is not a whole number; the first such value is named.
        """
        array, is_scaled = self.array, (self.slope, self.inter) != (1.0, 0.0)
        if array.dtype.kind == "f" or is_scaled:
            array = _whole(array * np.float64(self.slope) + self.inter, QUANTISED if is_scaled else 0.0, self.path)
        return Volume(array.astype(_smallest_type(array, READ_AS)), self.affine, self.source, self.path)

    def _scaled(self) -> np.ndarray:
        values = np.empty(self.array.shape, np.float32, order="F")
        with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold is counted as not finite
            for k in range(self.array.shape[2]):  # in float64, as slope and intercept may cancel, but a slice at a time
                values[..., k] = self.array[..., k] * np.float64(self.slope) + self.inter
        return values


def labels_to_write(labels: np.ndarray) -> np.ndarray:
    """Labels in the type in which files hold them: uint8, int16 or int32, the smallest that does.

    Raises:
        ValueError: They are no integers or booleans, or one is beyond int32.
    """
    if labels.dtype.kind not in "iub":
        raise ValueError(f"labels are integers, these are {labels.dtype}")
    return labels.astype(_smallest_type(labels, WRITTEN_AS))


def _finite(values: np.ndarray, path: Path) -> np.ndarray:
    bad = ~np.isfinite(values)
    count = np.count_nonzero(bad)
    if count == values.size:
        raise ValueError(f"{path} holds no finite value")
    if count:
        lowest = values[~bad].min()
        warnings.warn(f"{path}: {count} voxels are not finite and get the lowest value, {lowest:g}", stacklevel=4)
        values[bad] = lowest
    return values


def _whole(values: np.ndarray, tolerance: float, path: Path) -> np.ndarray:
    whole = np.rint(values)
    with np.errstate(invalid="ignore"):
        bad = ~((np.abs(values - whole) <= tolerance) & (np.abs(values) <= 2**53))  # a NaN compares false
    if bad.any():
        voxel = tuple(np.argwhere(bad)[0].tolist())
        raise ValueError(f"{path} is not a label map: {values[voxel]:g} at voxel {voxel} is not a whole number")
    return whole.astype(np.int64)


def _smallest_type(labels: np.ndarray, candidates: Sequence[type[np.integer]]) -> type[np.integer]:
    lowest, highest = (int(labels.min()), int(labels.max())) if labels.size else (0, 0)
    for candidate in candidates:
        limits = np.iinfo(candidate)
        if limits.min <= lowest and highest <= limits.max:
            return candidate
    raise ValueError(f"labels from {lowest} to {highest} do not fit {candidates[-1].__name__}")
