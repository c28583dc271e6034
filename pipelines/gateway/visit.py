"""Objects that another process brings while a gateway serves, such as a command that fetches them.

A file in `visits/`, locked for as long as that process lives, stands for it: so the gateway hears of its death.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from .completeness import Arrivals
from .spool import Spool


@contextmanager
def visit(spool: Spool) -> Iterator[str]:
    """Bring objects within the block, under the association that it gives; after an error some count as missing."""
    association, arrivals = uuid4().hex, Arrivals(spool)
    path = spool.root / "visits" / association
    with path.open("x") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield association
            arrivals.released(association)
        finally:
            arrivals.broken(association)  # nothing, once it is released
            path.unlink()


def end_visits_of_the_dead(arrivals: Arrivals) -> list[str]:
    """Hear of visitors that died; the series that they may have left in part."""
    left = []
    for row in arrivals.index.rows("SELECT DISTINCT association FROM bringing"):
        path = arrivals.spool.root / "visits" / row["association"]
        if path.is_file() and not _is_locked(path):
            left += arrivals.broken(row["association"])
            path.unlink(missing_ok=True)
    return left


def _is_locked(path: Path) -> bool:
    with path.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
