"""The learning rate as a function of the step alone."""

import math


def learning_rate(step: int, *, peak: float, warm_up: int, steps: int, floor: float = 0.01) -> float:
    """Rise linearly over `warm_up` steps, then fall along a cosine to `floor * peak` at `steps`.

    Args:
        step: Number of the step about to be taken, from 0.
        peak: The highest value.
        warm_up: Steps of the rise.
        steps: Steps in all.
        floor: The last value, as a share of the highest.
    """
    if step < warm_up:
        return peak * (step + 1) / warm_up
    share = min(1.0, (step - warm_up) / max(1, steps - warm_up))
    return peak * (floor + (1 - floor) * (1 + math.cos(math.pi * share)) / 2)
