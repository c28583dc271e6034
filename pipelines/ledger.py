"""What was made in a folder, of which files and with what, so that a second call makes only what is missing.

Kept as `predictions.json` in that folder: for each file that was made, the sha256 of the scan that it is of, and
whatever else it depends on. A file is done if all of that is the same again and the file is there; what people then did
to it is theirs.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .classes import read_json
from .files import sha256, write_text

NAME = "predictions.json"

Entry = Mapping[str, Any]


class Ledger:
    """The record of a folder.

    Args:
        folder: Where the files are made.

    Raises:
        ValueError: Its `predictions.json` is no such record.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / NAME
        self._read()

    def has(self, made: Sequence[Path], entry: Entry) -> bool:
        """Whether all these files are there and each was made as `entry` says."""
        entries = self._read()
        return all(entries.get(path.name) == entry and path.is_file() for path in made)

    def enter(self, made: Sequence[Path], entry: Entry) -> None:
        """These files were made so; on disk at once.

        Args:
            made: Files in the folder.
            entry: Plain values, as JSON gives them back.

        Raises:
            OSError: The record cannot be written.
        """
        self._write({**self._read(), **{path.name: dict(entry) for path in made}})

    def strike(self, made: Sequence[Path]) -> None:
        """Forget these files."""
        gone, entries = {path.name for path in made}, self._read()
        if gone & entries.keys():
            self._write({name: entry for name, entry in entries.items() if name not in gone})

    def _read(self) -> dict[str, Any]:
        # read anew each time: another process may make other files of the same folder
        entries = dict(read_json(self.file)) if self.file.exists() else {}
        if not all(isinstance(entry, dict) and "scan" in entry for entry in entries.values()):
            raise ValueError(f"{self.file} is no record of what was made here: move it, or give another folder")
        return entries

    def _write(self, entries: Mapping[str, Any]) -> None:
        write_text(self.file, json.dumps(entries, indent=2) + "\n")


def fingerprint(files: Iterable[Path]) -> str:
    """The sha256 of what files hold, whatever they are called and in whichever order they come.

    Raises:
        OSError: One cannot be read.
    """
    return hashlib.sha256("".join(sorted(map(sha256, files))).encode()).hexdigest()
