"""A volume: numbers on a grid, and where that grid lies in the patient.

The one convention of all pipelines: `array` keeps the axis order of its file, and `affine` maps voxel indices (index
0 is the centre of the first voxel) to millimetres in RAS+ (x to the patient's right, y to the front, z to the head).
Spacing and array never travel apart. What needs a fixed order of axes asks for `canonical`, and gives its result back
through `restore`; both only permute and flip, so no value changes.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from nibabel.orientations import apply_orientation, axcodes2ornt, inv_ornt_aff, ornt_transform

RAS = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])  # nibabel's form: for each array axis its world axis and its sign
TIE = 6  # decimals of a direction cosine that still count when two axis orders are equally near


@dataclass(frozen=True, eq=False)
class Volume:
    """An array and its place in the world.

    Args:
        array: `(i, j, k)`, at least one voxel along each axis, in the file's axis order.
        affine: `(4, 4)`, voxel index to RAS+ millimetres; kept as a float64 copy.
        others: Further channels on the voxels of `array`, as PET beside CT.
        source: What the file said of itself, for the writer of the same format; None for a volume made in memory.
        path: The file it was read from, for messages.

    Raises:
        ValueError: The array is not three-dimensional or empty, a further channel has another shape, or the affine is
            missing, not finite or has no inverse.
    """

    array: np.ndarray
    affine: np.ndarray
    others: tuple[np.ndarray, ...] = field(default=(), kw_only=True)
    source: object | None = None
    path: Path | None = None

    def __post_init__(self) -> None:
        if self.array.ndim != 3 or self.array.size == 0:
            raise ValueError(f"a volume has three axes and at least one voxel, this array has shape {self.array.shape}")
        if shapes := [other.shape for other in self.others if other.shape != self.array.shape]:
            raise ValueError(f"channels of shape {shapes[0]} and {self.array.shape} are not on one grid")
        if self.affine is None:
            raise ValueError("a volume needs an affine: without one neither its spacing nor its orientation is known")
        object.__setattr__(self, "affine", checked_affine(np.array(self.affine, dtype=np.float64)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Voxels along each axis of the array."""
        i, j, k = self.array.shape
        return i, j, k

    @property
    def channels(self) -> tuple[np.ndarray, ...]:
        """The array and the further channels."""
        return (self.array, *self.others)

    @property
    def spacing_mm(self) -> tuple[float, float, float]:
        """Distance between neighbouring voxels along each axis of the array, in mm."""
        i, j, k = np.linalg.norm(self.affine[:3, :3], axis=0).tolist()
        return i, j, k

    @property
    def voxel_ml(self) -> float:
        """Volume of a voxel, in millilitres."""
        return abs(float(np.linalg.det(self.affine[:3, :3]))) / 1000


def canonical(volume: Volume) -> Volume:
    """Permute and flip the axes to the order nearest to RAS+, exactly.

    Nearest means the largest sum of direction cosines between array axes and world axes; when two orders are equally
    near (an exact 45 degree oblique), the choice depends on the directions alone, never on the order in the file.

    Returns:
        The volume itself if its order is RAS+ already; otherwise a new one with a contiguous copy of the array and no
        `source`, since what the file said of its axes is no longer true.
    """
    return _reordered(volume, _orientation(volume.affine))


def restore(array: np.ndarray, like: Volume) -> np.ndarray:
    """Undo `canonical`: bring an array on the grid of `canonical(like)` into the axis order of `like`.

    Args:
        array: `(x, y, z)`, any type, on the grid of `canonical(like)`.
        like: The volume whose axis order is wanted.

    Returns:
        Contiguous, the shape of `like`, the type of `array`.

    Raises:
        ValueError: The array does not have the shape of `canonical(like)`.
    """
    orientation = _orientation(like.affine)
    expected = tuple(like.shape[axis] for axis in np.argsort(orientation[:, 0]))
    if array.shape != expected:
        raise ValueError(f"array of shape {array.shape} is not on the canonical grid {expected} of {_told(like)}")
    return np.ascontiguousarray(apply_orientation(array, ornt_transform(RAS, orientation)))


def reordered(volume: Volume, like: Volume) -> Volume:
    """Permute and flip the axes of `volume`, exactly, to run as those of `like` do; the grids may still differ."""
    return _reordered(volume, ornt_transform(_orientation(volume.affine), _orientation(like.affine)))


def same_grid(a: Volume, b: Volume, tolerance_voxels: float = 0.1) -> None:
    """Refuse two volumes whose voxels do not lie on one another, axis by axis in the order of their arrays.

    Args:
        a: A volume; its voxels are the unit of the tolerance.
        b: Another.
        tolerance_voxels: How far any corner of the box may be off, along any axis.

    Raises:
        ValueError: Shapes or places differ; the message has both shapes and both affines.
    """
    if a.shape != b.shape or grid_shift(a.affine, b.affine, a.shape) > tolerance_voxels:
        raise ValueError(f"not on one grid: {_told(a)} and {_told(b)}")


def grid_shift(affine: np.ndarray, other: np.ndarray, shape: tuple[int, int, int]) -> float:
    """Largest distance between a box of voxels placed by `affine` and by `other`, in voxels of `affine`.

    The outer corners of the box are compared, so that the spacing of an axis with a single voxel counts too.
    """
    corners = np.array([(*corner, 1.0) for corner in itertools.product(*((-0.5, n - 0.5) for n in shape))]).T
    moved = np.linalg.solve(affine, other @ corners)
    return float(np.abs(moved - corners).max())


def assumed_affine(spacing_mm: Sequence[float], code: str) -> np.ndarray:
    """The affine of a grid whose file says no more than its spacing: axes as the code has them, first voxel at 0.

    Args:
        spacing_mm: Of each axis of the array.
        code: Where each axis runs to, such as `"RAS"` or `"LPS"`.

    Raises:
        ValueError: The code is not three letters, one of each of LR, PA and IS.
    """
    letters = code.upper()
    if len(letters) != 3 or any(len(set(letters) & set(pair)) != 1 for pair in ("LR", "PA", "IS")):
        raise ValueError(f"{code!r} is no orientation; expected three letters such as RAS, LAS or LPS")
    affine = np.diag((0.0, 0.0, 0.0, 1.0))
    for axis, (world, sign) in enumerate(axcodes2ornt(tuple(letters))):
        affine[int(world), axis] = sign * spacing_mm[axis]
    return affine


def checked_affine(affine: np.ndarray) -> np.ndarray:
    """The affine itself; a ValueError if it is not finite, not affine or has no inverse."""
    if affine.shape != (4, 4) or not np.isfinite(affine).all() or not np.array_equal(affine[3], (0, 0, 0, 1)):
        raise ValueError(f"an affine is a finite 4x4 matrix with last row 0 0 0 1, this one is {affine.tolist()}")
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    if not spacing.all() or abs(np.linalg.det(affine[:3, :3] / spacing)) < 1e-6:
        raise ValueError(f"the affine has no inverse, two axes coincide or a spacing is 0: {affine.tolist()}")
    return affine


def _orientation(affine: np.ndarray) -> np.ndarray:
    """World axis and sign of each array axis, `(3, 2)`, nibabel's form."""
    # nibabel's io_orientation breaks ties by the order of the array's axes, which the law of `canonical` forbids
    cosines = affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)
    orders = [list(order) for order in itertools.permutations(range(3))]  # the array axis for each world axis
    order = max(orders, key=lambda order: _nearness(cosines[:, order]))
    orientation = np.empty((3, 2))
    orientation[order, 0] = range(3)
    orientation[order, 1] = np.where(cosines[range(3), order] < 0, -1, 1)
    return orientation


def _nearness(cosines: np.ndarray) -> tuple[float, list[float]]:
    flipped = cosines * np.where(np.diag(cosines) < 0, -1, 1)
    return round(float(np.trace(flipped)), TIE), np.round(flipped, TIE).ravel().tolist()


def _reordered(volume: Volume, orientation: np.ndarray) -> Volume:
    if np.array_equal(orientation, RAS):
        return volume
    array, *others = (np.ascontiguousarray(apply_orientation(one, orientation)) for one in volume.channels)
    affine = volume.affine @ inv_ornt_aff(orientation, volume.shape)
    return Volume(array, affine, others=tuple(others), path=volume.path)


def _told(volume: Volume) -> str:
    name = f"{volume.path} of " if volume.path else ""
    return f"{name}shape {volume.shape}, affine {np.round(volume.affine[:3], 4).tolist()}"
