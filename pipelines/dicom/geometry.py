"""Where the planes of a series lie, held to be one regular stack or refused.

Slices are sorted by their position along the normal, never by number or thickness. A stack is regular if its slices
lie on a straight line at equal distances; the line may lean against the normal (gantry tilt), which makes the affine
sheared, and honest. `tolerance` is a share of the distance between slices along the normal, and of a pixel within the
plane; positions written with one decimal are let through by `ROUNDED_MM`.
"""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from .refusal import Code, SeriesError
from .slices import Slice

SAME_MM = 0.01  # nearer than this along the normal: one place
ROUNDED_MM = 0.05
PERPENDICULAR = 1e-3  # how far row and column may be from unit length and a right angle
TILT_AT_MOST = 45.0  # degrees; gantries lean by 30
LPS_TO_RAS = np.diag((-1.0, -1.0, 1.0, 1.0))


def stacked(slices: Sequence[Slice], tolerance: float) -> tuple[tuple[Slice, ...], np.ndarray]:
    """Sort slices of one orientation along their normal, and find the affine of the stack.

    Args:
        slices: All with the same matrix, orientation and pixel size.
        tolerance: Share of a voxel that a slice may be out of place.

    Returns:
        The slices in order, and the `(4, 4)` affine from `(column, row, slice)` to RAS+ mm.

    Raises:
        SeriesError: They are no regular stack; the code says why.
    """
    first = slices[0]
    across, down = _directions(slices)
    normal = np.cross(across, down)
    slices = sorted(slices, key=lambda one: float(np.dot(one.position, normal)))
    positions = np.array([one.position for one in slices])
    if len(slices) == 1:
        if math.isnan(first.thickness_mm):
            raise SeriesError(Code.TOO_FEW_SLICES, f"1 slice ({_named(first)}), and nothing says how thick it is")
        step = normal * first.thickness_mm
    else:
        _check_gaps(slices, positions @ normal, tolerance)
        step = (positions[-1] - positions[0]) / (len(slices) - 1)
        _check_line(slices, positions, step, normal, tolerance)
    affine = np.eye(4)
    affine[:3, 0] = across * first.pixel_spacing[1]
    affine[:3, 1] = down * first.pixel_spacing[0]
    affine[:3, 2] = step
    affine[:3, 3] = positions[0]
    return tuple(slices), LPS_TO_RAS @ affine


def most_at_one_place(slices: Sequence[Slice]) -> int:
    """How many placed slices share a place along the normal, at most."""
    normal = np.cross(slices[0].orientation[:3], slices[0].orientation[3:])
    heights = np.sort(np.array([one.position for one in slices]) @ normal)
    most = run = 1
    for gap in np.diff(heights):
        run = run + 1 if gap <= SAME_MM else 1
        most = max(most, run)
    return most


def tilt_degrees(affine: np.ndarray) -> float:
    """Angle between the line that the slices lie on and their normal."""
    across, down, step = affine[:3, :3].T
    normal = np.cross(across, down)
    sine = np.linalg.norm(np.cross(normal, step))
    return math.degrees(math.atan2(sine, abs(float(normal @ step))))


def _directions(slices: Sequence[Slice]) -> tuple[np.ndarray, np.ndarray]:
    unplaced = [one for one in slices if not one.is_placed]
    if unplaced:
        one = unplaced[0]
        raise SeriesError(
            Code.NO_GEOMETRY,
            f"{len(unplaced)} of {len(slices)} slices have no place, the first {_named(one)}: position"
            f" {_listed(one.position)}, orientation {_listed(one.orientation)}, spacing {_listed(one.pixel_spacing)}",
        )
    across, down = np.array(slices[0].orientation).reshape(2, 3)
    lengths = np.linalg.norm(across), np.linalg.norm(down)
    if max(abs(lengths[0] - 1), abs(lengths[1] - 1), abs(across @ down)) > PERPENDICULAR:
        raise SeriesError(
            Code.NO_GEOMETRY, f"orientation {_listed(slices[0].orientation)} is no pair of perpendicular unit vectors"
        )
    return across / lengths[0], down / lengths[1]


def _check_gaps(slices: Sequence[Slice], heights: np.ndarray, tolerance: float) -> None:
    gaps = np.diff(heights)
    same = np.flatnonzero(gaps <= SAME_MM)
    if len(same):
        one, other = slices[same[0]], slices[same[0] + 1]
        raise SeriesError(
            Code.DUPLICATE_POSITION,
            f"{len(same)} of {len(slices)} slices lie where another does, the first at {_listed(one.position)} mm"
            f" ({_named(one)}, {_named(other)})",
        )
    usual = statistics.median_low(gaps.tolist())
    slack = tolerance * usual + ROUNDED_MM
    odd = np.flatnonzero(np.abs(gaps - usual) > slack)
    if not len(odd):
        return
    counts = np.rint(gaps[odd] / usual)
    where = f"the first gap after {_listed(slices[odd[0]].position)} mm ({_named(slices[odd[0]])})"
    if (counts >= 2).all() and (np.abs(gaps[odd] - counts * usual) <= slack).all():
        raise SeriesError(
            Code.MISSING_SLICES,
            f"{int((counts - 1).sum())} missing beside {len(slices)} found, {where}: {gaps[odd[0]]:.4g} mm where"
            f" {usual:.4g} mm is usual",
        )
    raise SeriesError(
        Code.UNEVEN_SPACING,
        f"{len(odd)} of {len(gaps)} gaps are not the usual {usual:.4g} mm, {where}: {gaps[odd[0]]:.4g} mm",
    )


def _check_line(
    slices: Sequence[Slice], positions: np.ndarray, step: np.ndarray, normal: np.ndarray, tolerance: float
) -> None:
    off = positions - positions[0] - np.arange(len(slices))[:, None] * step
    along = off @ normal
    within = np.linalg.norm(off - along[:, None] * normal, axis=1)
    spacing = float(step @ normal)
    worst = int(np.argmax(np.abs(along)))
    if abs(along[worst]) > tolerance * spacing + ROUNDED_MM:
        raise SeriesError(
            Code.UNEVEN_SPACING,
            f"the spacing drifts: {_named(slices[worst])} is {along[worst]:.4g} mm from its place in a stack of"
            f" {len(slices)} slices {spacing:.4g} mm apart",
        )
    worst = int(np.argmax(within))
    if within[worst] > tolerance * min(slices[0].pixel_spacing) + ROUNDED_MM:
        raise SeriesError(
            Code.SHIFTED_SLICES,
            f"{_named(slices[worst])} lies {within[worst]:.4g} mm beside the line through the first and last slice",
        )
    lean = math.degrees(math.acos(min(1.0, spacing / float(np.linalg.norm(step)))))
    if lean > TILT_AT_MOST:
        raise SeriesError(Code.SHIFTED_SLICES, f"the stack leans by {lean:.4g} degrees, more than any gantry")


def _named(one: Slice) -> str:
    return one.instance.path.name + (f" frame {one.frame + 1}" if one.frame else "")


def _listed(numbers: Sequence[float]) -> str:
    return f"({', '.join(f'{number:.6g}' for number in numbers)})"
