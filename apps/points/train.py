"""`fredholm points train`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from lightning_fabric import Fabric

from ...backbones import PointBody
from ...pipelines.devices import Precision, launched, pick_device
from ...pipelines.run import Run
from ...pipelines.scores import ScoreTable
from ...pipelines.training import Trainer
from ..console import bar, note, result, table
from ..extras import extra
from ..training import curves, train

EPOCH = 250  # steps that are called an epoch


@dataclass
class TrainPoints:
    """Train a classifier of point clouds.

    DATA is an NPZ file with points, labels and class_names; ModelNet40 as modelnet40_normal_resampled or
    modelnet40_ply_hdf5_2048; or a folder with a folder of clouds or meshes for each class. The best weights are chosen
    on a part of the training clouds, so that a test set stays unseen. Ctrl-C saves the state; --resume goes on.

    Example: fredholm points train DATA -o RUN --minutes 30
    """

    data: tyro.conf.Positional[Path]
    """NPZ file, or folder of the data set."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """Folder of the run, made anew."""

    points: int = 512
    """Points of a cloud that the network sees."""

    normals: bool = False
    """Let the network see normals too; every cloud must have them, then and later."""

    dims: tuple[int, ...] = (32, 64, 128)
    """Channels of each stage."""

    neighbours: int = 16
    """Neighbours that each point looks at."""

    up: str = "z"
    """Upright axis, x, y or z, about which training clouds are turned."""

    rotation: float = 15.0
    """Largest turn in degrees; 180 for clouds that may stand any way round."""

    minutes: float | None = None
    """Train for so long; the learning rate's schedule is drawn to fit."""

    epochs: int | None = None
    """Train for so many epochs of 250 steps; 40 if neither minutes nor epochs are given."""

    batch: int = 32
    """Clouds in a step."""

    learning_rate: float = 2e-3
    """Highest learning rate."""

    held_out: float = 0.1
    """Share of each class of the training clouds that is held out to choose the best weights; 0 for none."""

    ema: float = 0.0
    """Decay of a running mean of the weights, such as 0.99; 0 for none."""

    precision: Precision = "32-true"
    """Arithmetic."""

    validate_every: int = EPOCH
    """Steps from one validation to the next; 0 for one at the end alone."""

    device: str = "auto"
    """auto, cpu, cuda."""

    workers: int = 0
    """Processes that prepare clouds; 0 is the training process itself."""

    seed: int = 0
    """Of weights, held-out clouds, order and augmentation."""

    tensorboard: bool = False
    """Draw the log's columns as curves too: `tensorboard --logdir RUN` shows them, or those of a folder of runs."""

    resume: bool = False
    """Go on with the run in RUN as it was planned; other options are the run's."""

    def run(self) -> None:
        """Train."""
        if self.minutes is not None and self.epochs is not None:
            raise ValueError("--minutes and --epochs exclude each other: give one of them")
        if not 0 <= self.held_out < 1:
            raise ValueError(f"--held-out is a share from 0 to below 1, not {self.held_out}")
        with extra("points"):
            from ...pipelines.points.dataset import read_labelled, split_off
            from ...pipelines.points.plan import PointPlan
            from ...pipelines.points.task import Classifying
        logs = [curves(self.output)] if self.tensorboard else []
        earlier = Run.open(self.output, PointPlan.read) if self.resume else None
        with bar("reading") as progress:
            clouds = read_labelled(self.data, "train", lambda name: progress.tick(name))
        plan = self._plan(clouds.names) if earlier is None else earlier.plan
        if plan.names != clouds.names:
            raise ValueError(f"{self.data} has the classes {', '.join(clouds.names)}, the run {', '.join(plan.names)}")
        if plan.normals and not clouds.has_normals:
            raise ValueError(f"{self.data}: --normals was asked for, and not every cloud has them")
        training, validation = split_off(clouds, plan.data["held_out"], plan.recipe.seed)
        run = earlier or Run.create(self.output, plan)
        weights = sum(weight.numel() for weight in plan.build().parameters())
        note(
            f"{len(training)} clouds of {len(plan.names)} classes to learn, {len(validation)} to choose the best by; "
            f"{weights:,} weights"
        )
        fabric = Fabric(accelerator=pick_device(self.device).type, devices=1, precision=plan.recipe.precision)
        with launched(fabric), bar("training") as progress:
            task = Classifying(plan, training, validation)
            trainer = Trainer(run, task, progress, fabric, self.workers, logs)
            scores = train(trainer, minutes=self.minutes, resume=self.resume)
        if scores is not None:
            result(_accuracies(scores))
        result(str(self.output))

    def _plan(self, names: tuple[str, ...]):
        from ...pipelines.points.augment import Augmentation
        from ...pipelines.points.plan import PointPlan, PointRecipe

        return PointPlan(
            names=names,
            points=self.points,
            normals=self.normals,
            network=PointBody(dims=self.dims, neighbours=self.neighbours),
            augmentation=Augmentation(up=self.up, rotation=self.rotation),
            recipe=PointRecipe(
                steps=EPOCH * (40 if self.epochs is None else self.epochs),
                batch=self.batch,
                learning_rate=self.learning_rate,
                weight_decay=1e-2,
                ema=self.ema,
                precision=self.precision,
                validate_every=self.validate_every,
                seed=self.seed,
            ),
            data={"path": str(self.data), "held_out": self.held_out},
        )


def _accuracies(scores: ScoreTable) -> str:
    rows = [[name, row[1]] for name, row in scores.rows.items()]
    return table(["held-out clouds", "accuracy"], [*rows, ["mean of classes", scores.casewise]])
