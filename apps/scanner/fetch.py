"""`fredholm scanner fetch`: from an archive to the gateway, or to a folder."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ..console import bar, note
from ..extras import extra

if TYPE_CHECKING:
    from ...pipelines.gateway.arrival import Arrival
    from .config import Config
    from .pull import Take


@dataclass
class Fetch:
    """Fetch the CT series of a study from an archive, for the gateway to label, or to a folder.

    Archives under `c_store` are asked by C-GET, or by C-MOVE with --move; those under `stow_rs` by DICOMweb. What was
    fetched is labelled by the gateway that serves, or by the next one.

    Example: fredholm scanner fetch 1.2.840.113619.2.1 --archive pacs --config gateway.yaml
    """

    study: Annotated[str, tyro.conf.Positional]
    """Study instance UID."""

    archive: str
    """Name of the archive in the gateway's file."""

    config: Path
    """The gateway's YAML file."""

    series: str | None = None
    """Series instance UID, if only this one is wanted."""

    move: bool = False
    """Let the archive send to the gateway, which must be serving and must be known to the archive."""

    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """A folder to fetch to, instead of the gateway's."""

    def run(self) -> None:
        """Fetch."""
        with extra("scanner"):
            from .config import Config, Store
            from .faults import silence_libraries
            from .pull import Asked, by_get, by_move, by_web
        config, asked = Config.read(self.config), Asked(self.study, self.series)
        source, listen = config.archive(self.archive), config.listen
        silence_libraries()
        if self.move:
            if not isinstance(source, Store) or self.output is not None:
                raise ValueError("--move is for an archive under c_store, and to the gateway alone: leave --output out")
            count = by_move(source, listen.ae_title, asked)
        else:
            with self._target(config) as keep, bar("objects") as progress:

                def take(arrival: "Arrival") -> None:
                    keep(arrival)
                    progress.tick()

                if isinstance(source, Store):
                    count = by_get(source, listen.ae_title, asked, listen.sop_classes, take)
                else:
                    count = by_web(source, asked, listen.sop_classes, take)
        if not count:
            raise ValueError(f"{self.archive} has no CT images of this {'series' if self.series else 'study'}")
        note(f"{count} objects were fetched")

    @contextmanager
    def _target(self, config: "Config") -> "Iterator[Take]":
        from ...pipelines.gateway.spool import Spool
        from ...pipelines.gateway.visit import visit

        if self.output is not None:
            folder = self.output
            yield lambda arrival: _write(folder, arrival)
            return
        spool = Spool(config.spool_folder, config.listen.limits)
        try:
            with visit(spool) as association:
                yield lambda arrival: spool.keep(arrival, association, time.time())
        finally:
            spool.close()


def _write(folder: Path, arrival: "Arrival") -> None:
    from ...pipelines.files import replacing

    place = folder / arrival.series
    place.mkdir(parents=True, exist_ok=True)
    with replacing(place / f"{arrival.uid}.dcm") as beside, beside.open("xb") as file:
        file.write(arrival.preamble())
        file.write(arrival.data)
