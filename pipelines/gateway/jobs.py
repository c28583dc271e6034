"""Jobs: each labels one series as it was when it was found whole, and is done once."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .completeness import link_objects
from .journal import flush_folder
from .spool import Spool, discard

Label = Callable[[Path, Path], Sequence[Path]]
"""Labels the series in the first folder and writes to the second, which it finds empty; files `.dcm` there are sent."""


@dataclass(frozen=True)
class Job:
    """One series with one content.

    Args:
        key: Hash of both.
        series: Series instance UID.
        content: Hash of the objects.
    """

    key: str
    series: str
    content: str


class Jobs:
    """The queue of jobs, first come first served.

    Args:
        spool: Where the series lie and results go.
        targets: Names of those whom results are sent to.
        attempts: How often a job may take the whole process down with it before it counts as failed.
    """

    def __init__(self, spool: Spool, targets: Sequence[str] = (), attempts: int = 3) -> None:
        self.spool, self.index, self.targets, self.attempts = spool, spool.index, tuple(targets), attempts

    def recover(self) -> None:
        """Queue what was under way when the process ended."""
        with self.index.change() as db:
            db.execute("UPDATE jobs SET state = 'queued' WHERE state = 'running'")

    def next(self, now: float) -> Job | None:
        """Take the next job whose series is still as it was judged; None if there is none."""
        question = (
            "SELECT key, jobs.series, content, attempts FROM jobs JOIN series ON series.uid = jobs.series"
            " WHERE state = 'queued' AND judged = version AND held IS NULL ORDER BY changed, key"
        )
        for row in self.index.rows(question):
            job = Job(row["key"], row["series"], row["content"])
            if row["attempts"] < self.attempts:
                with self.index.change() as db:
                    db.execute(
                        "UPDATE jobs SET state = 'running', attempts = attempts + 1, changed = ? WHERE key = ?",
                        (now, job.key),
                    )
                return job
            self.fail(job, f"the gateway ended {self.attempts} times while it was under way", now)
        return None

    def run(self, job: Job, label: Label, now: Callable[[], float]) -> list[Path]:
        """Do a job, unless its results are there already; then queue them for sending.

        Returns:
            The files to send; none if something came for the series meanwhile, which then waits to be judged anew.

        Raises:
            Exception: Whatever `label` raises; the job is then still running, for `fail` or `put_back`.
        """
        folder, results = self.spool.root / "work" / job.key, self.spool.results(job.key)
        try:
            if not results.is_dir():
                if link_objects(self.spool, job.series, folder / "scan") != job.content:
                    self.put_back(job, now())
                    return []
                (folder / "out").mkdir()
                label(folder / "scan", folder / "out")
                _settle(folder / "out", results)
        finally:
            discard(folder)
        files = sorted(results.glob("*.dcm"))
        with self.index.change() as db:
            _set(db, job, "done", None, now())
            for file in files:
                for target in self.targets:
                    row = (job.key, file.name, target, now())
                    db.execute("INSERT OR IGNORE INTO deliveries VALUES (?, ?, ?, 'waiting', 0, ?, NULL)", row)
        self.index.flush()
        return files

    def fail(self, job: Job, reason: str, now: float) -> None:
        """Give a job up; the reason must be fit for a log."""
        with self.index.change() as db:
            _set(db, job, "failed", reason, now)

    def put_back(self, job: Job, now: float) -> None:
        """Leave a job for the next start, as if it had not been begun."""
        with self.index.change() as db:
            db.execute(
                "UPDATE jobs SET state = 'queued', attempts = attempts - 1, changed = ? WHERE key = ?", (now, job.key)
            )


def _set(db: sqlite3.Connection, job: Job, state: str, reason: str | None, now: float) -> None:
    db.execute("UPDATE jobs SET state = ?, reason = ?, changed = ? WHERE key = ?", (state, reason, now, job.key))


def _settle(made: Path, results: Path) -> None:
    """Give results their place, once all of them are on the disk."""
    for path in made.rglob("*"):
        if path.is_dir():
            flush_folder(path)
        else:
            with path.open("rb+") as file:
                os.fsync(file.fileno())
    flush_folder(made)
    os.rename(made, results)
    flush_folder(results.parent)
