"""Confidence intervals over cases."""

import math

import numpy as np
import pytest
from fredholm.pipelines.scores import bootstrap_interval
from scipy.stats import bootstrap

VALUES = np.random.default_rng(3).beta(8, 2, size=20)


def test_the_interval_is_scipys_up_to_its_draws() -> None:
    theirs = bootstrap((VALUES,), np.mean, method="percentile", n_resamples=20_000, rng=1).confidence_interval
    width = theirs.high - theirs.low
    np.testing.assert_allclose(bootstrap_interval(VALUES), (theirs.low, theirs.high), atol=0.06 * width)


def test_the_same_seed_gives_the_same_interval() -> None:
    assert bootstrap_interval(VALUES) == bootstrap_interval(VALUES)
    assert bootstrap_interval(VALUES, seed=1) != bootstrap_interval(VALUES, seed=2)


def test_what_is_not_scored_is_left_out() -> None:
    assert bootstrap_interval([math.nan, *VALUES, math.nan]) == bootstrap_interval(VALUES)


def test_equal_values_leave_no_doubt() -> None:
    assert bootstrap_interval([0.75] * 5) == (0.75, 0.75)


def test_it_moves_and_scales_with_the_values() -> None:
    low, high = bootstrap_interval(VALUES)
    assert bootstrap_interval(2 * VALUES + 1) == (pytest.approx(2 * low + 1), pytest.approx(2 * high + 1))


@pytest.mark.parametrize("few", [[], [0.5], [math.nan, 0.5]])
def test_fewer_than_two_values_say_nothing(few: list[float]) -> None:
    assert all(map(math.isnan, bootstrap_interval(few)))
