"""Contours go round masks along the sides of their voxels, holes and all, and give the masks back."""

import numpy as np
import pytest
from fredholm.pipelines.dicom.contours import inside, outlines
from hypothesis import given, settings
from hypothesis.extra.numpy import array_shapes, arrays
from matplotlib.path import Path as Outline
from skimage.draw import polygon2mask
from skimage.measure import label

RING = np.ones((5, 6), bool)
RING[1:4, 1:5] = False
SIEVE = np.ones((9, 11), bool)
SIEVE[1::2, 1::2] = False
MASKS = arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=12))


def area(polygon: np.ndarray) -> float:
    x, y = polygon.T
    return float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


@settings(deadline=None)
@given(MASKS)
def test_a_mask_comes_back(mask: np.ndarray) -> None:
    np.testing.assert_array_equal(inside(outlines(mask), mask.shape), mask)


@settings(deadline=None)
@given(MASKS)
def test_areas_are_numbers_of_voxels_and_one_polygon_is_one_part(mask: np.ndarray) -> None:
    areas = sorted(abs(area(polygon)) for polygon in outlines(mask))
    assert areas == sorted(np.bincount(label(mask, connectivity=1).ravel())[1:])


@settings(deadline=None)
@given(MASKS)
def test_all_lines_run_along_rows_and_columns_and_turn_at_each_point(mask: np.ndarray) -> None:
    for polygon in outlines(mask):
        steps = np.roll(polygon, -1, axis=0) - polygon
        assert np.all((steps == 0).sum(axis=1) == 1)
        np.testing.assert_array_equal(polygon % 1, 0.5)
        ahead = np.roll(steps, -1, axis=0)
        assert not np.any((np.sign(steps) == np.sign(ahead)).all(axis=1))


@settings(deadline=None)
@given(MASKS)
def test_a_quarter_turn_turns_the_contours(mask: np.ndarray) -> None:
    # a keyhole goes to the left, so only what is inside may be compared
    turned = [np.stack([polygon[:, 1], mask.shape[1] - 1 - polygon[:, 0]], axis=1) for polygon in outlines(mask)]
    np.testing.assert_array_equal(inside(turned, mask.shape[::-1]), np.rot90(mask))


@pytest.mark.parametrize("mask", [RING, SIEVE], ids=["ring", "sieve"])
def test_a_hole_is_a_keyhole_for_programs_of_either_kind(mask: np.ndarray) -> None:
    (polygon,) = outlines(mask)
    assert abs(area(polygon)) == np.count_nonzero(mask)
    centres = np.argwhere(np.ones(mask.shape))
    by_winding = Outline(polygon).contains_points(centres[:, ::-1]).reshape(mask.shape)  # Matplotlib's rule is non-zero
    np.testing.assert_array_equal(by_winding, mask)
    by_parity = polygon2mask(mask.shape, polygon[:, ::-1])
    np.testing.assert_array_equal(by_parity, mask)


@settings(deadline=None)
@given(MASKS)
def test_no_line_leaves_its_part_not_even_a_keyhole(mask: np.ndarray) -> None:
    around = np.pad(mask, 1)
    for polygon in outlines(mask):
        for start, end in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
            length = int(np.abs(end - start).sum())
            step = (end - start) / length
            middles = start + step * (np.arange(length)[:, None] + 0.5)
            (column, row), (other_column, other_row) = (
                np.rint(middles + side * step[::-1] / 2).astype(int).T + 1 for side in (1, -1)
            )
            assert np.all(around[row, column] | around[other_row, other_column])


def test_no_voxel_no_contour() -> None:
    assert outlines(np.zeros((3, 4), bool)) == []
    assert not inside([], (3, 4)).any()


def test_one_voxel_is_a_square_round_its_centre() -> None:
    mask = np.zeros((3, 4), bool)
    mask[1, 2] = True
    (polygon,) = outlines(mask)
    assert sorted(map(tuple, polygon)) == [(1.5, 0.5), (1.5, 1.5), (2.5, 0.5), (2.5, 1.5)]


def test_polygons_of_others_may_be_slanted_have_holes_of_their_own_and_leave_the_picture() -> None:
    triangle = np.array([[-0.2, -0.2], [4.6, -0.2], [-0.2, 4.6]])
    rows, columns = np.indices((6, 7))
    np.testing.assert_array_equal(inside([triangle], (6, 7)), rows + columns <= 4)
    hole = np.array([[0.5, 0.5], [1.5, 0.5], [1.5, 1.5], [0.5, 1.5]])
    expected = rows + columns <= 4
    expected[1, 1] = False
    np.testing.assert_array_equal(inside([triangle, hole], (6, 7)), expected)
    np.testing.assert_array_equal(inside([triangle - 2], (6, 7)), rows + columns <= 0)
    far = np.array([[-50.0, -50], [50, -50], [50, 50], [-50, 50]])
    assert inside([far], (6, 7)).all()
    assert not inside([far + 1000], (6, 7)).any()


@settings(deadline=None)
@given(MASKS)
def test_the_direction_and_the_first_point_do_not_matter(mask: np.ndarray) -> None:
    polygons = [np.roll(polygon[::-1], 3, axis=0) for polygon in outlines(mask)]
    np.testing.assert_array_equal(inside(polygons, mask.shape), mask)
