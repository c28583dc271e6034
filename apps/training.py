"""Training as every command does it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro
from lightning_fabric import Fabric

from ..pipelines.devices import Precision, launched, pick_device
from ..pipelines.run import Run
from ..pipelines.scores import ScoreTable
from ..pipelines.training import CALIBRATION, Task, Trainer
from .console import bar, note
from .extras import extra

EPOCH = 250  # steps that are called an epoch


@dataclass(kw_only=True)
class TrainingOptions:
    """Options of commands that train on one device; a command overrides a default by naming it again."""

    usual_epochs: ClassVar[int] = 100

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """Folder of the run, made anew."""

    minutes: float | None = None
    """Train for so long; the learning rate's schedule is drawn to fit."""

    epochs: int | None = None
    """Train for so many epochs of 250 steps; 100 if neither minutes nor epochs are given."""

    batch: int = 8
    """Examples in a step."""

    learning_rate: float = 1e-3
    """Highest learning rate."""

    ema: float = 0.0
    """Decay of a running mean of the weights, such as 0.99; 0 for none."""

    precision: Precision = "32-true"
    """Arithmetic."""

    validate_every: int = EPOCH
    """Steps from one validation to the next; 0 for one at the end alone."""

    device: str = "auto"
    """auto, cpu, cuda."""

    workers: int = 0
    """Processes that make examples; 0 is the training process itself."""

    seed: int = 0
    """Of everything that chance decides."""

    tensorboard: bool = False
    """Draw the log's columns as curves too: `tensorboard --logdir RUN` shows them, or those of a folder of runs."""

    resume: bool = False
    """Go on with the run in RUN as it was planned; other options are the run's."""

    def check(self) -> None:
        """Refuse options that exclude each other."""
        if self.minutes is not None and self.epochs is not None:
            raise ValueError("--minutes and --epochs exclude each other: give one of them")

    def for_recipe(self) -> dict[str, Any]:
        """What a `TrainingRecipe` takes from here."""
        names = ("batch", "learning_rate", "ema", "precision", "validate_every", "seed")
        steps = EPOCH * (self.usual_epochs if self.epochs is None else self.epochs)
        return {"steps": steps, **{name: getattr(self, name) for name in names}}

    def logs(self) -> list[Callable[[Mapping[str, float]], None]]:
        """Who draws the log; asked for before any work, for it may not be installed."""
        return [curves(self.output)] if self.tensorboard else []

    def train(self, run: Run[Any], task: Task, logs: list[Callable[[Mapping[str, float]], None]]) -> ScoreTable | None:
        """Train the run's network to the end, with a bar; the scores of its last validation."""
        fabric = Fabric(accelerator=pick_device(self.device).type, devices=1, precision=run.plan.recipe.precision)
        with launched(fabric), bar("training") as progress:
            trainer = Trainer(run, task, progress, fabric, self.workers, logs)
            return train(trainer, minutes=self.minutes, resume=self.resume)


def train(trainer: Trainer, *, minutes: float | None, resume: bool = False) -> ScoreTable | None:
    """Settle the number of steps where minutes were asked for, then train to the end."""
    if resume:
        trainer.resume()
        note(f"going on at step {trainer.step} of {trainer.recipe.steps}")
        if trainer.step >= trainer.recipe.steps:
            note("the run is finished already")
    if minutes is not None and trainer.step < CALIBRATION:
        trainer.settle_steps(minutes)
    return trainer.fit()


def curves(folder: Path) -> Callable[[Mapping[str, float]], None]:
    """Draws the log of the run in this folder for TensorBoard; a ValueError if that is not installed."""
    with extra("tensorboard"):
        from ..pipelines.tensorboard import TensorBoard
    return TensorBoard(folder / "tensorboard")
