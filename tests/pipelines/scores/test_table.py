"""Many cases: two means that are told apart by name, and files that others can read."""

import csv
import json
import math

import numpy as np
import pytest
from fredholm.pipelines.scores import METRICS, ClassScores, Scores, ScoreTable, dice

NAMES = {0: "background", 1: "liver", 2: "spleen, all"}
FOUND = ClassScores(dice=0.5, surface_dice=0.75, hd95_mm=2.5, hd_mm=4.0, volume_ml=3.0, reference_ml=2.0)
ABSENT = ClassScores(dice=math.nan, volume_ml=0.0, reference_ml=0.0)


def labels(*values: int) -> np.ndarray:
    return np.array(values, np.uint8).reshape(-1, 1, 1)


def test_a_false_positive_in_an_empty_case_counts_in_the_mean() -> None:  # C4
    rows = {"a": dice(labels(1, 0), labels(0, 0), [1]), "b": dice(labels(1, 0), labels(1, 0), [1])}
    table = ScoreTable(rows, {0: "background", 1: "liver"})
    assert table.mean_per_class == {1: 0.5}
    assert table.casewise == table.pooled == 0.5


def test_case_wise_and_pooled_means_are_different_things() -> None:  # C5
    table = ScoreTable({"a": {1: 1.0, 2: math.nan}, "b": {1: 0.5, 2: 0.0}}, NAMES)
    assert table.casewise == 0.625
    assert table.pooled == 0.5
    assert table.mean_per_case == {"a": 1.0, "b": 0.25}
    assert table.mean_per_class == {1: 0.75, 2: 0.0}


def test_what_is_never_scored_has_no_mean_and_warns_of_nothing() -> None:
    table = ScoreTable({"a": {1: math.nan, 2: 1.0}, "b": {1: math.nan, 2: math.nan}}, NAMES)
    assert math.isnan(table.mean_per_class[1])
    assert math.isnan(table.mean_per_case["b"])
    assert table.casewise == 1.0
    assert math.isnan(ScoreTable({}, NAMES).casewise)


def test_a_case_may_lack_a_class_that_others_have() -> None:
    table = ScoreTable({"a": {1: 1.0}, "b": {1: 0.5, 2: 0.25}}, NAMES)
    assert table.mean_per_class == {1: 0.75, 2: 0.25}


def test_a_table_is_plain_json_with_null_for_not_scored() -> None:
    table = ScoreTable({"a": {1: 1.0, 2: math.nan}}, NAMES)
    assert json.loads(json.dumps(table.as_dict(), allow_nan=False)) == {
        "casewise": 1.0,
        "casewise_interval": [None, None],
        "pooled": 1.0,
        "mean_per_class": {"liver": 1.0, "spleen, all": None},
        "interval_per_class": {"liver": [None, None], "spleen, all": [None, None]},
        "mean_per_case": {"a": 1.0},
        "cases": {"a": {"liver": 1.0, "spleen, all": None}},
    }


def test_a_mean_lies_within_its_interval() -> None:
    values = np.random.default_rng(0).uniform(size=12)
    table = ScoreTable({str(n): {1: value, 2: math.nan} for n, value in enumerate(values)}, NAMES)
    low, high = table.casewise_interval
    assert 0 < low < table.casewise < high < 1
    assert table.interval_per_class[1] == (low, high)
    assert all(map(math.isnan, table.interval_per_class[2]))


def test_all_scores_go_into_one_json_object_by_metric() -> None:
    scores = Scores({"a": {1: FOUND, 2: ABSENT}}, NAMES, tolerance_mm={1: 2.0, 2: 3.0})
    found = json.loads(json.dumps(scores.as_dict(), allow_nan=False))
    assert list(found) == [*METRICS, "volume_ml", "reference_ml", "tolerance_mm"]
    assert {metric: found[metric]["cases"]["a"]["liver"] for metric in METRICS} == {
        "dice": 0.5,
        "surface_dice": 0.75,
        "hd95_mm": 2.5,
        "hd_mm": 4.0,
        "volume_difference_ml": 1.0,
        "volume_difference_percent": 50.0,
    }
    assert {found[metric]["cases"]["a"]["spleen, all"] for metric in METRICS} == {None}
    assert found["volume_ml"] == {"a": {"liver": 3.0, "spleen, all": 0.0}}
    assert found["tolerance_mm"] == {"liver": 2.0, "spleen, all": 3.0}


def test_a_csv_file_has_a_line_for_each_case_and_class() -> None:
    scores = Scores({"a": {1: FOUND, 2: ABSENT}, 'b"': {1: FOUND}}, NAMES, ["dice", "hd_mm"], 2.0)
    first, *rows = csv.reader(scores.as_csv().splitlines())
    assert first == ["case", "class", "dice", "hd_mm", "volume_ml", "reference_ml"]
    assert rows == [
        ["a", "liver", "0.5", "4", "3", "2"],
        ["a", "spleen, all", "", "", "0", "0"],
        ['b"', "liver", "0.5", "4", "3", "2"],
    ]


def test_columns_say_their_unit_and_the_tolerance_if_there_is_one_for_all() -> None:
    assert Scores({}, NAMES, tolerance_mm=2.5).title("surface_dice") == "NSD 2.5 mm"
    assert Scores({}, NAMES, tolerance_mm={1: 2.0}).title("surface_dice") == "NSD"
    assert Scores({}, NAMES, tolerance_mm=2.5).title("hd95_mm") == "HD95 mm"


def test_an_unknown_metric_is_named() -> None:
    with pytest.raises(ValueError, match="no metric hd96; known are dice,"):
        Scores({}, NAMES, ["dice", "hd96"])
