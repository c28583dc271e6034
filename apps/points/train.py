"""`fredholm points train`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import tyro

from ...backbones import PointBody
from ...pipelines.run import Run
from ...pipelines.scores import ScoreTable
from ..console import bar, note, result, table
from ..extras import extra
from ..training import TrainingOptions, create

if TYPE_CHECKING:
    from ...pipelines.points.plan import PointPlan


@dataclass(kw_only=True)
class TrainPoints(TrainingOptions):
    """Train a classifier of point clouds.

    DATA is an NPZ file with points, labels and class_names; ModelNet40 as modelnet40_normal_resampled or
    modelnet40_ply_hdf5_2048; or a folder with a folder of clouds or meshes for each class. The best weights are chosen
    on a part of the training clouds, so that a test set stays unseen. Ctrl-C saves the state; --resume goes on.

    Example: fredholm points train DATA -o RUN --minutes 30
    """

    data: tyro.conf.Positional[Path]
    """NPZ file, or folder of the data set."""

    usual_epochs: ClassVar[int] = 40

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

    epochs: int | None = None
    """Train for so many epochs of 250 steps; 40 if neither minutes nor epochs are given."""

    batch: int = 32
    """Clouds in a step."""

    learning_rate: float = 2e-3
    """Highest learning rate."""

    held_out: float = 0.1
    """Share of each class of the training clouds that is held out to choose the best weights; 0 for none."""

    def run(self) -> None:
        """Train."""
        self.check()
        if not 0 <= self.held_out < 1:
            raise ValueError(f"--held-out is a share from 0 to below 1, not {self.held_out}")
        with extra("points"):
            from ...pipelines.points.dataset import read_labelled, split_off
            from ...pipelines.points.plan import PointPlan
            from ...pipelines.points.task import Classifying
        logs = self.logs()
        earlier = Run.open(self.output, PointPlan.read) if self.resume else None
        with bar("reading") as progress:
            clouds = read_labelled(self.data, "train", lambda name: progress.tick(name))
        plan = self._plan(clouds.names) if earlier is None else earlier.plan
        if plan.names != clouds.names:
            raise ValueError(f"{self.data} has the classes {', '.join(clouds.names)}, the run {', '.join(plan.names)}")
        if plan.normals and not clouds.has_normals:
            raise ValueError(f"{self.data}: --normals was asked for, and not every cloud has them")
        training, validation = split_off(clouds, plan.data["held_out"], plan.recipe.seed)
        run = earlier or create(self.output, plan)
        weights = sum(weight.numel() for weight in plan.build().parameters())
        note(
            f"{len(training)} clouds of {len(plan.names)} classes to learn, {len(validation)} to choose the best by; "
            f"{weights:,} weights"
        )
        scores = self.train(run, Classifying(plan, training, validation), logs)
        if scores is not None:
            result(_accuracies(scores))
        result(str(self.output))

    def _plan(self, names: tuple[str, ...]) -> "PointPlan":
        from ...pipelines.points.augment import Augmentation
        from ...pipelines.points.plan import PointPlan, PointRecipe

        return PointPlan(
            names=names,
            points=self.points,
            normals=self.normals,
            network=PointBody(dims=self.dims, neighbours=self.neighbours, interpolation=self.interpolation.network),
            augmentation=Augmentation(up=self.up, rotation=self.rotation),
            recipe=PointRecipe(**self.for_recipe(), weight_decay=1e-2),
            data={"path": str(self.data), "held_out": self.held_out},
        )


def _accuracies(scores: ScoreTable) -> str:
    rows = [[name, row[1]] for name, row in scores.rows.items()]
    return table(["held-out clouds", "accuracy"], [*rows, ["mean of classes", scores.casewise]])
