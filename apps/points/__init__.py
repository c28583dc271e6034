"""`fredholm points`: classification of point clouds and meshes."""

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from .evaluate import EvaluatePoints
from .predict import PredictPoints
from .train import TrainPoints

Commands = (
    Annotated[TrainPoints, tyro.conf.subcommand("train")]
    | Annotated[PredictPoints, tyro.conf.subcommand("predict")]
    | Annotated[EvaluatePoints, tyro.conf.subcommand("evaluate")]
)


@dataclass
class Points:
    """Classify point clouds and meshes: train, predict, evaluate."""

    command: tyro.conf.OmitSubcommandPrefixes[tyro.conf.OmitArgPrefixes[Commands]] = field()

    def run(self) -> None:
        """Run the chosen command."""
        self.command.run()
