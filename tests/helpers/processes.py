"""Trains a small network in as many processes as are asked for; run as a program, since each of them runs it anew.

python processes.py FOLDER DEVICES BATCH
"""

import sys
from pathlib import Path

import numpy as np
import torch
from fredholm.pipelines.devices import launched
from fredholm.pipelines.plan import Network, Plan, Preparation, Recipe
from fredholm.pipelines.run import Run
from fredholm.pipelines.sampling import PreparedCase
from fredholm.pipelines.segmenting import Segmenting
from fredholm.pipelines.training import Trainer
from lightning_fabric import Fabric
from torch import nn


class Silent:
    """Progress that nobody watches."""

    def step(self, step: int, steps: int | None, loss: float) -> None: ...

    def note(self, text: str) -> None: ...


def case(number: int) -> PreparedCase:
    """A block of one class in noise; each case has one of its own."""
    rng = np.random.default_rng(number)
    labels = torch.zeros(16, 16, 16, dtype=torch.uint8)
    labels[2 : 7 + number, 4:12, 3:9] = 1
    image = labels.float() - 0.5 + 0.4 * torch.from_numpy(rng.normal(size=labels.shape)).float()
    return PreparedCase.of(f"case {number}", image[None].clamp(-1, 1), labels)


def main(folder: Path, devices: int, batch: int) -> None:
    """Train, in a folder that may be there for all but the first process."""
    torch.set_num_threads(1)
    Network.build = lambda _, classes: nn.Sequential(  # pyright: ignore[reportAttributeAccessIssue]
        nn.Conv3d(1, 4, 3, padding=1), nn.SiLU(), nn.Conv3d(4, classes, 1)
    )
    recipe = Recipe(
        window=(8, 8, 8), steps=12, batch=batch, learning_rate=1e-2, warm_up=3, save_every=0, validate_every=5
    )
    plan = Plan(
        names={0: "background", 1: "block"},
        preparation=Preparation(spacing_mm=(1.0, 1.0, 1.0), window_hu=(-100.0, 100.0)),
        network=Network(feature_size=12),
        recipe=recipe,
        window=recipe.window,
    )
    fabric = Fabric(accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto")
    run = Run.create(folder, plan) if fabric.global_rank == 0 else Run(folder, plan)
    with launched(fabric):
        task = Segmenting(plan, [case(0), case(1)], [case(number) for number in range(2, 5)])
        Trainer(run, task, Silent(), fabric).fit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
