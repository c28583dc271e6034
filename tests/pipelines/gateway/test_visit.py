"""What a process beside the gateway brings is whole if that process says so, and is held if it dies."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fredholm.pipelines.gateway.completeness import INTERRUPTED, Arrivals
from fredholm.pipelines.gateway.spool import Spool
from fredholm.pipelines.gateway.visit import end_visits_of_the_dead, visit
from helpers import gateway
from helpers.gateway import bring, spool, uid, without_gaps

VISITOR = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from helpers.gateway import bring, spool
from fredholm.pipelines.gateway.visit import visit
here = spool(Path(sys.argv[2]))
with visit(here) as association:
    bring(here, 1, [1, 2], association=association)
    print("brought", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def here(tmp_path: Path) -> Spool:
    return spool(tmp_path)


def verdict(here: Spool) -> str | None:
    (due,) = Arrivals(here, quiet_s=1).due(1000)
    return Arrivals(here).judge(due, without_gaps, 1000)


def test_it_is_judged_once_the_visit_is_over(here: Spool) -> None:
    with visit(here) as association:
        bring(here, 1, range(3), association=association)
        assert Arrivals(here, quiet_s=1).due(1000) == []
        assert end_visits_of_the_dead(Arrivals(here)) == []
    assert verdict(here) is None
    assert not list((here.root / "visits").iterdir())


def test_an_error_means_that_some_is_missing(here: Spool) -> None:
    def breaking_off() -> Iterator[int]:
        yield from range(3)
        raise KeyError

    with pytest.raises(KeyError), visit(here) as association:
        bring(here, 1, breaking_off(), association=association)
    assert verdict(here) == INTERRUPTED


def test_a_visitor_that_was_killed_is_noticed(tmp_path: Path, here: Spool) -> None:
    command = [sys.executable, "-c", VISITOR, str(Path(gateway.__file__).parents[1]), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as visitor:
        assert visitor.stdout is not None
        assert visitor.stdout.readline() == b"brought\n"
        assert end_visits_of_the_dead(Arrivals(here)) == []
        visitor.kill()
        visitor.wait()
    assert end_visits_of_the_dead(Arrivals(here)) == [uid(1)]
    assert verdict(here) == INTERRUPTED
    assert not list((here.root / "visits").iterdir())


def test_other_associations_are_none_of_its_business(here: Spool) -> None:
    bring(here, 1, range(3), association="a")
    assert end_visits_of_the_dead(Arrivals(here)) == []
    assert Arrivals(here, quiet_s=1).due(1000) == []
