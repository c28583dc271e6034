"""The trained network of a run as the commands use it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...pipelines.devices import pick_device
from ...pipelines.run import Run
from ..extras import extra

if TYPE_CHECKING:
    from ...pipelines.points.cloud import Cloud
    from ...pipelines.points.plan import PointPlan

Weights = Literal["last", "best"]


@dataclass(frozen=True)
class Classifier:
    """Plan and probabilities.

    Args:
        plan: The run's.
        probabilities: `(clouds, classes)` of clouds, with a tick after each batch.
    """

    plan: "PointPlan"
    probabilities: Callable[["Sequence[Cloud]", Callable[[], None]], np.ndarray]


def load_classifier(run_folder: Path, weights: Weights, votes: int, device: str) -> Classifier:
    """Load it.

    Raises:
        ValueError: There is less than one vote, or the weights do not fit.
        FileNotFoundError: There is no such run, or it has no such weights.
    """
    if votes < 1:
        raise ValueError(f"--votes is 1 or more, not {votes}")
    with extra("points"):
        from ...pipelines.points.classify import probabilities
        from ...pipelines.points.plan import PointPlan
    run = Run.open(run_folder, PointPlan.read)
    place = pick_device(device)
    model = run.load_model(run.best_file if weights == "best" else None).to(place)

    def of(clouds: "Sequence[Cloud]", tick: Callable[[], None]) -> np.ndarray:
        return probabilities(run.plan, lambda *x: model(*(one.to(place) for one in x)), clouds, votes=votes, tick=tick)

    return Classifier(run.plan, of)
