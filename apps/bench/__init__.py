"""`fredholm bench`: what is here, measured."""

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from .kernels import BenchKernels
from .recall import BenchRecall

Commands = (
    Annotated[BenchKernels, tyro.conf.subcommand("kernels")] | Annotated[BenchRecall, tyro.conf.subcommand("recall")]
)


@dataclass
class Bench:
    """Measure: the operators on this machine, or how well a mixer brings things from one place to another."""

    command: tyro.conf.OmitSubcommandPrefixes[tyro.conf.OmitArgPrefixes[Commands]] = field()

    def run(self) -> None:
        """Run the chosen command."""
        self.command.run()
