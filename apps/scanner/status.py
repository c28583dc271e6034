"""`fredholm scanner status`, `retry` and `delete`: what a person sees and does, whether the gateway runs or not."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ..console import note, result, table
from ..extras import extra

if TYPE_CHECKING:
    from ...pipelines.gateway.spool import Spool


@dataclass
class Status:
    """Show the states of a gateway's series.

    Example: fredholm scanner status --config gateway.yaml
    """

    config: Path
    """The gateway's YAML file."""

    json: bool = False
    """As JSON."""

    prometheus: bool = False
    """As Prometheus text."""

    def run(self) -> None:
        """Print them."""
        spool = _spool(self.config)
        from ...pipelines.gateway.states import snapshot
        from .page import COLUMNS, as_json, as_prometheus, rows

        found = snapshot(spool.index, spool.root)
        if self.json:
            result(as_json(found))
        elif self.prometheus:
            result(as_prometheus(found, {}).rstrip())
        else:
            result(table(COLUMNS, rows(found)) if found.series else "no series is kept")
        spool.close()


@dataclass
class Retry:
    """Try again what failed of a series, and take a held one as whole if its slices fit.

    A series that is held because an association broke, or because objects of it were refused, is judged anew by what
    is there. Failed jobs and deliveries are queued again.

    Example: fredholm scanner retry 1.2.840.113619.2.5 --config gateway.yaml
    """

    series: Annotated[str, tyro.conf.Positional]
    """Series instance UID."""

    config: Path
    """The gateway's YAML file."""

    def run(self) -> None:
        """Queue it."""
        spool = _spool(self.config)
        from ...pipelines.gateway.retention import retry

        retry(spool, self.series, time.time())
        spool.close()
        note(f"series {self.series} will be tried again")


@dataclass
class Delete:
    """Delete a series, its results, what was to be sent of it, and every memory of it.

    Example: fredholm scanner delete 1.2.840.113619.2.5 --config gateway.yaml
    """

    series: Annotated[str, tyro.conf.Positional]
    """Series instance UID."""

    config: Path
    """The gateway's YAML file."""

    def run(self) -> None:
        """Delete it."""
        spool = _spool(self.config)
        from ...pipelines.gateway.retention import delete

        delete(spool, self.series)
        spool.close()
        note(f"series {self.series} is deleted")


def _spool(config: Path) -> "Spool":
    with extra("scanner"):
        from ...pipelines.gateway.spool import Spool
        from .config import Config
    read = Config.read(config)
    if not (read.spool_folder / "index.sqlite").is_file():
        raise FileNotFoundError(f"no gateway has served from {read.folder} yet")
    return Spool(read.spool_folder, read.listen.limits)
