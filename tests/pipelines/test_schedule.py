"""The learning rate rises to its peak, falls ever after, and ends at its floor."""

import itertools

import pytest
from fredholm.pipelines.schedule import learning_rate
from hypothesis import given
from hypothesis import strategies as st

SHAPES = [(50, 1000), (1, 2), (8, 9), (0, 10), (300, 25_000)]


def rates(warm_up: int, steps: int, peak: float = 4e-4, **more: float) -> list[float]:
    return [learning_rate(step, peak=peak, warm_up=warm_up, steps=steps, **more) for step in range(steps + 1)]


@pytest.mark.parametrize(("warm_up", "steps"), SHAPES[:3])
def test_it_starts_at_one_part_of_the_warm_up(warm_up: int, steps: int) -> None:
    assert rates(warm_up, steps)[0] == pytest.approx(4e-4 / warm_up)


def test_it_rises_in_a_straight_line() -> None:
    assert rates(4, 10, peak=1.0)[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize(("warm_up", "steps"), SHAPES)
def test_it_reaches_its_peak_and_never_passes_it(warm_up: int, steps: int) -> None:
    found = rates(warm_up, steps)
    assert max(found) == pytest.approx(4e-4, rel=1e-12)
    assert found[warm_up] == pytest.approx(4e-4, rel=1e-12)


@pytest.mark.parametrize(("warm_up", "steps"), SHAPES)
@pytest.mark.parametrize("floor", [0.0, 0.01, 0.5])
def test_it_ends_at_its_floor(warm_up: int, steps: int, floor: float) -> None:
    assert rates(warm_up, steps, floor=floor)[-1] == pytest.approx(4e-4 * floor, abs=1e-18)


def test_it_stays_at_its_floor_beyond_the_end() -> None:
    assert learning_rate(5000, peak=1.0, warm_up=10, steps=1000) == pytest.approx(0.01)


def test_half_way_it_is_half_way() -> None:
    assert learning_rate(550, peak=1.0, warm_up=100, steps=1000, floor=0.2) == pytest.approx(0.6)


@given(st.integers(0, 50), st.integers(1, 300))
def test_it_is_monotone_on_either_side_of_its_peak(warm_up: int, steps: int) -> None:
    found = rates(warm_up, max(steps, warm_up))
    rounding = 1e-12 * 4e-4
    for before, after in itertools.pairwise(found[: warm_up + 1]):
        assert after >= before - rounding
    for before, after in itertools.pairwise(found[warm_up:]):
        assert after <= before + rounding
    assert min(found) > 0


def test_a_run_of_nothing_but_warm_up_is_allowed() -> None:
    assert rates(10, 10)[9] == pytest.approx(4e-4)
