"""Laws of reading, over scans of any place: every voxel lies where its HU says, or the series is refused by name."""

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.dicom import Code, Findings, SeriesError, find_series, read_series
from helpers.dicom import SLOPE, ct_series, decimals, enhanced, place_hu, save
from hypothesis import given, settings
from hypothesis import strategies as st
from pydicom.dataset import Dataset
from scipy.spatial.transform import Rotation

TURNS = st.tuples(*(st.floats(-math.pi, math.pi) for _ in range(3)))
SPACINGS = st.tuples(st.floats(0.3, 3.0), st.floats(0.3, 3.0), st.floats(0.5, 6.0))
LEANS = st.tuples(*(st.floats(-0.5, 0.5) for _ in range(2)))  # mm for each mm between slices: up to 35 degrees
ORIGINS = st.tuples(*(st.floats(-500, 500) for _ in range(3)))
SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(4, 8))
law = settings(deadline=None, max_examples=25)


@st.composite
def scans(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, int, int], list[Dataset], list[int]]:
    """Affine, shape, slices in order, and an order in which to keep them."""
    i, j, k = np.array(Rotation.from_euler("xyz", draw(TURNS)).as_matrix()).T
    (across, down, apart), lean = draw(SPACINGS), draw(LEANS)
    affine = np.eye(4)
    affine[:3, :3] = np.stack([across * i, down * j, apart * (k + lean[0] * i + lean[1] * j)], axis=1)
    affine[:3, 3] = draw(ORIGINS)
    shape = draw(SHAPES)
    return affine, shape, ct_series(affine, shape), draw(st.permutations(range(shape[2])))


def found(datasets: list[Dataset]) -> Findings:
    with tempfile.TemporaryDirectory() as folder:
        save(datasets, Path(folder), [f"{number}.dcm" for number in range(len(datasets))])
        findings = find_series(Path(folder))
        for one in findings.candidates:
            if one.series:
                assert_true(one.series)
    return findings


def assert_true(series) -> None:
    """Every voxel holds the HU of the place where the affine puts it."""
    volume = read_series(series)
    np.testing.assert_allclose(volume.array, place_hu(volume.affine, volume.shape), atol=0.51 * SLOPE + 1e-3)


def refusal(findings: Findings) -> SeriesError:
    with pytest.raises(SeriesError) as caught:
        findings.only()
    return caught.value


@law
@given(scan=scans())
def test_any_orientation_order_and_tilt_is_read_right(scan) -> None:
    affine, shape, slices, order = scan
    (one,) = found([slices[k] for k in order]).candidates
    assert one.series is not None
    assert one.series.shape == shape
    volume_of_stack = abs(np.linalg.det(affine[:3, :3]))
    assert abs(np.linalg.det(one.series.affine[:3, :3])) == pytest.approx(volume_of_stack, rel=1e-6)
    if np.linalg.det(affine[:3, :3]) > 0:  # our first slice is the lowest along the normal of row and column
        expected = affine
    else:
        expected = affine @ np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, shape[2] - 1], [0, 0, 0, 1.0]])
    np.testing.assert_allclose(one.series.affine, expected, atol=1e-5)


@law
@given(scan=scans())
def test_an_enhanced_image_of_any_place_is_read_right(scan) -> None:
    _, shape, slices, order = scan
    (one,) = found([enhanced([slices[k] for k in order])]).candidates
    assert one.series is not None
    assert one.series.shape == shape


@law
@given(scan=scans(), data=st.data())
def test_a_gap_is_refused_with_the_number_of_slices_that_are_missing(scan, data) -> None:
    _, shape, slices, order = scan
    first = data.draw(st.integers(1, shape[2] - 3), "first that is missing")
    count = data.draw(st.integers(1, max(1, (shape[2] - 2 - first) // 2)), "how many are missing")
    kept = [slices[k] for k in order if not first <= k < first + count]
    error = refusal(found(kept))
    if len(kept) == 3:  # of two gaps neither is the usual one
        assert error.code in (Code.MISSING_SLICES, Code.UNEVEN_SPACING)
    else:
        assert error.code == Code.MISSING_SLICES
        assert f"{count} missing beside {len(kept)} found" in error.reason


@law
@given(scan=scans(), data=st.data())
def test_an_uneven_stack_is_refused(scan, data) -> None:
    affine, shape, slices, order = scan
    which = slices[data.draw(st.integers(1, shape[2] - 2), "slice")]
    share = data.draw(st.floats(0.3, 0.45), "share of a step")
    step = affine[:3, 2] * (-1, -1, 1) * share
    which.ImagePositionPatient = decimals(np.array(which.ImagePositionPatient, float) + step)
    assert refusal(found([slices[k] for k in order])).code == Code.UNEVEN_SPACING


@law
@given(scan=scans(), data=st.data())
def test_a_slice_moved_within_its_plane_is_refused(scan, data) -> None:
    affine, shape, slices, order = scan
    which = slices[data.draw(st.integers(1, shape[2] - 2), "slice")]
    step = affine[:3, data.draw(st.integers(0, 1), "axis")] * (-1, -1, 1) * data.draw(st.floats(1, 5), "voxels")
    which.ImagePositionPatient = decimals(np.array(which.ImagePositionPatient, float) + step)
    assert refusal(found([slices[k] for k in order])).code == Code.SHIFTED_SLICES


@law
@given(scan=scans(), data=st.data())
def test_a_duplicate_position_is_refused_and_a_repeated_file_is_left_out(scan, data) -> None:
    affine, shape, slices, order = scan
    which = data.draw(st.integers(0, shape[2] - 1), "slice")
    kept = [slices[k] for k in order]
    (one,) = found([*kept, slices[which]]).candidates
    assert one.series is not None
    assert one.series.shape == shape
    assert one.series.repairs == ("1 slices left out, their SOP UID repeats",)
    again = ct_series(affine, shape, SeriesInstanceUID=slices[0].SeriesInstanceUID)[which]
    error = refusal(found([*kept, again]))
    assert error.code == Code.DUPLICATE_POSITION
    assert f"1 of {shape[2] + 1} slices" in error.reason


@law
@given(scan=scans(), data=st.data())
def test_two_slices_with_one_uid_are_refused(scan, data) -> None:
    _, shape, slices, order = scan
    slices[0].SOPInstanceUID = slices[data.draw(st.integers(1, shape[2] - 1), "slice")].SOPInstanceUID
    error = refusal(found([slices[k] for k in order]))
    assert error.code == Code.DUPLICATE_UID


@law
@given(scan=scans(), other=scans(), data=st.data())
def test_a_mixture_is_taken_apart_and_each_part_read_right(scan, other, data) -> None:
    """Two series, and a localizer and a second orientation under the UID of the first."""
    _, shape, slices, _ = scan
    _, other_shape, other_slices, _ = other
    localizer = ct_series(shape=(3, 3, 1), SeriesInstanceUID=slices[0].SeriesInstanceUID)
    localizer[0].ImageType = ["ORIGINAL", "PRIMARY", "LOCALIZER"]
    mixed = data.draw(st.permutations([*slices, *other_slices, *localizer]), "order")
    findings = found(mixed)
    read = [one for one in findings.candidates if one.series]
    assert sorted(one.series.shape for one in read if one.series) == sorted([shape, other_shape])
    (left,) = [one for one in findings.candidates if not one.series]
    assert left.refusal is not None
    assert left.refusal.code == Code.LOCALIZER
    assert refusal(findings).code == Code.AMBIGUOUS
    assert findings.only(other_slices[0].SeriesInstanceUID).shape == other_shape
