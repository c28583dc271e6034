"""Training as every command does it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ..pipelines.scores import ScoreTable
from ..pipelines.training import CALIBRATION, Trainer
from .console import note
from .extras import extra


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
