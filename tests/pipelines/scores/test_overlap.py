"""Voxels are counted, in any type of array."""

import math

import numpy as np
import pytest
from fredholm.pipelines.scores import Overlap, dice, overlaps


def labels(*values: int) -> np.ndarray:
    return np.array(values, np.uint8).reshape(-1, 1, 1)


def test_dice_is_twice_the_overlap_over_the_sum() -> None:
    found = dice(labels(1, 1, 1, 0, 2, 2), labels(1, 1, 0, 0, 2, 1), classes=[1, 2])
    assert found == {1: pytest.approx(2 * 2 / (3 + 3)), 2: pytest.approx(2 * 1 / (2 + 1))}


def test_dice_equals_its_definition_on_random_label_maps() -> None:
    rng = np.random.default_rng(0)
    p, r = rng.integers(-2, 9, (2, 7, 6, 5)).astype(np.int16)
    for one, other in ((p, r), (np.asfortranarray(p), r), (p[::-1], r[::-1])):
        found = dice(one, other, classes=range(7))
        for index, value in found.items():
            a, b = one == index, other == index
            assert value == pytest.approx(2 * (a & b).sum() / (a.sum() + b.sum()))


def test_a_class_in_neither_is_not_scored() -> None:
    assert math.isnan(dice(labels(1, 0), labels(1, 0), classes=[2])[2])


def test_a_false_positive_scores_zero() -> None:  # C4, C10
    assert dice(np.ones((3, 3)), np.zeros((3, 3)), classes=[1]) == {1: 0.0}


def test_a_missed_class_scores_zero() -> None:
    assert dice(labels(0, 0), labels(1, 0), classes=[1]) == {1: 0.0}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool, np.float16, np.uint64])
def test_sums_do_not_overflow_in_any_type(dtype) -> None:  # C9
    ones = np.ones((512, 512), dtype)
    assert dice(ones, ones, classes=[1]) == {1: 1.0}


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ValueError, match=r"\(2, 1, 1\), reference \(3, 1, 1\)"):
        dice(labels(1, 0), labels(1, 0, 1), [1])
    with pytest.raises(ValueError, match="counted from 0"):
        dice(labels(1), labels(1), [-1])
    for wrong in (0.5, np.nan):
        with pytest.raises(ValueError, match="whole numbers"):
            dice(np.full((2, 2), wrong), np.ones((2, 2)), [1])


def test_voxels_of_each_class_are_counted_in_both_and_at_one_place() -> None:
    assert overlaps(labels(1, 1, 0, 2), labels(1, 0, 0, 1), [1, 2]) == {1: Overlap(2, 2, 1), 2: Overlap(1, 0, 0)}
