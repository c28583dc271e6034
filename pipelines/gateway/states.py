"""What the gateway is doing, as a person or a monitor may see it: UIDs, states, numbers and times."""

import shutil
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from .index import Index

STATES = ("receiving", "waiting", "held", "queued", "running", "failed", "sending", "undelivered", "done")
"""A series is receiving while an association brings it, and waiting until it was quiet for long enough."""

_SERIES = """
SELECT uid, arrived, held, conflicts, judged < version AS unjudged,
    (SELECT count(*) FROM instances WHERE instances.series = series.uid) AS objects,
    (SELECT coalesce(sum(bytes), 0) FROM instances WHERE instances.series = series.uid) AS bytes,
    EXISTS (SELECT 1 FROM bringing WHERE bringing.series = series.uid) AS open,
    (SELECT key FROM jobs WHERE jobs.series = series.uid ORDER BY changed DESC LIMIT 1) AS key
FROM series ORDER BY arrived DESC
"""


@dataclass(frozen=True)
class SeriesState:
    """One series.

    Args:
        uid: Series instance UID.
        state: One of `STATES`.
        reason: Why it is held, failed or not delivered yet.
        objects: How many are kept.
        bytes: Their size.
        conflicts: How often an object came again with other bytes, which were refused.
        arrived: When the last object came, seconds since 1970.
        failures: Failed attempts to deliver its results.
        pages: Files beside its results that a browser shows.
    """

    uid: str
    state: str
    reason: str | None
    objects: int
    bytes: int
    conflicts: int
    arrived: float
    failures: int
    pages: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """All series, the latest first, and the room on the disk."""

    series: tuple[SeriesState, ...]
    free_bytes: int

    def counts(self) -> dict[str, int]:
        """How many series are in each state."""
        found = Counter(one.state for one in self.series)
        return {state: found[state] for state in STATES}

    def plain(self) -> dict[str, object]:
        """For JSON."""
        series = [asdict(one) | {"pages": [page.name for page in one.pages]} for one in self.series]
        return {"counts": self.counts(), "free_bytes": self.free_bytes, "series": series}


def snapshot(index: Index, root: Path) -> Snapshot:
    """The state of every series that is kept."""
    series = tuple(_state(index, root, row) for row in index.rows(_SERIES))
    return Snapshot(series, shutil.disk_usage(root).free)


def _state(index: Index, root: Path, row) -> SeriesState:
    state, reason, failures, pages = "waiting", None, 0, ()
    if row["open"]:
        state = "receiving"
    elif row["unjudged"]:
        state = "waiting"
    elif row["held"]:
        state, reason = "held", row["held"]
    else:
        state, reason, failures = _job_state(index, row["key"])
        pages = tuple(sorted((root / "results" / row["key"]).glob("*.html")))
    counted = (row["objects"], row["bytes"], row["conflicts"], row["arrived"])
    return SeriesState(row["uid"], state, reason, *counted, failures, pages)


def _job_state(index: Index, key: str) -> tuple[str, str | None, int]:
    (job,) = index.rows("SELECT state, reason FROM jobs WHERE key = ?", key)
    if job["state"] != "done":
        return job["state"], job["reason"], 0
    deliveries = index.rows("SELECT state, attempts, reason FROM deliveries WHERE job = ? AND state != 'sent'", key)
    if not deliveries:
        return "done", None, 0
    state = "sending" if any(row["state"] == "waiting" for row in deliveries) else "undelivered"
    reason = next((row["reason"] for row in deliveries if row["reason"]), None)
    return state, reason, sum(row["attempts"] for row in deliveries)
