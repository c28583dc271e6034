"""`fredholm segment`: check, plan, train, predict, evaluate, export."""

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from .check import CheckData
from .evaluate import Evaluate
from .export import Export
from .plan import MakePlan
from .predict import Predict
from .train import Train

Commands = (
    Annotated[CheckData, tyro.conf.subcommand("check")]
    | Annotated[MakePlan, tyro.conf.subcommand("plan")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Predict, tyro.conf.subcommand("predict")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Export, tyro.conf.subcommand("export")]
)


@dataclass
class Segment:
    """Label the organs of CT volumes: check, plan, train, predict, evaluate, export."""

    command: tyro.conf.OmitSubcommandPrefixes[tyro.conf.OmitArgPrefixes[Commands]] = field()

    def run(self) -> None:
        """Run the chosen command."""
        self.command.run()
