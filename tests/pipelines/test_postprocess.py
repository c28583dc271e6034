"""Steps after the network: what each leaves, and laws that all of them keep."""

import itertools

import numpy as np
import pytest
from fredholm.pipelines.postprocess import (
    STEPS,
    Step,
    fill_holes,
    largest_component,
    postprocess,
    smallest_volume,
)
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = {0: "background", 1: "liver", 2: "spleen", 3: "vessel"}
EACH = [Step(step="largest component"), Step(step="smallest volume", ml=0.006), Step(step="fill holes")]
TURNS = list(itertools.product(itertools.permutations(range(3)), itertools.product((1, -1), repeat=3)))


def blocks(*boxes: tuple[slice, slice, slice], shape=(9, 9, 9)) -> np.ndarray:
    mask = np.zeros(shape, bool)
    for box in boxes:
        mask[box] = True
    return mask


LARGE, SMALL = (slice(0, 4), slice(0, 4), slice(0, 4)), (slice(6, 8), slice(6, 8), slice(6, 8))
SHELL = (slice(1, 6), slice(1, 6), slice(1, 6))
INSIDE = (slice(2, 5), slice(2, 5), slice(2, 5))


def shell() -> np.ndarray:
    mask = blocks(SHELL)
    mask[INSIDE] = False
    return mask


def random_labels(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.choice(4, p=(0.3, 0.4, 0.2, 0.1), size=(6, 7, 8)).astype(np.uint8)


def test_the_largest_component_stays() -> None:
    np.testing.assert_array_equal(largest_component(blocks(LARGE, SMALL)), blocks(LARGE))


def test_components_that_are_equally_large_all_stay() -> None:
    two = blocks(SMALL, (slice(0, 2), slice(0, 2), slice(0, 2)))
    np.testing.assert_array_equal(largest_component(two), two)


def test_parts_that_touch_at_a_corner_are_one() -> None:
    touching = blocks((slice(0, 2),) * 3, (slice(2, 3),) * 3)
    np.testing.assert_array_equal(largest_component(touching), touching)


def test_parts_below_the_smallest_volume_go() -> None:
    np.testing.assert_array_equal(smallest_volume(blocks(LARGE, SMALL), 8), blocks(LARGE, SMALL))
    np.testing.assert_array_equal(smallest_volume(blocks(LARGE, SMALL), 8.01), blocks(LARGE))
    assert not smallest_volume(blocks(LARGE, SMALL), 65).any()


def test_the_smallest_volume_is_in_millilitres_and_a_part_of_just_that_stays() -> None:
    labels = blocks(LARGE, SMALL).astype(np.uint8)
    for voxel_ml in (0.1, 0.3, 0.7):
        step = Step(step="smallest volume", ml=round(8 * voxel_ml, 6))
        np.testing.assert_array_equal(postprocess(labels, [step], NAMES, voxel_ml), labels)
        more = Step(step="smallest volume", ml=8.1 * voxel_ml)
        np.testing.assert_array_equal(postprocess(labels, [more], NAMES, voxel_ml), blocks(LARGE))


def test_what_is_enclosed_is_filled() -> None:
    np.testing.assert_array_equal(fill_holes(shell()), blocks(SHELL))


def test_a_hole_is_closed_where_its_only_way_out_is_an_edge_or_a_corner() -> None:
    for way in ((1, 1, 3), (1, 1, 1)):
        leaky = shell()
        leaky[way] = False
        np.testing.assert_array_equal(fill_holes(leaky), blocks(SHELL) & (leaky | blocks(INSIDE)))


def test_a_cavity_with_a_way_out_stays_open_and_so_does_one_cut_by_the_border() -> None:
    open_ = shell()
    open_[1, 3, 3] = False
    np.testing.assert_array_equal(fill_holes(open_), open_)
    cut = shell()[3:]
    np.testing.assert_array_equal(fill_holes(cut), cut)


@pytest.mark.parametrize("step", [largest_component, lambda mask: smallest_volume(mask, 2), fill_holes])
def test_full_and_empty_masks_stay_as_they_are(step) -> None:
    for value in (False, True):
        mask = np.full((3, 4, 5), value)
        np.testing.assert_array_equal(step(mask), mask)
    np.testing.assert_array_equal(step(np.ones((1, 1, 2), bool)), np.ones((1, 1, 2), bool))


def test_a_hole_that_holds_another_class_is_filled_round_it() -> None:
    labels = shell().astype(np.uint8)
    labels[3, 3, 3] = 3
    found = postprocess(labels, [Step(step="fill holes", classes=("liver",))], NAMES, 1.0)
    assert found[3, 3, 3] == 3
    assert (found == 1).sum() == 125 - 1


def test_steps_are_taken_in_order_and_for_their_classes_alone() -> None:
    labels = (blocks(LARGE, SMALL) + blocks((slice(0, 1), slice(8, 9), slice(0, 9))) * 2).astype(np.uint8)
    labels[8, 0, 0] = 2
    labels[1, 1, 1] = 0
    large = Step(step="largest component", classes=("liver",))
    filled = postprocess(labels, [large, Step(step="fill holes", classes=("liver", "spleen"))], NAMES, 1.0)
    np.testing.assert_array_equal(filled == 1, blocks(LARGE))
    np.testing.assert_array_equal(filled == 2, labels == 2)
    every = postprocess(labels, [Step(step="largest component")], NAMES, 1.0)
    assert not every[8, 0, 0]
    assert (every == 2).sum() == 9


def test_the_given_labels_are_left_alone() -> None:
    labels = random_labels(0)
    kept = labels.copy()
    found = postprocess(labels, EACH, NAMES, 0.001)
    np.testing.assert_array_equal(labels, kept)
    assert found is not labels
    assert postprocess(labels, [], NAMES, 0.001) is labels


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_the_type_of_the_labels_stays(dtype: type) -> None:
    found = postprocess(random_labels(1).astype(dtype), EACH, NAMES, 0.001)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, postprocess(random_labels(1), EACH, NAMES, 0.001))


@pytest.mark.parametrize("step", EACH, ids=lambda step: step.step)
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_a_class_takes_background_only_and_leaves_background_only(step: Step, seed: int) -> None:
    labels = random_labels(seed)
    found = postprocess(labels, [step], NAMES, 0.001)
    changed = found != labels
    assert (found[changed] == 0).all() or step.step == "fill holes"
    assert (labels[changed] == 0).all() or step.step != "fill holes"


@pytest.mark.parametrize("step", EACH, ids=lambda step: step.step)
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_a_step_taken_twice_changes_nothing_more(step: Step, seed: int) -> None:
    once = postprocess(random_labels(seed), [step], NAMES, 0.001)
    np.testing.assert_array_equal(postprocess(once, [step], NAMES, 0.001), once)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from(TURNS), st.permutations(EACH))
def test_axis_order_and_flips_change_nothing(seed: int, turn, steps) -> None:
    order, flips = turn
    flip = tuple(slice(None, None, sign) for sign in flips)
    turned = postprocess(random_labels(seed).transpose(order)[flip], steps, NAMES, 0.001)
    expected = postprocess(random_labels(seed), steps, NAMES, 0.001).transpose(order)[flip]
    np.testing.assert_array_equal(turned, expected)


def test_a_step_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(
        ValueError, match="step is one of largest component, smallest volume, fill holes, not 'biggest'"
    ):
        Step(step="biggest")
    with pytest.raises(ValueError, match="classes is a list of names, not 'liver'"):
        Step(step="fill holes", classes="liver")  # pyright: ignore[reportArgumentType]
    for wrong in ({"step": "smallest volume"}, {"step": "fill holes", "ml": 1.0}):
        with pytest.raises(ValueError, match='ml belongs to "smallest volume"'):
            Step(**wrong)
    for ml in (0, -1.0, "2", True, float("nan")):
        with pytest.raises(ValueError, match="positive number of millilitres"):
            Step(step="smallest volume", ml=ml)  # pyright: ignore[reportArgumentType]
    for unknown in ("background", "livr"):
        with pytest.raises(
            ValueError, match=rf"no class is named '{unknown}', known are \['liver', 'spleen', 'vessel'\]"
        ):
            postprocess(random_labels(0), [Step(step="fill holes", classes=(unknown,))], NAMES, 1.0)


def test_every_step_is_tried_above() -> None:
    assert {step.step for step in EACH} == set(STEPS)
