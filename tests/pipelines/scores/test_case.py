"""One case: the written convention for what is missing, millilitres, and grids that do not fit."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from fredholm.pipelines.nifti import read_labels
from fredholm.pipelines.scores import ClassScores, dice, evaluate_pair, surface_distances
from fredholm.pipelines.volume import Volume, canonical

NAMES = {0: "background", 1: "liver", 2: "spleen"}
AFFINE = np.array([[-2.0, 0, 0, 7], [0, 0, 5, 0], [0, 1, 0, -3], [0, 0, 0, 1]])
SHAPE = (10, 12, 6)
DIAGONAL_MM = math.sqrt((2 * 10) ** 2 + (1 * 12) ** 2 + (5 * 6) ** 2)
VOXEL_ML = 0.01


def case(*boxes: tuple[slice, slice, slice], dtype: type = np.uint8) -> Volume:
    """A label map with a box of each class."""
    array = np.zeros(SHAPE, dtype)
    for index, box in enumerate(boxes, 1):
        array[box] = index
    return Volume(array, AFFINE)


EMPTY = (slice(0), slice(0), slice(0))
BOX = (slice(1, 5), slice(2, 9), slice(1, 4))
MOVED = (slice(3, 7), slice(2, 9), slice(1, 4))


def test_a_perfect_match_has_the_best_value_of_each() -> None:
    (scores, _) = evaluate_pair(case(BOX), case(BOX), NAMES, 2.0).values()
    ml = 4 * 7 * 3 * VOXEL_ML
    best = ClassScores(dice=1, surface_dice=1, hd95_mm=0, hd_mm=0, volume_ml=ml, reference_ml=ml)
    assert scores == replace(best, volume_ml=pytest.approx(ml), reference_ml=pytest.approx(ml))
    assert scores.volume_difference_ml == scores.volume_difference_percent == 0


def test_a_missed_structure_has_the_worst_value_of_each() -> None:
    scores = evaluate_pair(case(EMPTY), case(BOX), NAMES, 2.0)[1]
    assert (scores.dice, scores.surface_dice) == (0, 0)
    assert scores.hd95_mm == scores.hd_mm == pytest.approx(DIAGONAL_MM)
    assert scores.volume_difference_ml == pytest.approx(-4 * 7 * 3 * VOXEL_ML)
    assert scores.volume_difference_percent == -100


def test_a_false_structure_is_never_free() -> None:  # C4
    scores = evaluate_pair(case(BOX), case(EMPTY), NAMES, 2.0)[1]
    assert (scores.dice, scores.surface_dice) == (0, 0)
    assert scores.hd95_mm == scores.hd_mm == pytest.approx(DIAGONAL_MM)
    assert scores.volume_difference_ml == pytest.approx(4 * 7 * 3 * VOXEL_ML)
    assert math.isnan(scores.volume_difference_percent)


def test_a_class_that_nobody_has_is_not_scored() -> None:
    scores = evaluate_pair(case(BOX), case(BOX), NAMES, 2.0)[2]
    assert (scores.volume_ml, scores.reference_ml) == (0, 0)
    scored = (scores.dice, scores.surface_dice, scores.hd95_mm, scores.hd_mm)
    assert all(map(math.isnan, (*scored, scores.volume_difference_ml, scores.volume_difference_percent)))


def test_nothing_in_a_volume_is_worse_than_what_is_missing() -> None:
    ends = [(slice(at, at + 1),) * 3 for at in (0, -1)]
    ends[1] = (slice(-1, None),) * 3
    scores = evaluate_pair(case(ends[0]), case(ends[1]), NAMES, 2.0)[1]
    assert 0.8 * DIAGONAL_MM < scores.hd_mm < DIAGONAL_MM


def test_surfaces_are_those_of_each_class_alone() -> None:
    prediction, reference = case(BOX, MOVED), case(MOVED, BOX)  # the second hides part of the first
    found = evaluate_pair(prediction, reference, NAMES, {1: 1.0, 2: 4.0})
    for index, tolerance in ((1, 1.0), (2, 4.0)):
        distances = surface_distances(prediction.array == index, reference.array == index, AFFINE[:3, :3])
        assert found[index].surface_dice == distances.surface_dice(tolerance)
        assert (found[index].hd95_mm, found[index].hd_mm) == (distances.hausdorff_mm(95), distances.hausdorff_mm())
        assert found[index].dice == dice(prediction.array, reference.array, [index])[index]
    assert found[2].hd_mm == 4.0


def test_surfaces_are_left_alone_where_nobody_asks_for_them() -> None:
    scores = evaluate_pair(case(BOX), case(MOVED), NAMES)[1]
    assert scores.dice == 0.5
    assert math.isnan(scores.surface_dice)
    assert math.isnan(scores.hd_mm)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint64, np.float16, np.float32])
def test_any_type_of_whole_numbers_will_do(dtype: type) -> None:  # C9
    assert evaluate_pair(case(BOX, dtype=dtype), case(MOVED), NAMES, 2.0)[1].hd_mm == 4.0


def test_the_axis_order_does_not_matter() -> None:
    expected = evaluate_pair(case(BOX, MOVED), case(MOVED, BOX), NAMES, 2.0)
    for turned in (
        evaluate_pair(canonical(case(BOX, MOVED)), case(MOVED, BOX), NAMES, 2.0),
        evaluate_pair(case(BOX, MOVED), canonical(case(MOVED, BOX)), NAMES, 2.0),
    ):
        for index, scores in turned.items():
            assert scores == replace(
                expected[index],
                surface_dice=pytest.approx(expected[index].surface_dice),
                volume_ml=pytest.approx(expected[index].volume_ml),
                reference_ml=pytest.approx(expected[index].reference_ml),
            )


def test_no_class_is_no_trouble() -> None:
    assert evaluate_pair(case(BOX), case(BOX), {0: "background"}, 2.0) == {}


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


def test_scores_import_where_there_is_no_plotting_library() -> None:  # I5
    code = "import sys; sys.modules['matplotlib'] = None; import fredholm.pipelines.scores"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_region_is_scored_whole_and_its_parts_alone() -> None:
    names = {0: "background", 1: "tumour", 2: "core"}
    truth, found = case(BOX, (slice(2, 4), slice(3, 6), slice(1, 3))), case(BOX)
    scores = evaluate_pair(found, truth, names, 2.0, regions={1: [1, 2]})
    perfect = evaluate_pair(case(BOX), case(BOX), NAMES, 2.0)[1]
    assert scores[1] == perfect  # where the core was missed it is tumour all the same
    assert scores[2].dice == 0
    assert evaluate_pair(found, truth, names)[1].dice < 1


def test_a_region_has_the_tolerance_of_its_index() -> None:
    scores = evaluate_pair(case(MOVED), case(BOX), NAMES, {1: 100.0, 2: 0.0}, regions={1: [1, 2]})
    assert scores[1].surface_dice == 1


def test_what_nobody_labelled_is_left_out() -> None:
    truth = case(BOX)
    truth.array[5:] = 3
    found = case(BOX)
    found.array[5:8] = 1
    assert evaluate_pair(found, truth, NAMES, 2.0, ignored=3)[1].dice == 1
    assert evaluate_pair(found, truth, NAMES, 2.0, ignored=3)[1].hd_mm == 0
    assert evaluate_pair(found, truth, NAMES)[1].dice < 1
    assert (found.array[5:8] == 1).all()
