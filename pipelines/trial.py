"""A few real steps of a plan on noise, as a program: what they took goes to stdout, as JSON.

python -m fredholm.pipelines.trial PLAN.yaml DEVICE
"""

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from ..kernels import reuse_host_memory
from .devices import fabric_of
from .memory import peak_resident_bytes, resident_bytes
from .plan import Plan
from .run import Run
from .sampling import PreparedCase
from .segmenting import Segmenting
from .training import Trainer

STEPS = 3


class Stopwatch:
    """Notes when steps end."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def step(self, step: int, steps: int | None, loss: float) -> None:
        """A step ended."""
        self.times.append(time.monotonic())

    def note(self, text: str) -> None:
        """Nobody reads."""


def main(plan: Plan, device: torch.device) -> dict[str, float]:
    """Train for a few steps, as training does it.

    Args:
        plan: With a recipe.
        device: Where.

    Returns:
        The fields of `budget.Trial`.
    """
    reuse_host_memory()
    start, watch = resident_bytes(), Stopwatch()
    assert plan.recipe is not None
    recipe = replace(plan.recipe, steps=STEPS, save_every=0, validate_every=0)
    plan = replace(plan, recipe=recipe)
    with tempfile.TemporaryDirectory() as folder:
        task = Segmenting(plan, [_noise(plan)])
        Trainer(Run.create(Path(folder), plan), task, watch, fabric_of(device, recipe.precision)).fit()
    grown = torch.cuda.max_memory_reserved(device) if device.type == "cuda" else peak_resident_bytes() - start
    return {"seconds": watch.times[-1] - watch.times[-2], "grown_bytes": grown}


def _noise(plan: Plan) -> PreparedCase:
    assert plan.recipe is not None
    low, high = plan.preparation.range
    image = torch.rand(plan.network.channels, *plan.recipe.window) * (high - low) + low
    return PreparedCase.of("noise", image, torch.randint(len(plan.names), plan.recipe.window).to(torch.uint8))


if __name__ == "__main__":
    print(json.dumps(main(Plan.read(Path(sys.argv[1])), torch.device(sys.argv[2]))))
