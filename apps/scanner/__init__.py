"""`fredholm scanner`: DICOM in, DICOM SEG out."""

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from .fetch import Fetch
from .look import Look
from .serve import Serve
from .status import Delete, Retry, Status

Commands = (
    Annotated[Look, tyro.conf.subcommand("look")]
    | Annotated[Fetch, tyro.conf.subcommand("fetch")]
    | Annotated[Serve, tyro.conf.subcommand("serve")]
    | Annotated[Status, tyro.conf.subcommand("status")]
    | Annotated[Retry, tyro.conf.subcommand("retry")]
    | Annotated[Delete, tyro.conf.subcommand("delete")]
)


@dataclass
class Scanner:
    """Take scans from scanners and archives, and send segmentations back."""

    command: tyro.conf.OmitSubcommandPrefixes[tyro.conf.OmitArgPrefixes[Commands]] = field()

    def run(self) -> None:
        """Run the chosen command."""
        self.command.run()
