"""Distances of surfaces, in mm: against the definition, and by laws that need none."""

import itertools
import math

import numpy as np
import pytest
from fredholm.pipelines.scores import Distances, surface_distances
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

SPACING = (0.7, 1.0, 2.5)


def blob(seed: int, shape=(9, 11, 8)) -> np.ndarray:
    mask = gaussian_filter(np.random.default_rng(seed).normal(size=shape), 1.2) > 0.05
    mask[4, 5, 4] = True
    return mask


def measure(prediction: np.ndarray, reference: np.ndarray, spacing=(1.0, 1.0, 1.0)) -> Distances:
    return surface_distances(prediction, reference, np.diag(spacing))


def scores(distances: Distances) -> list[float]:
    return [*(distances.hausdorff_mm(q) for q in (0, 50, 95, 100)), *map(distances.surface_dice, (0, 0.8, 2))]


def corners_of_the_surface(mask: np.ndarray, spacing: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Where eight voxels meet that are not alike, by the words of the definition."""
    padded = np.pad(mask, 1)
    return [
        tuple(step * at for step, at in zip(spacing, (i, j, k), strict=True))
        for i, j, k in itertools.product(*(range(n + 1) for n in mask.shape))
        if 0 < padded[i : i + 2, j : j + 2, k : k + 2].sum() < 8
    ]


def test_the_distance_is_that_of_the_definition() -> None:
    p, r = blob(0), blob(1)
    ours, theirs = (corners_of_the_surface(mask, SPACING) for mask in (p, r))
    there = [min(math.dist(a, b) for b in theirs) for a in ours]
    back = [min(math.dist(a, b) for a in ours) for b in theirs]
    found = measure(p, r, SPACING)
    np.testing.assert_allclose(sorted(found.to_reference_mm), sorted(there), atol=1e-12)
    np.testing.assert_allclose(sorted(found.to_prediction_mm), sorted(back), atol=1e-12)
    assert found.hausdorff_mm() == pytest.approx(max(*there, *back))


def test_the_area_of_a_box_is_that_of_its_sides_cut_off_at_edges_and_corners() -> None:
    area = measure(np.ones((10, 20, 30), bool), np.ones((10, 20, 30), bool), (0.5, 0.5, 2.0)).prediction_mm2.sum()
    sides = 2 * (5 * 10 + 5 * 60 + 10 * 60)
    assert 0.95 * sides < area < sides


def test_area_and_not_the_number_of_voxels_is_the_weight() -> None:
    # a slab in slices of 5 mm; one of its sides, 8 % of its area but 3 % of its voxels, is 4 mm too far
    reference = np.zeros((48, 40, 2), bool)
    reference[4:40] = True
    prediction = reference.copy()
    prediction[40:44] = True
    distances = measure(prediction, reference, (1.0, 1.0, 5.0))
    assert distances.hausdorff_mm(95) == 4.0
    assert distances.hausdorff_mm(90) < 4.0


def test_a_mask_at_the_border_keeps_its_surface_there() -> None:  # C7
    whole, part = np.ones((8, 8, 8), bool), np.ones((8, 8, 8), bool)
    part[:, :, -1] = False
    assert measure(whole, part).hausdorff_mm() == 1.0


def test_single_voxels_are_masks_too() -> None:  # C7
    one, other = np.zeros((2, 16, 16, 16), bool)
    one[0, 0, 0] = other[3, 4, 0] = True
    assert measure(one, other).hausdorff_mm() == 5.0
    assert measure(one, one).hausdorff_mm() == 0.0
    assert measure(np.ones((1, 1, 1), bool), np.ones((1, 1, 1), bool)).surface_dice(0) == 1.0


@pytest.mark.parametrize(("spacing", "expected"), [((0.5, 2.0, 1.0), 2.0), ((2.0, 0.5, 1.0), 8.0)])
def test_distances_are_in_mm_along_the_right_axis(spacing, expected: float) -> None:  # C8
    square, moved = np.zeros((2, 20, 20, 1), bool)
    square[4:10, 4:10] = moved[8:14, 4:10] = True
    assert measure(square, moved, spacing).hausdorff_mm() == expected


def test_the_percentile_may_be_any_zero_included() -> None:  # C2
    square, moved = np.zeros((2, 20, 20, 1), bool)
    square[4:10, 4:10] = moved[8:14, 4:10] = True
    distances = measure(square, moved)
    assert distances.hausdorff_mm(0) == 0.0
    assert distances.hausdorff_mm(100) == distances.hausdorff_mm() == 4.0


def test_a_distance_of_just_the_tolerance_is_within_it_whatever_the_rounding() -> None:
    thick, thin = np.zeros((2, 12, 6, 6), bool)
    thick[2:10], thin[2:8] = True, True
    for step in (0.1, 0.7, 0.9, 1.1, float(np.float32(0.7))):
        assert measure(thick, thin, (step, 50.0, 50.0)).surface_dice(round(2 * step, 6)) == 1.0
        assert measure(thick, thin, (step, 50.0, 50.0)).surface_dice(1.98 * step) < 1.0


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_surface_fits_itself_and_a_pair_may_be_swapped(seed: int, other: int) -> None:
    p, r = blob(seed), blob(other)
    assert scores(measure(p, p, SPACING)) == [0, 0, 0, 0, 1, 1, 1]
    np.testing.assert_allclose(scores(measure(p, r, SPACING)), scores(measure(r, p, SPACING)), rtol=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.permutations(range(3)), st.tuples(*[st.sampled_from([1, -1])] * 3), st.integers(0, 3))
def test_axis_order_flips_margins_and_memory_order_change_nothing(seed: int, order, flips, margin: int) -> None:
    expected = scores(measure(blob(seed), blob(seed + 1), SPACING))
    turn = tuple(slice(None, None, flip) for flip in flips)
    masks = [np.pad(blob(s), margin)[turn].transpose(order) for s in (seed, seed + 1)]
    axes = np.diag([SPACING[axis] for axis in order]) * [flips[axis] for axis in order]
    np.testing.assert_allclose(scores(surface_distances(*masks, axes)), expected, rtol=1e-7)


def test_distances_scale_with_the_spacing() -> None:
    p, r = blob(2), blob(3)
    one, three = measure(p, r, SPACING), measure(p, r, tuple(3 * step for step in SPACING))
    assert three.hausdorff_mm(95) == pytest.approx(3 * one.hausdorff_mm(95))
    assert three.surface_dice(6) == pytest.approx(one.surface_dice(2))


def test_an_oblique_grid_measures_what_a_straight_one_does() -> None:
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    p, r = blob(4), blob(5)
    oblique = surface_distances(p, r, turn @ np.diag(SPACING))
    np.testing.assert_allclose(scores(oblique), scores(measure(p, r, SPACING)), rtol=1e-6)


def test_slanted_axes_are_measured_along_their_slant() -> None:  # a gantry's tilt
    one, other = np.zeros((2, 4, 4, 4), bool)
    one[0, 0, 0] = other[0, 0, 3] = True
    axes = np.array([[1.0, 0, 0], [0, 1, 1], [0, 0, 2]])
    assert surface_distances(one, other, axes).hausdorff_mm() == pytest.approx(3 * math.hypot(1, 2))


def test_what_cannot_be_measured_is_said() -> None:
    full, empty = np.ones((3, 3, 3), bool), np.zeros((3, 3, 3), bool)
    with pytest.raises(ValueError, match="no surface"):
        measure(full, empty)
    with pytest.raises(ValueError, match="no surface"):
        measure(empty, full)
    with pytest.raises(ValueError, match=r"\(3, 3, 3\), reference \(2, 2, 2\)"):
        measure(full, np.ones((2, 2, 2), bool))
    with pytest.raises(ValueError, match="0 to 100"):
        measure(full, full).hausdorff_mm(101)
    for wrong in (-1.0, math.nan):
        with pytest.raises(ValueError, match="0 mm or more"):
            measure(full, full).surface_dice(wrong)
