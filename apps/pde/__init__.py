"""`fredholm pde`: surrogates of simulations in The Well's format."""

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from .check import CheckData
from .evaluate import EvaluateSurrogate
from .generate import Generate
from .rollout import Rollout
from .stats import Stats
from .train import TrainSurrogate

Commands = (
    Annotated[Generate, tyro.conf.subcommand("generate")]
    | Annotated[CheckData, tyro.conf.subcommand("check")]
    | Annotated[Stats, tyro.conf.subcommand("stats")]
    | Annotated[TrainSurrogate, tyro.conf.subcommand("train")]
    | Annotated[Rollout, tyro.conf.subcommand("rollout")]
    | Annotated[EvaluateSurrogate, tyro.conf.subcommand("evaluate")]
)


@dataclass
class Pde:
    """Learn simulations: make data, check data in The Well's format, compute its statistics, train, run on, score."""

    command: tyro.conf.OmitSubcommandPrefixes[tyro.conf.OmitArgPrefixes[Commands]] = field()

    def run(self) -> None:
        """Run the chosen command."""
        self.command.run()
