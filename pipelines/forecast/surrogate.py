"""A trained run as a function from known frames to the next one."""

import importlib.metadata
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..devices import Precision, arithmetic
from ..ledger import fingerprint
from ..run import Run
from ..well.windows import Window
from .plan import SurrogatePlan
from .stepping import Stepper, Surroundings

Predictor = Callable[[Tensor, Surroundings], Tensor]
"""The next frame `(batch, *grid, channels)` of known ones `(batch, frames, *grid, channels)`, in the fields' units."""


class Surrogate:
    """Frames come and go on the CPU, wherever the network is.

    Args:
        run: A trained run.
        weights: Which of its weights.
        device: Where to compute.
        precision: Of the arithmetic.

    Raises:
        FileNotFoundError: There are no such weights.
        ValueError: They are damaged or of another network.
    """

    def __init__(
        self, run: Run[SurrogatePlan], weights: Path, device: torch.device, precision: Precision = "32-true"
    ) -> None:
        self.run, self.weights, self.device = run, weights, device
        self.precision: Precision = precision
        self.model = run.load_model(weights).to(device)
        self.stepper = Stepper(run.plan.simulation, run.plan.target)

    @torch.inference_mode()
    def __call__(self, history: Tensor, around: Surroundings) -> Tensor:
        """The next frame."""
        return self.stepper.step(self._forward, history, around)

    def surroundings(self, windows: Sequence[Window]) -> Surroundings:
        """What stays as it is while trajectories run on, from a window of each."""
        constants, scalars, time_step = (
            torch.stack([getattr(window, name) for window in windows]) for name in ("constants", "scalars", "time_step")
        )
        return self.stepper.surroundings(constants, scalars, time_step)

    @property
    def made_with(self) -> dict[str, str]:
        """What its predictions depend on but for the data, for records."""
        return {
            "run": str(self.run.folder),
            "weights": self.weights.name,
            "weights_sha256": fingerprint([self.weights]),
            "plan_sha256": fingerprint([self.run.folder / "plan.yaml"]),
            "arithmetic": f"{self.device.type} {self.precision}",
            "fredholm": importlib.metadata.version("fredholm"),
        }

    def _forward(self, *inputs: Tensor) -> Tensor:
        with arithmetic(self.device, self.precision):
            return self.model(*(one.to(self.device) for one in inputs)).float().cpu()
