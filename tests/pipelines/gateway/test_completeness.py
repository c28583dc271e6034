"""A series is queued once it is whole, and held with a reason as long as it may not be."""

from pathlib import Path

import pytest
from fredholm.pipelines.gateway.arrival import RefusedError
from fredholm.pipelines.gateway.completeness import INTERRUPTED, NOTHING, Arrivals
from fredholm.pipelines.gateway.spool import Limits, Spool
from helpers.gateway import arrival, bring, brought, ct, spool, uid, without_gaps


@pytest.fixture
def here(tmp_path: Path) -> Spool:
    return spool(tmp_path)


def queued(here: Spool) -> list[str]:
    return [row["series"] for row in here.index.rows("SELECT series FROM jobs WHERE state = 'queued'")]


def judge(here: Spool, series: int, now: float = 100.0) -> str | None:
    return Arrivals(here).judge(uid(series), without_gaps, now)


def test_a_series_is_due_when_it_was_quiet_and_every_association_has_ended(here: Spool) -> None:
    arrivals = Arrivals(here, quiet_s=60)
    bring(here, 1, range(3), association="a", now=0)
    bring(here, 1, range(3, 5), association="b", now=10)
    assert arrivals.due(1000) == []
    arrivals.released("a")
    assert arrivals.due(1000) == []
    arrivals.released("b")
    assert arrivals.due(69.9) == []
    assert arrivals.due(70) == [uid(1)]


def test_a_repeated_object_starts_the_quiet_time_anew(here: Spool) -> None:
    brought(here, 1, range(3), now=0)
    brought(here, 1, [1], now=50)
    assert Arrivals(here, quiet_s=60).due(100) == []
    assert Arrivals(here, quiet_s=60).due(110) == [uid(1)]


def test_a_whole_series_is_queued_once(here: Spool) -> None:
    brought(here, 1, range(3))
    assert judge(here, 1) is None
    assert Arrivals(here).due(1e9) == []
    brought(here, 1, range(3), now=200)
    assert judge(here, 1) is None
    assert queued(here) == [uid(1)]


def test_a_series_with_a_gap_is_held_with_the_checks_words_until_the_slice_comes(here: Spool) -> None:
    brought(here, 1, [0, 1, 3])
    assert judge(here, 1) == "MISSING_SLICES: [0, 1, 3]"
    assert queued(here) == []
    assert Arrivals(here).due(1e9) == []
    brought(here, 1, [2])
    assert judge(here, 1) is None
    assert queued(here) == [uid(1)]


def test_a_broken_association_holds_a_series_whose_slices_fit(here: Spool) -> None:
    bring(here, 1, range(3))
    assert Arrivals(here).broken("a") == [uid(1)]
    assert Arrivals(here).due(1e9) == [uid(1)]
    assert judge(here, 1) == INTERRUPTED
    brought(here, 1, range(5))
    assert judge(here, 1) is None


def test_an_association_that_went_on_beside_a_broken_one_cannot_vouch_for_it(here: Spool) -> None:
    bring(here, 1, range(3), association="a")
    bring(here, 1, range(3, 5), association="b")
    Arrivals(here).broken("b")
    bring(here, 1, range(5, 7), association="a")
    Arrivals(here).released("a")
    assert judge(here, 1) == INTERRUPTED
    brought(here, 1, range(8))
    assert judge(here, 1) is None


def test_a_broken_association_does_not_touch_other_series(here: Spool) -> None:
    bring(here, 1, range(3), association="a")
    bring(here, 2, range(3), association="b")
    Arrivals(here).broken("a")
    Arrivals(here).released("b")
    assert (judge(here, 1), judge(here, 2)) == (INTERRUPTED, None)


def test_a_refused_object_holds_its_series_until_it_is_taken(here: Spool) -> None:
    brought(here, 1, range(3))
    here.limits = Limits(object_bytes=10)
    with pytest.raises(RefusedError):
        here.keep(arrival(ct(1, 3)), "b", 0.0)
    held = judge(here, 1)
    assert held is not None
    assert "1 of its objects were refused" in held
    here.limits = Limits(free_bytes=0)
    brought(here, 1, [3])
    assert judge(here, 1) is None


def test_a_series_of_which_nothing_is_kept_is_held(here: Spool) -> None:
    brought(here, 1, range(2))
    here.limits = Limits(free_bytes=0)
    other = ct(1, 1)
    other.SeriesInstanceUID = uid(2)
    with pytest.raises(RefusedError):
        here.keep(arrival(other), "a", 0.0)
    assert judge(here, 2) == NOTHING


def test_what_comes_while_a_series_is_judged_makes_it_due_again(here: Spool) -> None:
    def meanwhile(folder: Path) -> None:
        without_gaps(folder)
        brought(here, 1, [3])
        assert len(list(folder.iterdir())) == 3

    brought(here, 1, range(3))
    Arrivals(here).judge(uid(1), meanwhile, 0.0)
    assert Arrivals(here).due(1e9) == [uid(1)]


def test_a_later_content_takes_the_place_of_a_queued_one(here: Spool) -> None:
    brought(here, 1, range(3))
    judge(here, 1)
    brought(here, 1, [3])
    judge(here, 1)
    assert queued(here) == [uid(1)]


def test_an_error_that_is_no_verdict_leaves_the_series_due_and_the_folder_clean(here: Spool) -> None:
    def broken(_: Path) -> None:
        raise RuntimeError("a bug")

    brought(here, 1, range(3))
    with pytest.raises(RuntimeError):
        Arrivals(here).judge(uid(1), broken, 0.0)
    assert Arrivals(here).due(1e9) == [uid(1)]
    assert not list((here.root / "work").iterdir())
