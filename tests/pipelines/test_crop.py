"""What lies in the box is labelled whole, what lies outside is background, and nothing is cut by the box."""

from dataclasses import replace

import numpy as np
import pytest
from fredholm.pipelines.crop import label_within, part
from fredholm.pipelines.volume import Volume
from helpers.orders import ORDERS, in_order
from hypothesis import given
from hypothesis import strategies as st
from nibabel.orientations import apply_orientation
from scipy.ndimage import label as numbered

SHAPE, SPACING = (30, 24, 20), (1.0, 2.0, 3.0)


def scan(labels: np.ndarray, spacing=SPACING) -> Volume:
    """A scan whose values are its labels, away from the origin."""
    affine = np.diag((*spacing, 1.0))
    affine[:3, 3] = (-7.5, 40.0, 900.25)
    return Volume(labels.astype(np.float32), affine)


class Reader:
    """Labels a scan by its values, and notes the parts that it was given."""

    def __init__(self) -> None:
        self.seen: list[Volume] = []

    def __call__(self, volume: Volume) -> np.ndarray:
        self.seen.append(volume)
        return volume.array.astype(np.uint8)


def voxel(*index: int) -> np.ndarray:
    found = np.zeros(SHAPE, bool)
    found[index] = True
    return found


def blocks() -> np.ndarray:
    labels = np.zeros(SHAPE, np.uint8)
    labels[3:9, 4:9, 3:7] = 1
    labels[14:27, 10:21, 8:17] = 2
    return labels


def test_what_is_found_is_labelled_and_the_rest_is_background() -> None:
    truth = blocks()
    found = label_within(scan(truth), truth == 2, Reader(), 3.0)
    np.testing.assert_array_equal(found, np.where(truth == 2, 2, 0))
    assert found.dtype == np.uint8


@pytest.mark.parametrize("margin", [0.0, 1.0, 3.0, 3.5, 12.0])
def test_the_margin_is_in_millimetres_and_reaches_no_less_along_any_axis(margin: float) -> None:
    reader, found = Reader(), np.zeros(SHAPE, bool)
    found[10:20, 10:14, 8:12] = True
    label_within(scan(np.zeros(SHAPE)), found, reader, margin)
    (seen,) = reader.seen
    for n, extent, spacing, most in zip(seen.shape, (10, 4, 4), SPACING, SHAPE, strict=True):
        reach = max(1, int(np.ceil(margin / spacing)))
        assert n == min(most, extent + 2 * reach)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0, 4.0]))
def test_of_a_structure_that_was_found_by_one_voxel_nothing_is_cut(seed: int, margin: float) -> None:  # D9
    rng = np.random.default_rng(seed)
    labels = np.zeros(SHAPE, np.uint8)
    place = np.array(SHAPE) // 2
    walk = [place]
    for _ in range(60):  # a thin thing that winds through the scan
        step = np.zeros(3, int)
        step[rng.integers(3)] = rng.choice((-1, 1))
        place = np.clip(place + step, 0, np.array(SHAPE) - 1)
        walk.append(place)
    for number, one in enumerate(walk):
        labels[tuple(one)] = 1 + number % 3
    reader = Reader()
    result = label_within(scan(labels), voxel(*walk[rng.integers(len(walk))]), reader, margin)
    assert numbered(labels, np.ones((3, 3, 3)))[1] == 1
    np.testing.assert_array_equal(result, labels)
    assert len(reader.seen) < 25


def test_a_step_doubles_so_that_a_long_structure_takes_few_attempts() -> None:
    labels = np.zeros((2000, 4, 4), np.uint8)
    labels[10:1990, 1:3, 1:3] = 1
    found, reader = np.zeros(labels.shape, bool), Reader()
    found[15, 1, 1] = True
    np.testing.assert_array_equal(label_within(scan(labels), found, reader, 5.0), labels)
    assert len(reader.seen) <= 10


def test_the_scans_own_border_is_no_cut() -> None:
    labels = np.ones(SHAPE, np.uint8)
    labels[20:] = 0
    reader = Reader()
    np.testing.assert_array_equal(label_within(scan(labels), labels == 1, reader, 2.0), labels)
    assert [seen.shape for seen in reader.seen] == [(22, *SHAPE[1:])]


def test_it_grows_only_where_something_is_cut() -> None:
    labels, reader = np.zeros(SHAPE, np.uint8), Reader()
    labels[5:25, 10:12, 9:11] = 1
    found = labels == 1
    found[15:] = False
    np.testing.assert_array_equal(label_within(scan(labels), found, reader, 3.0), labels)
    starts = {tuple(seen.affine[:3, 3]) for seen in reader.seen}
    assert len(reader.seen) > 1
    assert len(starts) == 1
    assert len({seen.shape[1:] for seen in reader.seen}) == 1


def test_where_nothing_is_found_the_whole_scan_is_labelled() -> None:
    reader, volume = Reader(), scan(blocks())
    np.testing.assert_array_equal(label_within(volume, np.zeros(SHAPE, bool), reader, 5.0), blocks())
    assert [seen.shape for seen in reader.seen] == [SHAPE]


def test_it_commutes_with_all_48_axis_orders() -> None:
    truth = blocks()
    volume, found = scan(truth), truth == 1
    expected = label_within(volume, found, Reader(), 4.0)
    assert set(np.unique(expected)) == {0, 1}
    for order in ORDERS:
        turned = in_order(volume, order)
        where = apply_orientation(found, order)
        np.testing.assert_array_equal(label_within(turned, where, Reader(), 4.0), apply_orientation(expected, order))


def test_a_part_lies_where_it_lay() -> None:
    volume = in_order(scan(np.arange(np.prod(SHAPE)).reshape(SHAPE)), ORDERS[29])
    volume = replace(volume, others=(2 * volume.array,))
    box = (slice(2, 7), slice(1, 9), slice(4, 6))
    found = part(volume, box)
    np.testing.assert_array_equal(found.array, volume.array[box])
    np.testing.assert_array_equal(found.others[0], volume.others[0][box])
    for index in np.ndindex(found.shape):
        outer = np.add(index, (2, 1, 4))
        np.testing.assert_allclose(found.affine @ (*index, 1), volume.affine @ (*outer, 1))


def test_labels_of_more_than_a_byte_stay_what_they_are() -> None:
    labels = 300 * (blocks() == 1).astype(np.int16)
    found = label_within(scan(labels), labels > 0, lambda volume: volume.array.astype(np.int16), 3.0)
    np.testing.assert_array_equal(found, labels)
    assert found.dtype == np.int16


@pytest.mark.parametrize("margin", [-1.0, float("nan"), float("inf")])
def test_a_margin_that_is_none_is_refused(margin: float) -> None:
    with pytest.raises(ValueError, match="a margin is 0 mm or more, not"):
        label_within(scan(blocks()), blocks() == 1, Reader(), margin)
