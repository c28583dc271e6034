"""A tilted scan set upright shows each point of the patient where it is, and labels find their way back."""

import numpy as np
import pytest
from fredholm.pipelines.dicom.upright import leaning, upright
from fredholm.pipelines.volume import Volume
from helpers.dicom import AFFINE, SHAPE, place_hu
from hypothesis import given, settings
from hypothesis import strategies as st

leans = st.tuples(st.floats(-0.6, 0.6), st.floats(-0.6, 0.6))  # mm for each mm between slices: up to 40 degrees
shapes = st.tuples(st.integers(2, 9), st.integers(2, 9), st.integers(1, 7))


def leant(lean: tuple[float, float]) -> np.ndarray:
    affine = AFFINE.copy()
    affine[:2, 2] = np.multiply(lean, affine[2, 2])
    return affine


@settings(deadline=None, max_examples=50)
@given(lean=leans, shape=shapes)
def test_values_stay_where_they_are_in_the_patient(lean: tuple[float, float], shape: tuple[int, int, int]) -> None:
    affine = leant(lean)
    volume = Volume(place_hu(affine, shape).astype(np.float32), affine)
    result = upright(volume)
    axes = result.affine[:3, :3]
    if result is not volume:
        np.testing.assert_allclose(axes.T @ axes, np.diag(np.diag(axes.T @ axes)), atol=1e-9)
    expected = place_hu(result.affine, result.shape)
    measured = result.array > -1024 + 1  # around the slices is air, and half air at their edges
    inside = measured & (np.abs(result.array - expected) < 0.5)
    assert inside.sum() >= (shape[0] - 1) * (shape[1] - 1) * shape[2]


@settings(deadline=None, max_examples=50)
@given(lean=leans, shape=shapes)
def test_labels_come_back_within_half_a_voxel(lean: tuple[float, float], shape: tuple[int, int, int]) -> None:
    affine = leant(lean)
    scan = upright(Volume(np.zeros(shape, np.float32), affine))
    millimetres = np.round(place_hu(scan.affine, scan.shape) * 100).astype(np.int32)
    found = leaning(millimetres, affine, shape) / 100
    step = np.abs(affine[:2, :2].diagonal()) @ np.abs([1.0, 0.7]) / 2
    assert np.abs(found - place_hu(affine, shape)).max() <= step + 0.15  # what leans less than a tenth stays


def test_a_level_scan_is_left_alone() -> None:
    volume = Volume(np.zeros(SHAPE, np.float32), AFFINE)
    assert upright(volume) is volume
    labels = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    np.testing.assert_array_equal(leaning(labels, AFFINE, SHAPE), labels)


def test_labels_of_another_grid_are_refused() -> None:
    affine = leant((0.3, 0.0))
    with pytest.raises(ValueError, match="are not on the upright scan"):
        leaning(np.zeros(SHAPE, np.uint8), affine, SHAPE)
