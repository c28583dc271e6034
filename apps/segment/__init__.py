"""`fredholm segment`: train, predict, evaluate."""

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from .evaluate import Evaluate
from .predict import Predict
from .train import Train

Commands = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Predict, tyro.conf.subcommand("predict")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
)


@dataclass
class Segment:
    """Label the organs of CT volumes: train, predict, evaluate."""

    command: tyro.conf.OmitSubcommandPrefixes[tyro.conf.OmitArgPrefixes[Commands]] = field()

    def run(self) -> None:
        """Run the chosen command."""
        self.command.run()
