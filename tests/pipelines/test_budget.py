"""A plan gives way, in a stated order, until it fits; what a step takes is counted without taking it."""

from dataclasses import replace

import pytest
import torch
from fredholm.pipelines import trial
from fredholm.pipelines.budget import Trial, counted_step, fitted, peak_of
from fredholm.pipelines.plan import Network, Plan, Preparation, Recipe
from fredholm.pipelines.planning import Planned


def plan(window=(64, 64, 64), batch=1, feature_size=12, stages="HHAA", **recipe) -> Plan:
    return Plan(
        names={0: "background", 1: "spleen"},
        preparation=Preparation(spacing_mm=(1.0, 1.0, 1.0), window_hu=(-150.0, 250.0)),
        network=Network(stages=stages, feature_size=feature_size),
        recipe=Recipe(window=window, batch=batch, **recipe),
        window=window,
    )


def size(one: Plan) -> tuple[int, tuple[int, int, int], int]:
    assert one.recipe is not None
    assert one.window == one.recipe.window
    return one.recipe.batch, one.window, one.network.feature_size


def planned(one: Plan, **more) -> Planned:
    given = {"reasons": {}, "read_bytes": 0, "prepared_bytes": 0, "held_out_grids": [], **more}
    return Planned(plan=one, **given)


def test_a_plan_gives_way_by_patches_then_window_then_channels() -> None:
    seen = []
    with pytest.raises(ValueError, match="even a window of 32 x 32 x 32 with feature size 12 takes 2 GB, and 1 GB are"):
        fitted(plan((96, 64, 96), 4, 48), int(1e9), lambda one: (seen.append(size(one)), int(2e9))[1])
    assert seen == [
        *((batch, (96, 64, 96), 48) for batch in (4, 2, 1)),
        *((1, window, 48) for window in ((64, 64, 96), (64, 64, 64))),
        *((1, (64, 64, 64), features) for features in (36, 24)),
        *((1, window, 24) for window in ((32, 64, 64), (32, 32, 64), (32, 32, 32))),
        (1, (32, 32, 32), 12),
    ]


def test_a_plan_that_fits_stays_as_it_is() -> None:
    given = plan((96, 96, 96), 2, 48)
    assert fitted(given, 10, lambda _: 10) is given


def test_a_step_is_counted_with_weights_gradients_and_the_optimisers_state() -> None:
    weights = sum(weight.nbytes for weight in plan().network.build(2).parameters())
    small = counted_step(plan((32, 32, 32)))
    assert 4 * weights < small < 4 * weights + 2e8
    assert counted_step(plan((32, 32, 32), ema=0.9)) - small == pytest.approx(weights, rel=0.1)


def test_what_a_step_takes_beside_its_weights_grows_with_the_batch() -> None:
    one, three, five = (counted_step(plan((32, 32, 32), batch, stages="AAAA")) for batch in (1, 3, 5))
    assert five - three == pytest.approx(three - one, rel=0.1)
    assert three - one > 5e7


def test_a_step_of_several_channels_is_counted_and_tried() -> None:
    one = plan((32, 32, 32))
    two = replace(
        one,
        channels=("CT", "PET"),
        preparation=replace(one.preparation, windows_of_others=((0.0, 20.0),)),
        network=replace(one.network, channels=2),
    )
    assert counted_step(two) > counted_step(one)
    assert trial.main(two, torch.device("cpu"))["seconds"] > 0


def test_the_peak_is_that_of_steps_preparation_or_validation_whichever_is_highest() -> None:
    tried, cases = Trial(seconds=1.0, grown_bytes=10**9), planned(plan(), prepared_bytes=10**8)
    assert peak_of(cases, tried, 5 * 10**8) == 16 * 10**8
    assert peak_of(replace(cases, read_bytes=10**9), tried, 0) == 21 * 10**8
    assert peak_of(replace(cases, held_out_grids=[(300, 1500, 1500)]), tried, 0) > 3 * 4 * 64 * 1500 * 1500
