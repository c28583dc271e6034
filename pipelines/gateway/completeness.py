"""When a series is whole: nothing more comes, nobody broke off, no object was refused, and its slices fit.

DICOM has no word for "that was all". So a series is judged once it was quiet for a while and every association that
brought it has ended; it is held, with a reason, rather than labelled in part. A held series is judged anew with
whatever comes for it.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from .index import interrupt, touch
from .spool import Spool, discard

INTERRUPTED = "an association broke while it brought this series: send the series again"
NOTHING = "none of its objects was kept"

Check = Callable[[Path], None]
"""Looks at a folder of objects and raises a ValueError, in words fit for a log, unless they are a whole series."""


class Arrivals:
    """Follows series from their first object until they are queued.

    Args:
        spool: Where they lie.
        quiet_s: Seconds without a new object after which a series may be whole.
    """

    def __init__(self, spool: Spool, quiet_s: float = 60.0) -> None:
        self.spool, self.index, self.quiet_s = spool, spool.index, quiet_s

    def released(self, association: str) -> None:
        """An association ended as it should; what it brought is no longer interrupted unless one beside it broke."""
        self.spool.end(association)
        with self.index.change() as db:
            brought = db.execute("SELECT series, clean FROM bringing WHERE association = ?", (association,)).fetchall()
            for row in brought:
                if row["clean"]:
                    db.execute("UPDATE series SET interrupted = 0 WHERE uid = ?", (row["series"],))
                touch(db, row["series"])
            db.execute("DELETE FROM bringing WHERE association = ?", (association,))
        self.index.flush()

    def broken(self, association: str) -> list[str]:
        """An association ended in any other way; the series that it may have left in part."""
        self.spool.end(association)
        with self.index.change() as db:
            brought = db.execute("SELECT series FROM bringing WHERE association = ?", (association,)).fetchall()
            db.execute("DELETE FROM bringing WHERE association = ?", (association,))
            for row in brought:
                interrupt(db, row["series"])
        return [row["series"] for row in brought]

    def due(self, now: float) -> list[str]:
        """Series to be judged, the one that waits longest first."""
        self.spool.write_notes()
        question = (
            "SELECT uid FROM series WHERE judged < version AND arrived <= ?"
            " AND NOT EXISTS (SELECT 1 FROM bringing WHERE bringing.series = series.uid) ORDER BY arrived"
        )
        return [row["uid"] for row in self.index.rows(question, now - self.quiet_s)]

    def judge(self, series: str, check: Check, now: float) -> str | None:
        """Queue a job for a series, or hold it.

        Args:
            series: Its UID.
            check: Looks at its objects.
            now: Seconds since 1970.

        Returns:
            Why it is held, or None. If something came for it meanwhile it will be due again.
        """
        (row,) = self.index.rows("SELECT version, interrupted FROM series WHERE uid = ?", series)
        folder = self.spool.root / "work" / f"check-{series}"
        try:
            content = link_objects(self.spool, series, folder)
            held = INTERRUPTED if row["interrupted"] else self._missing(series) or _fault(check, folder)
        finally:
            discard(folder)
        with self.index.change() as db:
            db.execute("UPDATE series SET judged = ?, held = ? WHERE uid = ?", (row["version"], held, series))
            if held is None:
                key = hashlib.sha256(f"{series} {content}".encode()).hexdigest()
                db.execute("DELETE FROM jobs WHERE series = ? AND state = 'queued' AND key != ?", (series, key))
                job = (key, series, content, now)
                db.execute("INSERT OR IGNORE INTO jobs VALUES (?, ?, ?, 'queued', 0, NULL, ?)", job)
        return held

    def _missing(self, series: str) -> str | None:
        (refused,) = self.index.rows("SELECT count(*) AS number FROM refused WHERE series = ?", series)
        (kept,) = self.index.rows("SELECT count(*) AS number FROM instances WHERE series = ?", series)
        if refused["number"]:
            return f"{refused['number']} of its objects were refused: send the series again"
        return None if kept["number"] else NOTHING


def link_objects(spool: Spool, series: str, folder: Path) -> str:
    """Give a folder the objects of a series, as hard links, so that what arrives or is deleted later changes nothing.

    Returns:
        A hash of their UIDs and bytes.
    """
    spool.settle()
    folder.mkdir(parents=True)
    content = hashlib.sha256()
    # what is in a journal after that has just come, and its series will be judged anew
    question = "SELECT uid, sha256 FROM instances WHERE series = ? AND journal IS NULL ORDER BY uid"
    for row in spool.index.rows(question, series):
        os.link(spool.path(series, row["uid"]), folder / f"{row['uid']}.dcm")
        content.update(f"{row['uid']} {row['sha256']}\n".encode())
    return content.hexdigest()


def _fault(check: Check, folder: Path) -> str | None:
    try:
        check(folder)
    except ValueError as fault:
        return str(fault)
    return None
