"""What the gateway knows, in one SQLite file: UIDs, hashes, states and times, nothing of the patient."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS series (
    uid TEXT PRIMARY KEY,
    arrived REAL NOT NULL,                   -- when the last object came, a repeated one included
    interrupted INTEGER NOT NULL DEFAULT 0,  -- an association broke while it brought objects
    version INTEGER NOT NULL DEFAULT 1,      -- one more with each thing that happens to it
    judged INTEGER NOT NULL DEFAULT 0,       -- the version that was last found whole, or held
    held TEXT,                               -- why it is not queued
    conflicts INTEGER NOT NULL DEFAULT 0     -- objects that came again with other bytes
);
CREATE TABLE IF NOT EXISTS instances (
    uid TEXT PRIMARY KEY,
    series TEXT NOT NULL REFERENCES series (uid),
    sha256 TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    journal TEXT                             -- where it is, as long as it has no file of its own
);
CREATE INDEX IF NOT EXISTS instances_of_series ON instances (series);
CREATE INDEX IF NOT EXISTS instances_in_journals ON instances (journal) WHERE journal IS NOT NULL;
CREATE TABLE IF NOT EXISTS refused (         -- objects that we know to be missing
    uid TEXT PRIMARY KEY,
    series TEXT NOT NULL REFERENCES series (uid)
);
CREATE TABLE IF NOT EXISTS bringing (        -- open associations and the series they brought objects of
    association TEXT NOT NULL,
    series TEXT NOT NULL REFERENCES series (uid),
    clean INTEGER NOT NULL DEFAULT 1,        -- no other one broke meanwhile
    PRIMARY KEY (association, series)
);
CREATE TABLE IF NOT EXISTS jobs (
    key TEXT PRIMARY KEY,
    series TEXT NOT NULL,                    -- outlives the series, so that nothing is done twice
    content TEXT NOT NULL,                   -- hash of its objects
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    changed REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS deliveries (
    job TEXT NOT NULL REFERENCES jobs (key),
    file TEXT NOT NULL,
    target TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due REAL NOT NULL,
    reason TEXT,
    PRIMARY KEY (job, file, target)
);
"""


class Index:
    """The index file, for any number of threads, and of processes beside.

    Args:
        path: The file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        # A lost commit after a power failure is made good from the files; `flush` marks what should not be lost.
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(SCHEMA)

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of the block or, after an error, none of it; a block within a block joins it."""
        with self._lock:
            if self._db.in_transaction:
                yield self._db
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite itself rolls back where the disk is full
                    self._db.execute("ROLLBACK")
                raise

    def rows(self, question: str, *values: object) -> list[sqlite3.Row]:
        """The answer to a question."""
        with self._lock:
            return self._db.execute(question, values).fetchall()

    def flush(self) -> None:
        """Bring what was committed to the disk itself."""
        with self._lock:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()


def touch(db: sqlite3.Connection, series: str) -> None:
    """Something happened to a series: it is to be judged anew."""
    db.execute("UPDATE series SET version = version + 1 WHERE uid = ?", (series,))


def interrupt(db: sqlite3.Connection, series: str) -> None:
    """A series may miss objects, until an association that began later brings some and is released."""
    db.execute("UPDATE series SET interrupted = 1, version = version + 1 WHERE uid = ?", (series,))
    db.execute("UPDATE bringing SET clean = 0 WHERE series = ?", (series,))
