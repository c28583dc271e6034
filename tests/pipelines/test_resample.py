"""Resampling keeps the box, what is linear, and what is constant; and does not care which way the axes run."""

import itertools

import numpy as np
import pytest
import torch
from fredholm.pipelines import resample
from fredholm.pipelines.nifti import read_labels
from fredholm.pipelines.resample import resample_array, resample_image, resample_labels, resampled_shape
from fredholm.pipelines.thin import keep_thin
from fredholm.pipelines.volume import Volume

# finer, coarser by interpolation, coarser by averaging, in whole and in odd ratios, one voxel, mixed
SHAPES = [
    ((6, 7, 8), (12, 21, 16)),
    ((9, 10, 11), (7, 8, 9)),
    ((12, 12, 12), (6, 4, 3)),
    ((13, 11, 10), (5, 4, 3)),
    ((1, 5, 8), (3, 1, 1)),
    ((7, 10, 12), (16, 10, 5)),
]


def rotated() -> np.ndarray:
    affine = np.array([[0.0, -0.9, 0.1, 5], [0.8, 0, 0.2, -7], [0.1, 0.3, 2.5, 40], [0, 0, 0, 1]])
    return affine


def world(volume: Volume) -> np.ndarray:
    """World coordinates of every voxel, (3, i, j, k)."""
    indices = np.stack(np.meshgrid(*(np.arange(n) for n in volume.shape), indexing="ij"))
    return np.tensordot(volume.affine[:3, :3], indices, 1) + volume.affine[:3, 3, None, None, None]


def outer_corners(volume: Volume) -> np.ndarray:
    box = [(*corner, 1) for corner in itertools.product(*((-0.5, n - 0.5) for n in volume.shape))]
    return volume.affine[:3] @ np.array(box).T


def interior(n: int, m: int) -> list[int]:
    """Output voxels whose reach touches no half voxel at the ends of the input."""
    return [i for i in range(m) if n == m or (i * n / m >= 0.999 and (i + 1) * n / m <= n - 0.999)]


def blobs(shape, seed=0) -> np.ndarray:
    smooth = resample_array(np.random.default_rng(seed).normal(size=(3, 3, 3)), shape)
    return np.digitize(smooth, [-0.5, 0.2]).astype(np.uint8) * 7


def labelled_ball() -> tuple[np.ndarray, np.ndarray, Volume]:
    """A ball of radius 14 mm, the distance of each voxel from its surface in mm, and its grid of 1 mm."""
    radius = np.sqrt(sum(np.meshgrid(*((np.arange(40) - 19.5) ** 2,) * 3, indexing="ij")))
    ball = (radius < 14).astype(np.uint8)
    return ball, radius - 14, Volume(ball, np.eye(4))


@pytest.mark.parametrize(("shape", "target"), SHAPES)
def test_the_outer_corners_of_the_box_stay(shape, target) -> None:
    given = Volume(np.zeros(shape), rotated())
    spacing = [n * mm / m for n, mm, m in zip(shape, given.spacing_mm, target, strict=True)]
    found = resample_image(given, spacing)
    assert found.shape == target
    np.testing.assert_allclose(found.spacing_mm, spacing, rtol=1e-12)
    np.testing.assert_allclose(outer_corners(found), outer_corners(given), rtol=0, atol=1e-9)


def test_shape_and_spacing_follow_the_named_convention() -> None:  # A6
    given = Volume(np.zeros((128, 128, 32)), np.eye(4))
    found = resample_image(given, (2, 1, 0.2))
    assert found.shape == (64, 128, 160)
    assert found.spacing_mm == pytest.approx((2, 1, 0.2))
    assert resampled_shape(given, (1000, 3, 7)) == (1, 43, 5)


@pytest.mark.parametrize(("shape", "target"), SHAPES)
def test_a_ramp_stays_equal_to_the_world_coordinate_in_the_interior(shape, target) -> None:  # A8
    given = Volume(np.zeros(shape), rotated())
    for axis in range(3):
        ramp = Volume(world(given)[axis], given.affine)
        found = resample_image(ramp, [n * mm / m for n, mm, m in zip(shape, given.spacing_mm, target, strict=True)])
        kept = np.ix_(*(interior(n, m) for n, m in zip(shape, target, strict=True)))
        np.testing.assert_allclose(found.array[kept], world(found)[axis][kept], rtol=0, atol=1e-4)


def test_a_ramp_of_16_voxels_at_4_mm_is_exact() -> None:  # A8
    ramp = np.broadcast_to(np.arange(16.0)[:, None, None], (16, 4, 4))
    found = resample_image(Volume(ramp, np.eye(4)), (4, 1, 1))
    np.testing.assert_allclose(found.array[1:-1, 0, 0], world(found)[0, 1:-1, 0, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("shape", "target"), SHAPES)
def test_a_constant_stays_constant(shape, target) -> None:
    found = resample_array(np.full(shape, -1024, np.int16), target)
    assert (found.shape, found.dtype) == (target, np.float32)
    np.testing.assert_allclose(found, -1024, rtol=1e-6)


def test_an_unchanged_grid_changes_nothing() -> None:
    given = Volume(np.random.default_rng(0).normal(size=(5, 6, 7)), rotated())
    assert resample_image(given, given.spacing_mm) is given
    np.testing.assert_array_equal(resample_array(given.array, given.shape), given.array.astype(np.float32))
    labels = blobs((5, 6, 7)).astype(np.int16)
    found = resample_labels(labels, labels.shape)
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found, labels)


@pytest.mark.parametrize(("shape", "target"), [SHAPES[0], SHAPES[1], ((1, 5, 8), (3, 9, 8))])
def test_sampling_equals_torch_trilinear_interpolation(shape, target) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    expected = torch.nn.functional.interpolate(torch.from_numpy(array)[None, None], target, mode="trilinear")[0, 0]
    np.testing.assert_allclose(resample_array(array, target), expected, rtol=0, atol=1e-5)


def test_averaging_lets_no_voxel_go_unseen() -> None:
    for voxel in range(12):
        array = np.zeros((12, 1, 1))
        array[voxel] = 1
        assert resample_array(array, (3, 1, 1)).sum() == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize(("shape", "target"), SHAPES)
def test_it_commutes_with_axis_permutations_and_flips(shape, target) -> None:
    image, labels = np.random.default_rng(0).normal(size=shape), blobs(shape)
    for order in itertools.permutations(range(3)):
        for flipped in ([], [0], [1, 2], [0, 1, 2]):

            def turn(array: np.ndarray, order=order, flipped=flipped) -> np.ndarray:
                return np.flip(array.transpose(order), flipped)

            turned = tuple(target[axis] for axis in order)
            found = resample_array(turn(image), turned)
            np.testing.assert_allclose(found, turn(resample_array(image, target)), rtol=0, atol=1e-5)
            np.testing.assert_array_equal(resample_labels(turn(labels), turned), turn(resample_labels(labels, target)))


@pytest.mark.parametrize("spacing", [(0.7, 0.7, 0.7), (1.4, 1.4, 1.4), (2, 2, 2), (1.3, 0.6, 2.4)])
def test_a_smooth_blob_keeps_its_volume_there_and_back(spacing) -> None:
    _, from_surface, grid = labelled_ball()
    image = Volume(100 * np.exp(-((from_surface + 14) ** 2) / 2 / 6**2), grid.affine)
    there = resample_image(image, spacing)
    back = resample_image(there, image.spacing_mm)
    assert back.shape == image.shape
    np.testing.assert_allclose(back.affine, image.affine, atol=1e-9)
    assert back.array.sum() == pytest.approx(image.array.sum(), rel=0.02)


@pytest.mark.parametrize("spacing", [(0.7, 0.7, 0.7), (0.5, 0.9, 0.3)])
def test_a_ball_of_labels_comes_back_from_a_finer_grid(spacing) -> None:
    ball, _, grid = labelled_ball()
    there = resample_labels(ball, resampled_shape(grid, spacing))
    assert there.mean() == pytest.approx(ball.mean(), rel=0.02)
    assert np.mean(resample_labels(there, ball.shape) == ball) > 0.999


@pytest.mark.parametrize("spacing", [(1.4, 1.4, 1.4), (2, 2, 2), (1.3, 0.6, 2.4)])
def test_labels_change_only_within_a_coarse_voxel_of_a_border(spacing) -> None:
    ball, from_surface, grid = labelled_ball()
    back = resample_labels(resample_labels(ball, resampled_shape(grid, spacing)), ball.shape)
    changed = back != ball
    assert np.abs(from_surface[changed]).max() < np.linalg.norm(spacing)
    assert changed.mean() < 0.05


@pytest.mark.parametrize(("shape", "target"), SHAPES)
@pytest.mark.parametrize(
    ("values", "dtype"), [((0, 7, 14), np.uint8), ((-1, 0, 5), np.int16), ((2, 3, 70000), np.int64)]
)
def test_labels_are_the_arg_max_of_the_resampled_masks_and_what_is_thin(shape, target, values, dtype) -> None:
    labels = np.array(values, dtype)[blobs(shape) // 7]
    values = np.unique(labels)
    shares = np.stack([resample_array(labels == value, target) for value in values])
    expected = values[np.argmax(shares > shares.max(0) - 1e-5, axis=0)]  # the first, so the smallest, of the largest
    keep_thin(labels, expected)
    found = resample_labels(labels, target)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)


def test_equal_shares_go_to_the_smaller_label() -> None:
    for pair in ((9, 4), (4, 9), (-3, 200)):
        labels = np.array(pair, np.int16).reshape(2, 1, 1)
        assert resample_labels(labels, (1, 1, 1)).item() == min(pair)  # averaged
        assert resample_labels(labels, (3, 1, 1)).ravel().tolist() == [pair[0], min(pair), pair[1]]  # interpolated


def test_slabs_leave_no_seam(monkeypatch) -> None:
    labels = blobs((13, 11, 10))
    for target in ((40, 11, 9), (9, 30, 10), (5, 4, 3)):
        monkeypatch.setattr(resample, "SLAB", 1000)
        whole = resample_labels(labels, target)
        for slab in (1, 2, 7):
            monkeypatch.setattr(resample, "SLAB", slab)
            np.testing.assert_array_equal(resample_labels(labels, target), whole)


def test_a_thin_structure_takes_no_voxel_that_it_does_not_fill() -> None:
    labels = np.zeros((9, 9, 9), np.uint8)
    labels[4] = 1
    found = resample_labels(labels, (27, 9, 9))
    assert np.unique(found[:, 4, 4]).tolist() == [0, 1]
    assert found[12:15].all()
    assert found.sum() == 3 * 81


def test_torso_labels_survive_a_finer_grid(medical) -> None:
    given = read_labels(medical / "torso" / "labels.nii.gz")
    finer = resampled_shape(given, (2, 2, 2))
    back = resample_labels(resample_labels(given.array, finer), given.shape)
    assert set(np.unique(back)) == set(np.unique(given.array))
    assert np.mean(back == given.array) > 0.99


@pytest.mark.parametrize("spacing", [(1, 1), (1, 0, 1), (1, -2, 1), (1, float("nan"), 1), (float("inf"), 1, 1)])
def test_a_spacing_that_is_none_is_refused(spacing) -> None:
    with pytest.raises(ValueError, match="three positive numbers of mm"):
        resample_image(Volume(np.zeros((2, 2, 2)), np.eye(4)), spacing)


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ValueError, match=r"three axes .* not \(2, 2, 2\) to \(2, 0, 2\)"):
        resample_array(np.zeros((2, 2, 2)), (2, 0, 2))
    with pytest.raises(ValueError, match="labels are integers"):
        resample_labels(np.zeros((2, 2, 2)), (2, 2, 2))
