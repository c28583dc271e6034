"""How sure a mean over a few cases is."""

import math
from collections.abc import Iterable

import numpy as np

LEVEL = 0.95
RESAMPLES = 2000


def bootstrap_interval(values: Iterable[float], seed: int = 0) -> tuple[float, float]:
    """The 95 % confidence interval of the mean of these values, by the percentile bootstrap.

    The values, one for each case, are drawn anew 2000 times with replacement; the interval holds the middle 95 % of
    the means. The same values and seed give the same interval. With few cases it is too narrow, as every bootstrap is.

    Args:
        values: One for each case; those that are NaN, not scored, are left out.
        seed: Of the draws.

    Returns:
        Its ends; NaN, twice, with fewer than two values, which say nothing about how they vary.

    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.
    """
    scored = np.array([value for value in values if not math.isnan(value)])
    if len(scored) < 2:
        return math.nan, math.nan
    draws = np.random.default_rng(seed).integers(len(scored), size=(RESAMPLES, len(scored)))
    low, high = np.quantile(scored[draws].mean(axis=1), ((1 - LEVEL) / 2, (1 + LEVEL) / 2)).tolist()
    return low, high
