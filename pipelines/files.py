"""Files that are there whole or not at all: written beside, flushed to disk, then renamed."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
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
        _flush(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def replacing_with_companions(path: Path) -> Iterator[Path]:
    """Give a path named like `path`, in a folder of its own, to write to; other files written beside it come with it.

    On leaving they all take their places next to `path`, and `path` itself the last; after an error none does.

    Raises:
        FileNotFoundError: The folder does not exist.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {path.parent}")
    folder = path.with_name(f".{uuid4().hex}")
    folder.mkdir()
    try:
        yield folder / path.name
        for file in sorted(folder.iterdir(), key=lambda file: file.name == path.name):
            _flush(file)
            os.replace(file, path.with_name(file.name))
    finally:
        shutil.rmtree(folder)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder beside `path` to fill; on leaving it takes `path`'s place, after an error it is removed.

    Raises:
        FileNotFoundError: The folder above does not exist.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {path.parent}")
    beside, earlier = (path.with_name(f".{uuid4().hex}") for _ in range(2))
    beside.mkdir()
    try:
        yield beside
        for file in beside.rglob("*"):
            if file.is_file():
                _flush(file)
        if path.exists():
            os.replace(path, earlier)
        os.replace(beside, path)
    finally:
        if earlier.exists() and not path.exists():
            os.replace(earlier, path)
        for folder in (beside, earlier):
            shutil.rmtree(folder, ignore_errors=True)


def check_target(path: Path, suffixes: Sequence[str]) -> str:
    """The ending of a file that is to be written, one of `suffixes`.

    Raises:
        ValueError: It ends otherwise.
        FileNotFoundError: Its folder does not exist.
    """
    suffix = next((suffix for suffix in suffixes if path.name.lower().endswith(suffix)), None)
    if suffix is None:
        raise ValueError(f"{path}: the name of an image ends in {', '.join(suffixes)}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {path.parent}")
    return suffix


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


def sha256(path: Path) -> str:
    """Of what a file holds, in hexadecimal.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
