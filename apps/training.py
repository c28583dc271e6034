"""Training as every command does it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from ..backbones import Interpolation
from ..pipelines.devices import Precision, fabric_of, launched, pick_device
from ..pipelines.phases import AnchorPhases
from ..pipelines.run import P, Run
from ..pipelines.scores import ScoreTable
from ..pipelines.training import CALIBRATION, Task, Trainer
from .console import bar, mute, note
from .extras import extra

EPOCH = 250  # steps that are called an epoch


@dataclass(frozen=True, kw_only=True)
class InterpolationOptions:
    """Universal interpolation: residuals that move features towards anchors, which all layers share."""

    interpolation: int = 0
    """Anchors, such as 16; 0 keeps the plain residuals."""

    interpolate_from: int = 1
    """First layer that interpolates, counted from 1."""

    interpolation_depth: Literal["linear", "logarithmic"] = "linear"
    """How alpha goes with a layer's depth at the start."""

    anchor_phases: tuple[int, int] | None = None
    """Steps at which the anchors, zero until then, begin to learn, and at which they learn like any weight, such as
    1250 3750; from the first step like any weight if not given."""

    @property
    def network(self) -> Interpolation | None:
        """What a network is told; None for plain residuals."""
        if self.interpolation == 0:
            if self != PLAIN_RESIDUALS:
                raise ValueError("--interpolate-from, --interpolation-depth and --anchor-phases need --interpolation")
            return None
        return Interpolation(
            anchors=self.interpolation, from_layer=self.interpolate_from, depth=self.interpolation_depth
        )

    @property
    def phases(self) -> AnchorPhases | None:
        """What a recipe is told."""
        if self.anchor_phases is None:
            return None
        return AnchorPhases(activation=self.anchor_phases[0], joint=self.anchor_phases[1])


PLAIN_RESIDUALS = InterpolationOptions()


@dataclass(kw_only=True)
class TrainingOptions:
    """Options of commands that train; a command overrides a default by naming it again."""

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

    devices: int = 1
    """GPUs, or processes on a CPU, that share each step; every one has its own `batch` examples."""

    workers: int = 0
    """Processes that make examples; 0 is the training process itself."""

    seed: int = 0
    """Of everything that chance decides."""

    interpolation: InterpolationOptions = PLAIN_RESIDUALS

    tensorboard: bool = False
    """Draw the log's columns as curves too: `tensorboard --logdir RUN` shows them, or those of a folder of runs."""

    resume: bool = False
    """Go on with the run in RUN as it was planned; other options are the run's."""

    def check(self) -> None:
        """Refuse options that exclude each other; from here on the first process speaks for all."""
        leads()
        if self.minutes is not None and self.epochs is not None:
            raise ValueError("--minutes and --epochs exclude each other: give one of them")

    def for_recipe(self) -> dict[str, Any]:
        """What a `TrainingRecipe` takes from here."""
        names = ("batch", "learning_rate", "ema", "precision", "validate_every", "seed")
        steps = EPOCH * (self.usual_epochs if self.epochs is None else self.epochs)
        return {"steps": steps, "phases": self.interpolation.phases, **{name: getattr(self, name) for name in names}}

    def logs(self) -> list[Callable[[Mapping[str, float]], None]]:
        """Who draws the log; asked for before any work, for it may not be installed."""
        return [curves(self.output)] if self.tensorboard else []

    def train(self, run: Run[Any], task: Task, logs: list[Callable[[Mapping[str, float]], None]]) -> ScoreTable | None:
        """Train the run's network to the end, with a bar; the scores of its last validation."""
        fabric = fabric_of(pick_device(self.device), run.plan.recipe.precision, self.devices)
        with launched(fabric), bar("training") as progress:
            trainer = Trainer(run, task, progress, fabric, self.workers, logs)
            return train(trainer, minutes=self.minutes, resume=self.resume)


def leads() -> bool:
    """Whether this is the first of the processes that train together; the others are muted."""
    from lightning_fabric.utilities.rank_zero import rank_zero_only

    first = rank_zero_only.rank == 0  # pyright: ignore[reportFunctionMemberAccess]
    if not first:
        mute()
    return first


def create(output: Path, plan: P) -> Run[P]:
    """A new run, made by the first process: it starts the others only when nothing is left that could go wrong."""
    return Run.create(output, plan) if leads() else Run(output, plan)


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
