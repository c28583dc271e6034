"""A scan reaches the network in one form, however its file ran, and air stays air."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from fredholm.pipelines import survey
from fredholm.pipelines.plan import Preparation
from fredholm.pipelines.prepare import fitting, prepare_image, prepare_labels, scale
from fredholm.pipelines.resample import resample_labels
from fredholm.pipelines.survey import look
from fredholm.pipelines.volume import Volume
from helpers.orders import ORDERS, in_order
from nibabel.orientations import apply_orientation

SPACING = (0.9, 1.5, 2.0)


def scan(shape=(9, 7, 6), spacing=SPACING, seed=0) -> Volume:
    affine = np.diag((*spacing, 1.0))
    affine[:3, 3] = (-33.3, 12.1, 1007.7)
    return Volume(np.random.default_rng(seed).uniform(-1024, 1500, shape).astype(np.float32), affine)


def label_map(shape=(9, 7, 6), seed=0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 4, shape).astype(np.uint8)


def preparation(spacing_mm=SPACING, window_hu=(-200.0, 300.0), **more) -> Preparation:
    return Preparation(spacing_mm=spacing_mm, window_hu=window_hu, **more)


def fitted(*cases: tuple[Volume, np.ndarray], classes: int = 4) -> Preparation:
    return fitting([look(volume, labels, classes) for volume, labels in cases])


def scale_hu(image: np.ndarray, preparation: Preparation) -> np.ndarray:
    return scale(image, preparation.window_hu, preparation.range)


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 1.0), (0.1, 0.7), (5.0, 2.0)])
def test_air_is_exactly_the_start_of_the_range(ends: tuple[float, float]) -> None:
    air = np.array([-200, -201, -1000, -1024, -3024, -32768, -1e30], np.float32)
    assert (scale_hu(air, preparation(range=ends)) == np.float32(ends[0])).all()


def test_each_channel_has_a_window_of_its_own_whatever_the_axis_order() -> None:
    labels, second = label_map(), np.float32(3) * scan(seed=1).array + 5000
    own = fitted((replace(scan(), others=(second,)), labels))
    alone = fitted((replace(scan(), array=second), labels))
    assert own.windows == (fitted((scan(), labels)).window_hu, alone.window_hu)
    for order in ORDERS:
        one, other = in_order(scan(), order), in_order(replace(scan(), array=second), order)
        found = prepare_image(replace(one, others=(other.array,)), own)
        assert torch.equal(found[:1], prepare_image(scan(), replace(own, windows_of_others=())))
        assert torch.equal(found[1:], prepare_image(replace(scan(), array=second), alone))


def test_an_image_of_more_channels_than_planned_is_refused() -> None:
    with pytest.raises(ValueError, match="the image has 2 channels, the plan is for 1"):
        prepare_image(replace(scan(), others=(scan().array,)), preparation())


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 1.0), (0.1, 0.7), (5.0, 2.0)])
def test_the_ends_of_the_window_become_the_ends_of_the_range(ends: tuple[float, float]) -> None:
    found = scale_hu(np.array([-200.0, 50.0, 300.0, 3071.0]), preparation(range=ends))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [ends[0], sum(ends) / 2, ends[1], ends[1]], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32, np.float64])
def test_any_stored_type_gives_the_same(dtype) -> None:
    image = np.arange(0, 400, 7).astype(dtype)
    np.testing.assert_array_equal(
        scale_hu(image, preparation()), scale_hu(image.astype(np.float32), preparation()), strict=True
    )


@pytest.mark.parametrize("spacing", [SPACING, (1.7, 1.1, 2.0), (4.0, 4.0, 4.0)])
def test_all_48_axis_orders_of_a_scan_give_one_tensor(spacing) -> None:
    expected = prepare_image(scan(), preparation(spacing))
    assert len(ORDERS) == 48
    for order in ORDERS:
        assert torch.equal(prepare_image(in_order(scan(), order), preparation(spacing)), expected)


@pytest.mark.parametrize("shape", [(9, 7, 6), (13, 4, 6), (3, 3, 3)])
def test_all_48_axis_orders_of_a_label_map_give_one_tensor(shape: tuple[int, int, int]) -> None:
    given = scan()
    expected = prepare_labels(label_map(), given, shape)
    for order in ORDERS:
        turned = apply_orientation(label_map(), order)
        assert torch.equal(prepare_labels(turned, in_order(given, order), shape), expected)


def test_axes_run_to_the_right_the_front_and_the_head() -> None:
    marked = np.full((5, 6, 7), -1000, np.float32)
    marked[4, 0, 1] = 300  # right, back, near the feet
    stored = in_order(Volume(marked, np.eye(4)), np.array([[2, -1], [0, 1], [1, -1]], float))
    found = prepare_image(stored, preparation((1.0, 1.0, 1.0)))
    assert found.shape == (1, 5, 6, 7)
    assert torch.nonzero(found > 0).tolist() == [[0, 4, 0, 1]]


def test_a_scan_already_at_the_spacing_is_only_scaled() -> None:
    given = scan()
    found = prepare_image(given, preparation())
    assert (found.shape, found.dtype) == ((1, *given.shape), torch.float32)
    np.testing.assert_array_equal(found[0].numpy(), scale_hu(given.array, preparation()))


def test_a_scan_nearly_at_the_spacing_is_only_scaled() -> None:
    given = scan()
    found = prepare_image(given, preparation((0.902, 1.499, 2.01)))
    np.testing.assert_array_equal(found[0].numpy(), scale_hu(given.array, preparation()))


def test_preparing_changes_neither_scan_nor_labels() -> None:
    given, labels = scan(), label_map()
    image_before, labels_before = given.array.copy(), labels.copy()
    prepare_image(given, preparation()).zero_()
    prepare_labels(labels, given, given.shape).zero_()
    np.testing.assert_array_equal(given.array, image_before)
    np.testing.assert_array_equal(labels, labels_before)


def test_image_and_labels_lie_on_one_another() -> None:
    labels = np.zeros((24, 20, 22), np.uint8)
    labels[6:18, 4:10, 8:20] = 1
    given = Volume(np.where(labels, 300.0, -1000.0).astype(np.float32), np.diag((-1.0, 1.0, 1.5, 1.0)))
    image = prepare_image(given, preparation((2.0, 1.4, 1.5), window_hu=(-1000.0, 300.0)))
    found = prepare_labels(labels, given, image.shape[1:])
    assert found.shape == image.shape[1:]
    assert found.dtype == torch.uint8
    inside, outside = image[0][found == 1], image[0][found == 0]
    assert float(inside.min()) >= -1e-5  # more than half of the voxel is labelled
    assert float(outside.max()) <= 1e-5


def test_labels_are_resampled_as_labels() -> None:
    given = scan()
    found = prepare_labels(label_map(), given, (4, 14, 6))
    np.testing.assert_array_equal(found.numpy(), resample_labels(label_map(), (4, 14, 6)))
    assert set(found.unique().tolist()) <= {0, 1, 2, 3}


def test_values_stay_in_the_range_whatever_the_spacing() -> None:
    for spacing in (SPACING, (0.5, 0.5, 0.5), (3.0, 3.0, 3.0)):
        found = prepare_image(scan(), preparation(spacing))
        assert float(found.min()) >= -1
        assert float(found.max()) <= 1


def test_a_scan_of_nothing_but_air_is_all_air() -> None:
    air = Volume(np.full((5, 5, 5), -1000, np.float32), np.eye(4))
    assert (prepare_image(air, preparation((0.7, 1.0, 3.0))) == -1).all()


def test_the_fitted_spacing_is_the_median_towards_right_front_and_head() -> None:
    spacings = [(1.0, 1.0, 3.0), (2.0, 1.1, 5.0), (1.5, 1.2, 4.0)]
    volumes = [(scan(spacing=spacing), label_map()) for spacing in spacings]
    assert fitted(*volumes).spacing_mm == (1.5, 1.1, 4.0)
    turned = []
    for index, (volume, labels) in enumerate(volumes):
        order = ORDERS[7 + 13 * index]
        turned.append((in_order(volume, order), apply_orientation(labels, order)))
    assert fitted(*turned).spacing_mm == (1.5, 1.1, 4.0)


def test_the_fitted_window_is_that_of_the_labelled_voxels() -> None:
    image = np.full((20, 20, 20), -1000, np.float32)
    labels = np.zeros((20, 20, 20), np.uint8)
    labels[5:15, 5:15, 5:15] = 1
    image[labels == 1] = np.linspace(-50, 150, 1000)
    low, high = fitted((Volume(image, np.eye(4)), labels)).window_hu
    assert low == pytest.approx(-49, abs=1)
    assert high == pytest.approx(149, abs=1)


def test_a_sample_of_the_labelled_voxels_is_the_same_in_all_48_axis_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "SAMPLED", 20)
    expected = fitted((scan(), label_map()))
    for order in ORDERS:
        assert fitted((in_order(scan(), order), apply_orientation(label_map(), order))) == expected


def test_a_fitted_window_is_never_empty() -> None:
    image = Volume(np.full((4, 4, 4), 7, np.float32), np.eye(4))
    low, high = fitted((image, np.ones((4, 4, 4), np.uint8))).window_hu
    assert high > low
    assert np.isfinite(scale_hu(image.array, fitted((image, np.ones((4, 4, 4), np.uint8))))).all()


def test_a_data_set_of_empty_label_maps_is_refused() -> None:
    with pytest.raises(ValueError, match="no voxel of the data set is labelled"):
        fitted((scan(), np.zeros((9, 7, 6), np.uint8)))


def test_voxels_that_nobody_labelled_do_not_open_the_fitted_window() -> None:
    labels = np.zeros((4, 4, 4), np.uint8)
    labels[1], labels[2] = 1, 2
    image = Volume(np.array([-1000.0, 0, 100, 3000])[np.arange(4)][:, None, None] * np.ones((4, 4, 4)), np.eye(4))
    assert fitted((image, labels), classes=2).window_hu == (0, 1)
    assert fitted((image, labels)).window_hu[1] > 90
