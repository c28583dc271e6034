"""Where objects lie on disk, and the promise that what was acknowledged is kept.

incoming/              objects while they are written; emptied at the start
series/SERIES/SOP.dcm  objects, each whole: written, flushed to the disk, renamed, the folder flushed
work/                  jobs under way; emptied at the start
results/KEY/           what a job made, whole
visits/                a file for each process that brings objects beside the gateway
index.sqlite           what is known of all these
lock                   held while a gateway serves
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

from .arrival import Arrival, Reason, RefusedError, is_uid
from .index import Index, interrupt, touch

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Limits:
    """What is refused for its size.

    Args:
        object_bytes: Largest data set that is taken.
        free_bytes: What must stay free on the spool's disk.
    """

    object_bytes: int = 1 << 30
    free_bytes: int = 1 << 30


class Spool:
    """The folder of a gateway, with its index.

    Args:
        root: The folder; made, for this user alone, if it is not there.
        limits: What is refused for its size.
    """

    def __init__(self, root: Path, limits: Limits | None = None) -> None:
        self.root, self.limits = root, limits or Limits()
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in ("incoming", "series", "work", "results", "visits"):
            (root / name).mkdir(exist_ok=True)
        self.index = Index(root / "index.sqlite")
        self._notes: list[tuple[Reason, str, str, float]] = []
        self._noting = threading.Lock()

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Serve from this folder, alone, after repairing what a crash left.

        Raises:
            BlockingIOError: Another gateway serves from it.
        """
        with (self.root / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BlockingIOError(f"another gateway serves from {self.root}") from None
            self._repair()
            yield

    def path(self, series: str, uid: str) -> Path:
        """Where an object lies."""
        return self.root / "series" / series / f"{uid}.dcm"

    def results(self, key: str) -> Path:
        """Where the results of a job lie."""
        return self.root / "results" / key

    def keep(self, arrival: Arrival, association: str, now: float) -> Literal["new", "repeated"]:
        """Keep an object so that it survives a crash of the process, of the machine and of its power.

        Args:
            arrival: The object.
            association: What brought it, until `Arrivals` hears that it ended.
            now: Seconds since 1970.

        Returns:
            "repeated" if the same bytes were here already; that counts as new activity of the series all the same.

        Raises:
            RefusedError: It is too large, the disk is full, or its UID stands for other bytes, of which the first stay.
                All but the last leave word that the series misses an object.
        """
        try:
            return self._kept_or_refused(arrival, association, now)
        except RefusedError as refused:
            self._notes.append((refused.reason, arrival.series, arrival.uid, now))
            self.write_notes()
            raise

    def _kept_or_refused(self, arrival: Arrival, association: str, now: float) -> Literal["new", "repeated"]:
        try:
            self._check_room(len(arrival.data))
            return self._keep(arrival, association, now)
        except (OSError, sqlite3.OperationalError) as error:
            if not _is_full(error):
                raise
            raise RefusedError(Reason.DISK_FULL) from None

    def _keep(self, arrival: Arrival, association: str, now: float) -> Literal["new", "repeated"]:
        preamble, path = arrival.preamble(), self.path(arrival.series, arrival.uid)
        with self._written(preamble, arrival.data) as (beside, digest), self.index.change() as db:
            db.execute(
                "INSERT INTO series (uid, arrived) VALUES (?1, ?2)"
                " ON CONFLICT DO UPDATE SET arrived = ?2, version = version + 1",
                (arrival.series, now),
            )
            db.execute("INSERT OR IGNORE INTO bringing VALUES (?, ?, 1)", (association, arrival.series))
            known = db.execute("SELECT series, sha256 FROM instances WHERE uid = ?", (arrival.uid,)).fetchone()
            if known is not None:
                if tuple(known) != (arrival.series, digest):
                    raise RefusedError(Reason.OTHER_BYTES)
                return "repeated"
            size = len(preamble) + len(arrival.data)
            db.execute("INSERT INTO instances VALUES (?, ?, ?, ?)", (arrival.uid, arrival.series, digest, size))
            db.execute("DELETE FROM refused WHERE uid = ?", (arrival.uid,))
            _move(beside, path)
        return "new"

    @contextmanager
    def _written(self, *parts: bytes | memoryview) -> Iterator[tuple[Path, str]]:
        """A file in `incoming`, on the disk, and its hash; removed unless it was moved away."""
        beside, sha256 = self.root / "incoming" / uuid4().hex, hashlib.sha256()
        try:
            with beside.open("xb", buffering=0) as file:
                for part in parts:
                    _write(file.fileno(), part)
                _begin_flush(file.fileno())
                for part in parts:
                    sha256.update(part)
                os.fsync(file.fileno())
            yield beside, sha256.hexdigest()
        finally:
            beside.unlink(missing_ok=True)

    def _check_room(self, size: int) -> None:
        if size > self.limits.object_bytes:
            raise RefusedError(Reason.TOO_LARGE)
        if shutil.disk_usage(self.root).free - size < self.limits.free_bytes:
            raise RefusedError(Reason.DISK_FULL)

    def write_notes(self) -> None:
        """Enter which objects were refused; where the disk is too full for that, it is put off."""
        with self._noting, contextlib.suppress(sqlite3.OperationalError):
            notes = tuple(self._notes)
            self._enter(notes)
            del self._notes[: len(notes)]

    def _enter(self, notes: Sequence[tuple[Reason, str, str, float]]) -> None:
        with self.index.change() as db:
            for reason, series, uid, now in notes:
                db.execute("INSERT OR IGNORE INTO series (uid, arrived) VALUES (?, ?)", (series, now))
                if reason is Reason.OTHER_BYTES:
                    db.execute("UPDATE series SET conflicts = conflicts + 1 WHERE uid = ?", (series,))
                elif not db.execute("SELECT 1 FROM instances WHERE uid = ?", (uid,)).fetchone():
                    db.execute("INSERT OR IGNORE INTO refused VALUES (?, ?)", (uid, series))
                    touch(db, series)

    def _repair(self) -> None:
        """Make the index say what the disk holds, and mark as interrupted what a crash interrupted."""
        for name in ("incoming", "work"):
            for path in (self.root / name).iterdir():
                discard(path)
        with self.index.change() as db:
            for row in db.execute("SELECT DISTINCT series FROM bringing").fetchall():
                interrupt(db, row["series"])
            db.execute("DELETE FROM bringing")
            entered = {(row["series"], row["uid"]): row["bytes"] for row in db.execute("SELECT * FROM instances")}
            found = {(path.parent.name, path.stem): path for path in (self.root / "series").glob("*/*.dcm")}
            for series, uid in entered:
                path = found.get((series, uid))
                if path is None or path.stat().st_size != entered[series, uid]:
                    db.execute("DELETE FROM instances WHERE uid = ?", (uid,))
                    interrupt(db, series)
            for series, uid in found.keys() - entered.keys():
                if is_uid(series) and is_uid(uid):
                    _adopt(db, series, uid, found[series, uid])


def _adopt(db: sqlite3.Connection, series: str, uid: str, path: Path) -> None:
    """Enter a file that a crash left unentered; whether its series is whole is not known then."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    db.execute("INSERT OR IGNORE INTO series (uid, arrived) VALUES (?, ?)", (series, path.stat().st_mtime))
    db.execute("INSERT OR IGNORE INTO instances VALUES (?, ?, ?, ?)", (uid, series, digest, path.stat().st_size))
    interrupt(db, series)


def _move(source: Path, target: Path) -> None:
    """Rename, and let the disk know of it before anybody else does."""
    if not target.parent.is_dir():
        target.parent.mkdir()
        flush_folder(target.parent.parent)
    os.rename(source, target)
    flush_folder(target.parent)


def flush_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk itself."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, part: bytes | memoryview) -> None:
    rest = memoryview(part)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _begin_flush(descriptor: int) -> None:
    """Have the disk begin with what was written, while there is something else to do; `fsync` waits for it."""
    if hasattr(os, "posix_fadvise"):  # not on macOS
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def discard(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_full(error: OSError | sqlite3.OperationalError) -> bool:
    if isinstance(error, OSError):
        return error.errno in FULL
    return error.sqlite_errorcode in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
