"""`fredholm pde check`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from ..console import bar, result
from ..extras import extra


@dataclass
class CheckData:
    """Look for what is wrong with a data set in The Well's format before training on it.

    DATA holds data/train, data/valid and data/test with HDF5 files. With a fault the exit code is 1.

    Example: fredholm pde check DATA
    """

    data: tyro.conf.Positional[Path]
    """Folder of the data set, the one that holds data/."""

    def run(self) -> None:
        """Check and tell."""
        with extra("pde"):
            from ...pipelines.well.check import check_folder
        from ...pipelines.well.folder import WellFolder

        folder = WellFolder.open(self.data)
        with bar("reading files", len(folder.all_files)) as reading:
            faults = check_folder(folder, reading.tick)
        for file, found in faults.items():
            result(f"{file.relative_to(self.data)}: {'; '.join(found) or 'good'}")
        bad = sum(bool(found) for found in faults.values())
        if bad:
            raise ValueError(f"{bad} of {len(faults)} files have faults")
