"""Dice by rules that are written down, and two means that are told apart by name."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from fredholm.pipelines.nifti import read_labels
from fredholm.pipelines.scores import DiceTable, dice, evaluate_pair
from fredholm.pipelines.volume import Volume, canonical

NAMES = {0: "background", 1: "liver", 2: "spleen"}


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


def test_a_false_positive_in_an_empty_case_counts_in_the_mean() -> None:  # C4
    rows = {"a": dice(labels(1, 0), labels(0, 0), [1]), "b": dice(labels(1, 0), labels(1, 0), [1])}
    table = DiceTable(rows, {0: "background", 1: "liver"})
    assert table.mean_per_class == {1: 0.5}
    assert table.casewise == table.pooled == 0.5


def test_case_wise_and_pooled_means_are_different_things() -> None:  # C5
    table = DiceTable({"a": {1: 1.0, 2: math.nan}, "b": {1: 0.5, 2: 0.0}}, NAMES)
    assert table.casewise == 0.625
    assert table.pooled == 0.5
    assert table.mean_per_case == {"a": 1.0, "b": 0.25}
    assert table.mean_per_class == {1: 0.75, 2: 0.0}


def test_what_is_never_scored_has_no_mean_and_warns_of_nothing() -> None:
    table = DiceTable({"a": {1: math.nan, 2: 1.0}, "b": {1: math.nan, 2: math.nan}}, NAMES)
    assert math.isnan(table.mean_per_class[1])
    assert math.isnan(table.mean_per_case["b"])
    assert table.casewise == 1.0
    assert math.isnan(DiceTable({}, NAMES).casewise)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool, np.float16, np.uint64])
def test_sums_do_not_overflow_in_any_type(dtype) -> None:  # C9
    ones = np.ones((512, 512), dtype)
    assert dice(ones, ones, classes=[1]) == {1: 1.0}


def test_the_table_is_plain_json_with_null_for_not_scored() -> None:
    table = DiceTable({"a": {1: 1.0, 2: math.nan}}, NAMES)
    text = json.dumps(table.as_dict(), allow_nan=False)
    assert json.loads(text) == {
        "casewise": 1.0,
        "pooled": 1.0,
        "mean_per_class": {"liver": 1.0, "spleen": None},
        "mean_per_case": {"a": 1.0},
        "cases": {"a": {"liver": 1.0, "spleen": None}},
    }


def test_a_pair_is_scored_without_the_background_and_whatever_its_axis_order() -> None:
    reference = Volume(np.random.default_rng(0).integers(0, 3, (4, 5, 6)), np.diag((-1.0, -2.0, 3.0, 1.0)))
    assert evaluate_pair(reference, reference, NAMES) == {1: 1.0, 2: 1.0}
    assert evaluate_pair(canonical(reference), reference, NAMES) == {1: 1.0, 2: 1.0}


def test_a_pair_on_two_grids_is_refused_with_both() -> None:
    one = Volume(np.zeros((4, 5, 6), np.uint8), np.eye(4))
    moved = Volume(one.array, np.diag((1.0, 1.0, 1.5, 1.0)))
    with pytest.raises(ValueError, match=r"not on one grid.*1\.0.*1\.5"):
        evaluate_pair(moved, one, NAMES)


def test_a_scan_with_an_origin_that_was_never_moved_is_not_scored_as_if_it_fitted(medical) -> None:
    whole = read_labels(medical / "torso" / "labels.nii.gz")
    part = read_labels(medical / "torso" / "labels_lower_part_wrong_origin.nii.gz")
    with pytest.raises(ValueError, match=r"\(122, 101, 112\).*\(122, 101, 30\)"):
        evaluate_pair(part, whole, NAMES)


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ValueError, match=r"\(2, 1, 1\), reference \(3, 1, 1\)"):
        dice(labels(1, 0), labels(1, 0, 1), [1])
    with pytest.raises(ValueError, match="counted from 0"):
        dice(labels(1), labels(1), [-1])
    for wrong in (0.5, np.nan):
        with pytest.raises(ValueError, match="whole numbers"):
            dice(np.full((2, 2), wrong), np.ones((2, 2)), [1])


def test_scores_import_where_there_is_no_plotting_library() -> None:  # I5
    code = "import sys; sys.modules['matplotlib'] = None; import fredholm.pipelines.scores"
    subprocess.run([sys.executable, "-c", code], check=True)
