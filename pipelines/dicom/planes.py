"""Where the slices of a series lie in the patient, as DICOM says it.

`source` stands for the images of one series throughout this folder's writers: single-frame data sets in the order in
which the slices lie, or one multi-frame data set alone. Slice n is the n-th of them, or frame n. Positions are
millimetres in DICOM's patient axes: x to the patient's left, y to the back, z to the head.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pydicom.dataset import Dataset

PARALLEL = 1e-3  # how far direction cosines may differ and still mean one direction
SPACING = 1e-3  # and spacings, in mm
CLOSE_MM = 0.05  # how far off a frame may lie and still be on a slice


@dataclass(frozen=True, eq=False)
class Planes:
    """Parallel slices of one size, at any distance from each other, sheared or not.

    Args:
        positions: `(slices, 3)`, centre of the first voxel of each slice, mm.
        directions: `(2, 3)`, unit vectors along which the column number and the row number grow.
        spacing_mm: `(2,)`, distance between neighbouring rows and between neighbouring columns, as DICOM orders them.
        shape: Rows and columns.
    """

    positions: np.ndarray
    directions: np.ndarray
    spacing_mm: np.ndarray
    shape: tuple[int, int]

    @classmethod
    def of(cls, source: Sequence[Dataset]) -> "Planes":
        """From the images of a series, or from a segmentation.

        Raises:
            ValueError: A slice does not say where it lies, or has another direction, spacing or size than the first.
        """
        slices = [_slice(groups) for groups in functional_groups(source)]
        for number, each in enumerate(slices):
            if not each.fits(slices[0]):
                raise ValueError(f"slice {number + 1} has another direction, spacing or size than slice 1")
        return cls(np.concatenate([each.positions for each in slices]), *slices[0]._grid)

    @property
    def step_mm(self) -> float:
        """The usual distance from a slice to the next, straight across both; 1 if there is but one slice."""
        heights = np.sort(self.positions @ np.cross(*self.directions))
        return float(np.median(np.diff(heights))) if len(heights) > 1 else 1.0

    def fits(self, other: "Planes") -> bool:
        """Whether a voxel of a slice of one has the size and the direction of a voxel of the other."""
        return (
            self.shape == other.shape
            and np.abs(self.directions - other.directions).max() < PARALLEL
            and np.abs(self.spacing_mm - other.spacing_mm).max() < SPACING
        )

    def find(self, position: np.ndarray) -> int:
        """The slice whose first voxel lies at a position; a ValueError if there is none."""
        distances = np.linalg.norm(self.positions - position, axis=1)
        if distances.min() > CLOSE_MM:
            raise ValueError(f"a frame at {position.tolist()} mm lies {distances.min():.2f} mm from the nearest slice")
        return int(distances.argmin())

    def to_patient(self, slice_number: int, points: np.ndarray) -> np.ndarray:
        """From `(n, 2)` columns and rows in a slice (0 is the centre of the first voxel) to `(n, 3)` mm."""
        return self.positions[slice_number] + points * self.spacing_mm[::-1] @ self.directions

    def to_slice(self, points: np.ndarray) -> tuple[int, np.ndarray]:
        """From `(n, 3)` mm to the slice that they lie on and `(n, 2)` columns and rows in it.

        Raises:
            ValueError: They do not all lie on one slice.
        """
        normal = np.cross(*self.directions)
        apart = np.abs(points @ normal - (self.positions @ normal)[:, None]).max(axis=1)
        if apart.min() > CLOSE_MM:
            raise ValueError(f"a contour at {points[0].tolist()} mm lies {apart.min():.2f} mm from the nearest slice")
        at = int(apart.argmin())
        return at, (points - self.positions[at]) @ self.directions.T / self.spacing_mm[::-1]

    @property
    def _grid(self) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
        return self.directions, self.spacing_mm, self.shape


def same_frame_of_reference(one: Dataset, other: Dataset) -> bool:
    """Whether two objects place their voxels in the same axes, as far as both say which."""
    return len({each.get("FrameOfReferenceUID") for each in (one, other)} - {None, ""}) < 2


def functional_groups(source: Sequence[Dataset]) -> Iterator[tuple[Dataset, ...]]:
    """For each slice, the data sets that may say something of it, the most particular one first."""
    for image in source:
        frames = image.get("PerFrameFunctionalGroupsSequence")
        if frames is None:
            yield (image,)
            continue
        shared = image.get("SharedFunctionalGroupsSequence") or [Dataset()]
        yield from ((frame, shared[0], image) for frame in frames)


def _slice(groups: tuple[Dataset, ...]) -> Planes:
    position = _value(groups, "PlanePositionSequence", "ImagePositionPatient", 3)
    directions = _value(groups, "PlaneOrientationSequence", "ImageOrientationPatient", 6).reshape(2, 3)
    spacing = _value(groups, "PixelMeasuresSequence", "PixelSpacing", 2)
    return Planes(position[None], directions, spacing, (int(groups[-1].Rows), int(groups[-1].Columns)))


def _value(groups: tuple[Dataset, ...], sequence: str, keyword: str, length: int) -> np.ndarray:
    for group in groups:
        for item in (*group.get(sequence, []), group):
            if len(item.get(keyword) or ()) == length:
                return np.array(item[keyword].value, dtype=np.float64)
    raise ValueError(f"a slice has no {keyword}: where it lies is not known")
