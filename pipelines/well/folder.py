"""A data set's folder: `data/train`, `data/valid`, `data/test` with HDF5 files, and `stats.yaml` beside `data`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
SUFFIXES = (".hdf5", ".h5")


@dataclass(frozen=True)
class WellFolder:
    """The folder of one data set, the one that holds `data`."""

    root: Path

    @classmethod
    def open(cls, root: Path) -> "WellFolder":
        """Open a folder that is there.

        Raises:
            FileNotFoundError: It is missing, is of another level, or holds no file.
        """
        if not root.is_dir():
            raise FileNotFoundError(f"no such folder: {root}")
        if not (root / "data").is_dir():
            raise FileNotFoundError(f"{root} has no folder data/ with {', '.join(SPLITS)}{_level(root)}")
        folder = cls(root)
        if not any(folder.has(split) for split in SPLITS):
            raise FileNotFoundError(f"no HDF5 file in data/{', data/'.join(SPLITS)} of {root}")
        return folder

    def has(self, split: Split) -> bool:
        """Whether a split has files."""
        return bool(self._found(split))

    def files(self, split: Split) -> list[Path]:
        """The files of a split, by name.

        Raises:
            FileNotFoundError: There is none.
        """
        files = self._found(split)
        if not files:
            raise FileNotFoundError(f"the split {split} has no file: expected HDF5 files in {self.root}/data/{split}")
        return files

    @property
    def all_files(self) -> list[Path]:
        """The files of all splits."""
        return [file for split in SPLITS for file in self._found(split)]

    @property
    def statistics_file(self) -> Path:
        """Where the statistics are, once computed."""
        return self.root / "stats.yaml"

    def _found(self, split: Split) -> list[Path]:
        return sorted(file for file in (self.root / "data" / split).glob("*") if file.suffix in SUFFIXES)


def _level(root: Path) -> str:
    """What to give instead, if that can be guessed."""
    for above in (root.parent, root.parent.parent):
        if (above / "data").is_dir() and root.is_relative_to(above / "data"):
            return f": give {above}"
    below = [child for child in sorted(root.iterdir()) if (child / "data").is_dir()]
    return f": give {below[0]}" if below else ""
