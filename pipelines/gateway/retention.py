"""Deleting, by a person or by time, and trying again."""

import os
from uuid import uuid4

from .spool import Spool, discard

_AT_WORK = (
    "(EXISTS (SELECT 1 FROM bringing WHERE series = ?1)"
    " OR EXISTS (SELECT 1 FROM instances WHERE series = ?1 AND journal IS NOT NULL)"
    " OR EXISTS (SELECT 1 FROM jobs WHERE series = ?1 AND state = 'running'))"
)
_UNDONE = (
    f"({_AT_WORK} OR EXISTS (SELECT 1 FROM jobs WHERE series = ?1 AND state = 'queued')"
    " OR EXISTS (SELECT 1 FROM jobs JOIN deliveries ON job = key WHERE series = ?1 AND deliveries.state = 'waiting'))"
)
_NOT_DELIVERED = "(state != 'done' OR EXISTS (SELECT 1 FROM deliveries WHERE job = key AND state != 'sent'))"


def expire(spool: Spool, keep_s: float, now: float) -> list[str]:
    """Delete the objects and results of series for which nothing came since, unless something is still to be done.

    Held and failed ones are deleted too. Of a job whose results were delivered the key is remembered, so that the same
    series, sent again, is not labelled again.

    Args:
        spool: Where they lie.
        keep_s: Seconds since the last object of a series came.
        now: Seconds since 1970.

    Returns:
        The UIDs of the deleted series.
    """
    old = [row["uid"] for row in spool.index.rows("SELECT uid FROM series WHERE arrived < ?", now - keep_s)]
    return [series for series in old if _delete(spool, series, unless=_UNDONE, jobs=_NOT_DELIVERED)]


def delete(spool: Spool, series: str) -> None:
    """Delete a series, its results, what was to be sent of it, and every memory of it.

    Raises:
        ValueError: It is not known, or it is just being brought or labelled.
    """
    if not spool.index.rows("SELECT 1 FROM series WHERE uid = ?1 UNION SELECT 1 FROM jobs WHERE series = ?1", series):
        raise ValueError(f"no series {series} is known here")
    spool.settle()
    if not _delete(spool, series, unless=_AT_WORK, jobs="1"):
        raise ValueError(f"series {series} is just being brought or labelled: try again later")


def retry(spool: Spool, series: str, now: float) -> None:
    """Try again what failed of a series; a held one is taken for all that there is, if its slices fit.

    Raises:
        ValueError: It is not kept here.
    """
    with spool.index.change() as db:
        known = db.execute("UPDATE series SET interrupted = 0, version = version + 1 WHERE uid = ?", (series,))
        if not known.rowcount:
            raise ValueError(f"no series {series} is kept here")
        db.execute("DELETE FROM refused WHERE series = ?", (series,))
        db.execute(
            "UPDATE jobs SET state = 'queued', attempts = 0, reason = NULL, changed = ?"
            " WHERE series = ? AND state = 'failed'",
            (now, series),
        )
        db.execute(
            "UPDATE deliveries SET state = 'waiting', attempts = 0, due = ? WHERE state = 'failed'"
            " AND job IN (SELECT key FROM jobs WHERE series = ?)",
            (now, series),
        )


def _delete(spool: Spool, series: str, *, unless: str, jobs: str) -> bool:
    """Files go out of sight first; a crash then leaves rows without files, which the next start mends."""
    bin_ = spool.root / "work" / f"bin-{uuid4().hex}"
    with spool.index.change() as db:
        if db.execute(f"SELECT 1 WHERE {unless}", (series,)).fetchone():
            return False
        bin_.mkdir()
        keys = [row["key"] for row in db.execute("SELECT key FROM jobs WHERE series = ?", (series,))]
        for path in (spool.root / "series" / series, *(spool.results(key) for key in keys)):
            if path.is_dir():
                os.rename(path, bin_ / path.name)
        db.execute(f"DELETE FROM jobs WHERE series = ? AND {jobs}", (series,))
        db.executemany("DELETE FROM deliveries WHERE job = ?", [(key,) for key in keys])
        for table in ("instances", "refused", "bringing"):
            db.execute(f"DELETE FROM {table} WHERE series = ?", (series,))
        db.execute("DELETE FROM series WHERE uid = ?", (series,))
    discard(bin_)
    return True
