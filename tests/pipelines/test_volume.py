"""A volume keeps array and place together; changes of axis order lose nothing and depend on nothing but the place."""

import numpy as np
import pytest
from fredholm.pipelines.volume import Volume, canonical, grid_shift, reordered, restore, same_grid
from helpers.orders import ORDERS, in_order
from nibabel.orientations import apply_orientation, io_orientation
from scipy.spatial.transform import Rotation

ANGLES = {"straight": (0, 0, 0), "oblique": (20, -10, 30), "steep": (40, 35, -50), "tie": (45, 0, 0)}


def volume(angles=(0, 0, 0), spacing=(0.7, 1.1, 3.0), shape=(3, 4, 5)) -> Volume:
    affine = np.eye(4)
    affine[:3, :3] = Rotation.from_euler("zyx", angles, degrees=True).as_matrix() * spacing
    affine[:3, 3] = (-40, 7, 1234.5)
    return Volume(np.arange(np.prod(shape), dtype=np.int16).reshape(shape), affine)


@pytest.mark.parametrize("angles", ANGLES.values(), ids=ANGLES)
def test_canonical_is_one_and_the_same_for_all_48_axis_orders(angles) -> None:
    original = volume(angles)
    expected = canonical(original)
    assert len(ORDERS) == 48
    for order in ORDERS:
        found = canonical(in_order(original, order))
        np.testing.assert_array_equal(found.array, expected.array)
        np.testing.assert_allclose(found.affine, expected.affine, rtol=0, atol=1e-9)


@pytest.mark.parametrize("angles", ANGLES.values(), ids=ANGLES)
def test_restore_undoes_canonical_for_all_48_axis_orders(angles) -> None:
    for order in ORDERS:
        given = in_order(volume(angles), order)
        back = restore(canonical(given).array, like=given)
        np.testing.assert_array_equal(back, given.array)
        assert back.flags.c_contiguous


def test_canonical_agrees_with_nibabel_where_the_order_is_not_in_doubt() -> None:
    for order in ORDERS:
        given = in_order(volume((15, 10, -20)), order)
        expected = apply_orientation(given.array, io_orientation(given.affine))
        np.testing.assert_array_equal(canonical(given).array, expected)


def test_canonical_keeps_what_the_file_said_only_if_it_is_still_true() -> None:
    given = volume()
    said = Volume(given.array, given.affine, source="header")
    assert canonical(said) is said
    flipped = Volume(given.array, given.affine @ np.diag((-1, 1, 1, 1)), source="header")
    assert canonical(flipped).source is None
    assert canonical(flipped).array.flags.c_contiguous


def test_a_file_whose_axes_run_to_ras_is_not_flipped_though_its_own_frame_was_lps() -> None:  # A9
    lps_affine = np.diag((-1.0, -1.0, 1.0, 1.0))
    ras_affine = np.diag((-1.0, -1.0, 1.0, 1.0)) @ lps_affine
    given = Volume(np.arange(8).reshape(2, 2, 2), ras_affine)
    assert canonical(given) is given


def test_spacing_is_permuted_together_with_the_array() -> None:  # A10
    affine = np.diag((1.0, 1.0, 3.0, 1.0))
    xyz = Volume(np.zeros((55, 60, 52)), affine)
    zyx = in_order(xyz, np.array([[2, 1], [1, 1], [0, 1]], float))
    assert (zyx.shape, zyx.spacing_mm) == ((52, 60, 55), (3.0, 1.0, 1.0))
    assert (canonical(zyx).shape, canonical(zyx).spacing_mm) == (xyz.shape, xyz.spacing_mm)


def test_reordered_lays_one_file_along_the_axes_of_another() -> None:
    original = volume(ANGLES["oblique"])
    for order in ORDERS:
        moved = reordered(in_order(original, order), like=original)
        np.testing.assert_array_equal(moved.array, original.array)
        same_grid(moved, original, tolerance_voxels=1e-9)


def test_same_grid_allows_a_tenth_of_a_voxel_and_no_more() -> None:
    a = volume()
    for axis, spacing in enumerate(a.spacing_mm):
        for voxels, fits in ((0.09, True), (0.11, False)):
            moved = a.affine.copy()
            moved[axis, 3] += voxels * spacing
            b = Volume(a.array, moved)
            if fits:
                same_grid(a, b)
            else:
                with pytest.raises(ValueError, match="not on one grid"):
                    same_grid(a, b)


def test_same_grid_names_both_shapes_and_both_affines_on_one_line() -> None:
    a, b = volume(), volume(shape=(3, 4, 6), spacing=(0.7, 1.1, 2.5))
    with pytest.raises(ValueError, match="not on one grid") as caught:
        same_grid(a, b)
    text = str(caught.value)
    assert "\n" not in text
    for part in ("(3, 4, 5)", "(3, 4, 6)", "3.0", "2.5", "1234.5"):
        assert part in text


def test_the_spacing_of_a_single_slice_counts_for_the_grid() -> None:
    thin, thick = (Volume(np.zeros((4, 4, 1)), np.diag((1.0, 1.0, mm, 1.0))) for mm in (3.0, 5.0))
    assert grid_shift(thin.affine, thick.affine, thin.shape) == pytest.approx(0.5 * 5 / 3 - 0.5)
    with pytest.raises(ValueError, match="not on one grid"):
        same_grid(thin, thick)


@pytest.mark.parametrize(
    ("array", "affine", "words"),
    [
        (np.zeros((2, 2)), np.eye(4), "three axes"),
        (np.zeros((2, 0, 2)), np.eye(4), r"shape \(2, 0, 2\)"),
        (np.zeros((2, 2, 2)), None, "needs an affine"),  # A14: never assume 1 mm
        (np.zeros((2, 2, 2)), np.eye(3), "4x4"),
        (np.zeros((2, 2, 2)), np.diag((1, 1, np.nan, 1)), "finite"),
        (np.zeros((2, 2, 2)), np.diag((1, 1, 0, 1)), "no inverse"),
        (np.zeros((2, 2, 2)), np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]), "no inverse"),
    ],
)
def test_a_volume_says_what_is_wrong_with_it(array, affine, words) -> None:
    with pytest.raises(ValueError, match=words):
        Volume(array, affine)


def test_channels_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"channels of shape \(2, 2, 3\) and \(2, 2, 2\) are not on one grid"):
        Volume(np.zeros((2, 2, 2)), np.eye(4), others=(np.zeros((2, 2, 3)),))


def test_restore_refuses_an_array_of_another_grid() -> None:
    with pytest.raises(ValueError, match="not on the canonical grid"):
        restore(np.zeros((5, 4, 3)), like=volume())


def test_the_affine_of_a_volume_is_its_own() -> None:
    affine = np.eye(4)
    made = Volume(np.zeros((1, 1, 1)), affine)
    affine[0, 3] = 5
    assert made.affine[0, 3] == 0
