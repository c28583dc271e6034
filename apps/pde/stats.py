"""`fredholm pde stats`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from ..console import bar, result
from ..extras import extra


@dataclass
class Stats:
    """Compute the statistics that normalise a data set, from its training split, and write them to DATA/stats.yaml.

    Example: fredholm pde stats DATA
    """

    data: tyro.conf.Positional[Path]
    """Folder of the data set, the one that holds data/."""

    def run(self) -> None:
        """Compute and write."""
        with extra("pde"):
            from ...pipelines.well.statistics import compute_statistics, write_statistics
        from ...pipelines.well.folder import WellFolder

        folder = WellFolder.open(self.data)
        files = folder.files("train")
        with bar("reading files", len(files)) as reading:
            statistics = compute_statistics(files, reading.tick)
        write_statistics(folder.statistics_file, statistics)
        result(str(folder.statistics_file))
