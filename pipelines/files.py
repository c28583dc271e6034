"""Files that are there whole or not at all: written beside, flushed to disk, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write to; on leaving it takes `path`'s place, after an error it is removed.

    An earlier file at `path` stays until then, and stays for good if anything fails, an interrupt included. The path
    given has the same endings as `path`.

    Raises:
        FileNotFoundError: The folder does not exist.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {path.parent}")
    beside = path.with_name(f".{uuid4().hex}{''.join(path.suffixes[-2:])}")
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")
