"""A surrogate as the commands load it."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...pipelines.devices import Precision, pick_device
from ...pipelines.run import Run
from ..extras import extra

if TYPE_CHECKING:
    from ...pipelines.forecast.surrogate import Surrogate

Weights = Literal["best", "last"]


def load_surrogate(folder: Path, weights: Weights | None, device: str, precision: Precision) -> "Surrogate":
    """The surrogate of a run.

    Args:
        folder: The run's.
        weights: Which; None takes the best if there are such.
        device: auto, cpu or cuda.
        precision: Of the arithmetic.

    Raises:
        FileNotFoundError: There is no such run, or it has no such weights.
        ValueError: It is damaged, or there is no such device.
    """
    with extra("pde"):
        from ...pipelines.forecast.plan import SurrogatePlan
        from ...pipelines.forecast.surrogate import Surrogate

    run = Run.open(folder, SurrogatePlan.read)
    best = run.best_file.is_file() if weights is None else weights == "best"
    return Surrogate(run, run.best_file if best else run.weights_file, pick_device(device), precision)
