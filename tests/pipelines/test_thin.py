"""A structure one voxel thin is there on every grid, and what is thick stays as it was voted."""

import itertools
import math

import numpy as np
import pytest
from fredholm.pipelines import thin
from fredholm.pipelines.resample import resample_array, resample_labels
from fredholm.pipelines.thin import keep_thin
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

SPACINGS = (0.35, 0.7, 0.85, 1.2, 1.5, 1.9, 2.0, 3.0)  # mm, where the structures are one voxel of 1 mm thin
SIDES = st.tuples(*[st.integers(1, 7)] * 3)


def near(labels: np.ndarray, result: np.ndarray, voxel: tuple[int, ...]) -> bool:
    """Whether the label of a voxel is within one voxel of its centre: the definition, voxel by voxel."""
    reach = []
    for n, m, i in zip(labels.shape, result.shape, voxel, strict=True):
        centre = (2 * i + 1) * m / (2 * n)
        reach.append(range(max(0, math.ceil(centre) - 2), min(m, math.floor(centre) + 2)))
    return any(result[at] == labels[voxel] for at in itertools.product(*reach))


def turned(array: np.ndarray, order: tuple[int, ...], flipped: list[int]) -> np.ndarray:
    return np.ascontiguousarray(np.flip(array.transpose(order), flipped))


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("at", [7, 8, 9, 10])
def test_a_sheet_stays_whole_there_and_back(axis: int, at: int, spacing: float) -> None:
    labels = np.zeros((18, 18, 18), np.uint8)
    labels[(slice(None),) * axis + (at,)] = 5
    there = resample_labels(labels, [round(18 / spacing)] * 3)
    back = resample_labels(there, labels.shape)
    assert (there.max(axis) == 5).all()
    assert (back.max(axis) == 5).all()
    assert np.abs(np.nonzero(back)[axis] - at).max() <= max(1, spacing)


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("at", [(7, 7), (8, 7), (8, 9), (10, 8)])
def test_a_rod_stays_whole_there_and_back(axis: int, at: tuple[int, int], spacing: float) -> None:
    labels = np.zeros((18, 18, 18), np.uint8)
    place: list = list(at)
    place.insert(axis, slice(None))
    labels[tuple(place)] = 5
    there = resample_labels(labels, [round(18 / spacing)] * 3)
    back = resample_labels(there, labels.shape)
    across = tuple({0, 1, 2} - {axis})
    assert (there.max(across) == 5).all()
    assert (back.max(across) == 5).all()
    for side, place in zip(across, at, strict=True):
        assert np.abs(np.nonzero(back)[side] - place).max() <= max(1, spacing)


@settings(max_examples=40, deadline=None)
@given(labels=SIDES.flatmap(lambda shape: arrays.arrays(np.uint8, shape, elements=st.integers(0, 1))), shape=SIDES)
def test_every_voxel_of_a_structure_is_found_again_within_one_voxel(labels: np.ndarray, shape) -> None:
    found = resample_labels(labels, shape)
    assert all(near(labels, found, tuple(voxel)) for voxel in np.argwhere(labels))


@settings(max_examples=25, deadline=None)
@given(labels=SIDES.flatmap(lambda shape: arrays.arrays(np.int16, shape, elements=st.integers(-1, 3))), shape=SIDES)
def test_no_label_vanishes_that_has_a_voxel_of_its_own_to_go_to(labels: np.ndarray, shape) -> None:
    found = resample_labels(labels, shape)
    lost = set(np.unique(labels).tolist()) - set(np.unique(found).tolist()) - {0}
    for value in lost:  # every voxel near its places is the only one of another label
        for voxel in np.argwhere(labels == value):
            centre = tuple(int((2 * i + 1) * m // (2 * n)) for i, n, m in zip(voxel, labels.shape, shape, strict=True))
            assert found[centre] != 0


def test_a_thin_structure_inside_another_takes_its_voxels_there() -> None:
    labels = np.full((16, 16, 16), 7, np.uint8)
    labels[8, 8] = 2
    found = resample_labels(labels, (4, 4, 4))
    assert (found[2, 2] == 2).all()
    assert np.count_nonzero(found == 2) == 4


def test_what_would_be_lost_itself_gives_nothing_up() -> None:
    labels = np.zeros((9, 9, 9), np.uint8)
    labels[3:6, 3:6, 3:6] = 9
    labels[4, 4, 4] = 4
    expected = np.zeros((3, 3, 3), np.uint8)
    expected[1, 1, 1] = 9
    np.testing.assert_array_equal(resample_labels(labels, (3, 3, 3)), expected)
    assert resample_labels(np.array([4, 9], np.uint8).reshape(2, 1, 1), (1, 1, 1)) == 4


def test_of_several_lost_labels_the_smallest_takes_the_voxel() -> None:
    labels = np.zeros((9, 9, 9), np.uint8)
    labels[4, 4, 4], labels[4, 4, 3], labels[3, 4, 4] = 3, 6, 200
    found = resample_labels(labels, (3, 3, 3))
    assert found[1, 1, 1] == 3
    assert np.count_nonzero(found) == 1


@pytest.mark.parametrize("target", [(8, 8, 8), (5, 7, 12), (24, 24, 24)])
def test_what_is_thick_stays_as_it_was_voted(target) -> None:
    distance = np.sqrt(sum(np.meshgrid(*((np.arange(24) - 11.5) ** 2,) * 3, indexing="ij")))
    ball = (distance < 9).astype(np.uint8)
    voted = (resample_array(ball, target) > 0.5).astype(np.uint8)
    again = voted.copy()
    keep_thin(ball, again)
    np.testing.assert_array_equal(again, voted)


@pytest.mark.parametrize("target", [(6, 4, 9), (4, 12, 3), (8, 8, 8), (13, 5, 7)])
def test_axis_orders_flips_and_slabs_change_nothing(monkeypatch: pytest.MonkeyPatch, target) -> None:
    labels = (np.random.default_rng(0).random((12, 8, 9)) < 0.03).astype(np.uint8)
    labels[6:] *= 2
    expected = np.zeros(target, np.uint8)
    keep_thin(labels, expected)
    assert expected.any()
    for order in itertools.permutations(range(3)):
        for flipped in ([], [0], [1, 2], [0, 1, 2]):
            found = np.zeros([target[axis] for axis in order], np.uint8)
            keep_thin(turned(labels, order, flipped), found)
            np.testing.assert_array_equal(found, turned(expected, order, flipped))
    for slab in (1, 5, 100):
        monkeypatch.setattr(thin, "SLAB", slab)
        found = np.zeros(target, np.uint8)
        keep_thin(labels, found)
        np.testing.assert_array_equal(found, expected)


def test_background_is_never_given_back() -> None:
    labels = np.ones((9, 9, 9), np.uint8)
    labels[4] = 0
    assert (resample_labels(labels, (3, 3, 3)) == 1).all()
