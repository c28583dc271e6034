"""Where objects lie on disk, and the promise that what was acknowledged is kept.

journal/               objects as they came, each flushed to the disk before it is answered
incoming/              objects on their way from there to files of their own; emptied at the start
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .arrival import Arrival, Reason, RefusedError, is_uid
from .index import Index, interrupt, touch
from .journal import SPARES, Journal, Journals, Record, flush_folder

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
        ready_bytes: What to lay out beforehand for objects that come, see `Journals`.
    """

    def __init__(self, root: Path, limits: Limits | None = None, ready_bytes: int = 0) -> None:
        self.root, self.limits = root, limits or Limits()
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in ("incoming", "series", "work", "results", "visits"):
            (root / name).mkdir(exist_ok=True)
        self.index = Index(root / "index.sqlite")
        self.journals = Journals(root / "journal", ready_bytes)
        self._open = dict[str, Journal]()
        self._notes: list[tuple[Reason, str, str, float]] = []
        self._noting, self._settling = threading.Lock(), threading.Lock()

    def close(self) -> None:
        """Close the files."""
        for association in list(self._open):
            self.end(association)
        self.index.close()

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
            if self._free() - SPARES * self.journals.ready_bytes > self.limits.free_bytes:
                self.journals.lay_out()
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

    def end(self, association: str) -> None:
        """Nothing more comes from an association; what it brought can have files of its own."""
        journal = self._open.pop(association, None)
        if journal is not None:
            journal.close()

    def settle(self) -> None:
        """Give objects that associations brought, which have ended, files of their own.

        Raises:
            OSError: The disk is full or broken; all stays in the journals, for another time.
        """
        with self._settling:
            for journal in self.journals.over():
                self._unpack(journal)
                self.journals.lay_back(journal)

    def _kept_or_refused(self, arrival: Arrival, association: str, now: float) -> Literal["new", "repeated"]:
        try:
            self._check_room(len(arrival.data), association)
            return self._keep(arrival, association, now)
        except (OSError, sqlite3.OperationalError) as error:
            if not _is_full(error):
                raise
            raise RefusedError(Reason.DISK_FULL) from None

    def _keep(self, arrival: Arrival, association: str, now: float) -> Literal["new", "repeated"]:
        journal = self._journal(association)
        sha256, length = journal.write(arrival.preamble(), arrival.data)
        with self.index.change() as db:
            db.execute(
                "INSERT INTO series (uid, arrived) VALUES (?1, ?2)"
                " ON CONFLICT DO UPDATE SET arrived = ?2, version = version + 1",
                (arrival.series, now),
            )
            db.execute("INSERT OR IGNORE INTO bringing VALUES (?, ?, 1)", (association, arrival.series))
            known = db.execute("SELECT series, sha256 FROM instances WHERE uid = ?", (arrival.uid,)).fetchone()
            if known is not None and tuple(known) != (arrival.series, sha256):
                raise RefusedError(Reason.OTHER_BYTES)
            db.execute("DELETE FROM refused WHERE uid = ?", (arrival.uid,))
            if known is not None:
                return "repeated"
            row = (arrival.uid, arrival.series, sha256, length, journal.name)
            db.execute("INSERT INTO instances VALUES (?, ?, ?, ?, ?)", row)
            journal.commit(arrival.uid, arrival.series, sha256, length)
        return "new"

    def _journal(self, association: str) -> Journal:
        if association not in self._open:
            self._open[association] = self.journals.take()
        return self._open[association]

    def _check_room(self, size: int, association: str) -> None:
        """Whether there is room for an object, and for files for all that is still in its journal."""
        if size > self.limits.object_bytes:
            raise RefusedError(Reason.TOO_LARGE)
        waiting = self._open[association].end if association in self._open else 0
        if self._free() - waiting - size < self.limits.free_bytes:
            raise RefusedError(Reason.DISK_FULL)

    def _free(self) -> int:
        return shutil.disk_usage(self.root).free

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

    def _unpack(self, journal: Journal) -> None:
        """Give the objects of a journal files of their own; to do it twice, or after a crash, changes nothing more."""
        folder = self.root / "incoming" / journal.name
        discard(folder)
        folder.mkdir()
        try:
            copied = [record for record in journal.records() if self._copied(journal, record, folder)]
            paths = {_beside(folder, record): self.path(record.series, record.uid) for record in copied}
            _move(paths)
        finally:
            discard(folder)
        self._enter_settled(journal.name, paths.values())

    def _copied(self, journal: Journal, record: Record, folder: Path) -> bool:
        """Whether an object is whole, and the first of its UID; then it is in the folder."""
        known = self.index.rows("SELECT series, sha256 FROM instances WHERE uid = ?", record.uid)
        if known and tuple(known[0]) != (record.series, record.sha256):
            return False
        return journal.copy(record, _beside(folder, record))

    def _enter_settled(self, journal: str, paths: Iterable[Path]) -> None:
        with self.index.change() as db:
            for path in paths:
                settled = db.execute("UPDATE instances SET journal = NULL WHERE uid = ?", (path.stem,))
                if not settled.rowcount:
                    _adopt(db, path)
            _drop(db, db.execute("SELECT uid, series FROM instances WHERE journal = ?", (journal,)).fetchall())

    def _repair(self) -> None:
        """Make the index say what the disk holds, and mark as interrupted what a crash interrupted."""
        self.settle()
        open_ = self.journals.names()  # of commands that fetch
        for path in (*(self.root / "incoming").iterdir(), *(self.root / "work").iterdir()):
            if path.name not in open_:
                discard(path)
        with self.index.change() as db:
            for row in db.execute("SELECT DISTINCT series FROM bringing").fetchall():
                interrupt(db, row["series"])
            db.execute("DELETE FROM bringing")
            entered = [row for row in db.execute("SELECT * FROM instances") if row["journal"] not in open_]
            db.executemany("UPDATE instances SET journal = NULL WHERE uid = ?", [(row["uid"],) for row in entered])
            _drop(db, [row for row in entered if not _is_there(row, self.path(row["series"], row["uid"]))])
            known = {(row["series"], row["uid"]) for row in entered}
            for path in (self.root / "series").glob("*/*.dcm"):
                if (path.parent.name, path.stem) not in known and is_uid(path.parent.name) and is_uid(path.stem):
                    _adopt(db, path)


def _is_there(row: sqlite3.Row, path: Path) -> bool:
    return path.is_file() and path.stat().st_size == row["bytes"]


def _drop(db: sqlite3.Connection, rows: Iterable[sqlite3.Row]) -> None:
    """Forget objects that are not there; their series miss them."""
    for row in rows:
        db.execute("DELETE FROM instances WHERE uid = ?", (row["uid"],))
        interrupt(db, row["series"])


def _adopt(db: sqlite3.Connection, path: Path) -> None:
    """Enter a file that a crash left unentered; whether its series is whole is not known then."""
    series, uid, status = path.parent.name, path.stem, path.stat()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    db.execute("INSERT OR IGNORE INTO series (uid, arrived) VALUES (?, ?)", (series, status.st_mtime))
    db.execute("INSERT OR IGNORE INTO instances VALUES (?, ?, ?, ?, NULL)", (uid, series, digest, status.st_size))
    interrupt(db, series)


def _beside(folder: Path, record: Record) -> Path:
    return folder / f"{record.start}"


def _move(paths: Mapping[Path, Path]) -> None:
    """Bring files to the disk, and then rename them: what has its name is whole."""
    for source in paths:
        with source.open("rb+") as file:
            os.fsync(file.fileno())
    for folder in {target.parent for target in paths.values()}:
        if not folder.is_dir():
            folder.mkdir()
            flush_folder(folder.parent)
    for source, target in paths.items():
        os.rename(source, target)
    for folder in {target.parent for target in paths.values()}:
        flush_folder(folder)


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
