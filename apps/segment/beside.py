"""What `predict` writes beside a label map when asked: pages, a picture, statistics."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ...pipelines.images import stem
from ...pipelines.statistics import StatisticsTable
from ..viewer import LabelledScan, write_preview, write_views


class Beside(Protocol):
    """Something written for each case."""

    name: str  # the option that asks for it

    def write(self, labels: Path, case: LabelledScan) -> None:
        """Write it for the case whose label map is at this path."""
        ...

    def remove(self, labels: Path) -> None:
        """Take away what an earlier call left, since this one failed."""
        ...


class Views:
    """A page and a contact sheet."""

    name = "view"

    def write(self, labels: Path, case: LabelledScan) -> None:
        """Write both."""
        write_views(labels.parent, stem(labels), case)

    def remove(self, labels: Path) -> None:
        """Remove both."""
        for ending in (".html", "_sheet.html"):
            labels.with_name(stem(labels) + ending).unlink(missing_ok=True)


class Preview:
    """A picture."""

    name = "preview"

    def write(self, labels: Path, case: LabelledScan) -> None:
        """Write it."""
        write_preview(_picture(labels), case)

    def remove(self, labels: Path) -> None:
        """Remove it."""
        _picture(labels).unlink(missing_ok=True)


class Statistics:
    """A table of all cases.

    Args:
        path: Its files, without their endings.
        names: Of the classes.
    """

    name = "statistics"

    def __init__(self, path: Path, names: Mapping[int, str]) -> None:
        self.table = StatisticsTable(path, names)

    def write(self, labels: Path, case: LabelledScan) -> None:
        """Add the case's rows."""
        self.table.add(stem(labels), case.measured)

    def remove(self, labels: Path) -> None:
        """Take the case's rows out."""
        self.table.remove(stem(labels))


def _picture(labels: Path) -> Path:
    return labels.with_name(f"{stem(labels)}.png")
