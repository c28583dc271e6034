"""What is over is deleted after its time or when a person says so, and nothing that is still to be done."""

from pathlib import Path

import pytest
from fredholm.pipelines.gateway.completeness import Arrivals
from fredholm.pipelines.gateway.jobs import Jobs
from fredholm.pipelines.gateway.outbox import Outbox, Retries
from fredholm.pipelines.gateway.retention import delete, expire, retry
from fredholm.pipelines.gateway.spool import Spool
from helpers.gateway import bring, brought, kept, spool, uid, without_gaps

WEEK = 7 * 86_400.0


@pytest.fixture
def here(tmp_path: Path) -> Spool:
    return spool(tmp_path)


def judge(here: Spool, series: int) -> str | None:
    return Arrivals(here).judge(uid(series), without_gaps, 0.0)


def label(_: Path, out: Path) -> list[Path]:
    (out / "seg.dcm").write_bytes(b"x")
    return [out / "seg.dcm"]


def done(here: Spool, series: int, *, deliver: bool = True) -> str:
    brought(here, series, range(3))
    judge(here, series)
    jobs, outbox = Jobs(here, ["pacs"]), Outbox(here)
    job = jobs.next(0.0)
    assert job is not None
    jobs.run(job, label, lambda: 0.0)
    if deliver:
        outbox.sent(outbox.due("pacs", 0.0)[0])
    return job.key


def empty(here: Spool) -> bool:
    files = [path for name in ("series", "results", "work") for path in (here.root / name).rglob("*")]
    tables = ("series", "instances", "refused", "bringing", "deliveries")
    return not files and not any(here.index.rows(f"SELECT * FROM {table}") for table in tables)


def test_a_delivered_series_is_deleted_after_its_time(here: Spool) -> None:
    done(here, 1)
    assert expire(here, WEEK, WEEK) == []
    assert len(kept(here)) == 3
    assert expire(here, WEEK, WEEK + 1) == [uid(1)]
    assert empty(here)


def test_a_deleted_series_that_is_sent_again_is_not_labelled_again(here: Spool) -> None:
    done(here, 1)
    expire(here, WEEK, 2 * WEEK)
    brought(here, 1, range(3))
    assert judge(here, 1) is None
    assert Jobs(here).next(0.0) is None


@pytest.mark.parametrize("state", ["held", "failed", "undelivered"])
def test_what_came_to_nothing_is_deleted_too_and_forgotten(here: Spool, state: str) -> None:
    if state == "undelivered":
        done(here, 1, deliver=False)
        outbox = Outbox(here, Retries(attempts=1))
        outbox.failed(outbox.due("pacs", 0.0)[0], "no", 0.0)
    else:
        brought(here, 1, [0, 1, 3] if state == "held" else range(3))
        judge(here, 1)
    if state == "failed":
        job = Jobs(here).next(0.0)
        assert job is not None
        Jobs(here).fail(job, "no", 0.0)
    assert expire(here, WEEK, 2 * WEEK) == [uid(1)]
    assert empty(here)
    assert not here.index.rows("SELECT * FROM jobs")


@pytest.mark.parametrize("state", ["receiving", "queued", "running", "sending"])
def test_what_is_still_to_be_done_is_not_deleted_by_time(here: Spool, state: str) -> None:
    if state == "receiving":
        bring(here, 1, range(3))
    elif state == "sending":
        done(here, 1, deliver=False)
    else:
        brought(here, 1, range(3))
        judge(here, 1)
    if state == "running":
        assert Jobs(here).next(0.0)
    assert expire(here, WEEK, 2 * WEEK) == []
    assert here.index.rows("SELECT count(*) AS number FROM instances")[0]["number"] == 3


def test_a_person_may_delete_what_is_not_at_work(here: Spool) -> None:
    done(here, 1, deliver=False)
    delete(here, uid(1))
    assert empty(here)
    assert not here.index.rows("SELECT * FROM jobs")
    with pytest.raises(ValueError, match="is known here"):
        delete(here, uid(1))


def test_what_only_a_job_remembers_can_be_forgotten(here: Spool) -> None:
    done(here, 1)
    expire(here, WEEK, 2 * WEEK)
    delete(here, uid(1))
    assert not here.index.rows("SELECT * FROM jobs")


def test_what_is_at_work_is_not_deleted(here: Spool) -> None:
    bring(here, 1, range(3))
    with pytest.raises(ValueError, match="try again later"):
        delete(here, uid(1))
    Arrivals(here).released("a")
    judge(here, 1)
    assert Jobs(here).next(0.0)
    with pytest.raises(ValueError, match="try again later"):
        delete(here, uid(1))
    assert len(kept(here)) == 3


def test_what_was_deleted_does_not_come_back_from_a_journal(here: Spool) -> None:
    brought(here, 1, range(3))
    assert expire(here, 0.0, WEEK) == []  # its objects have no files yet
    delete(here, uid(1))
    here.settle()
    with here.owned():
        assert empty(here)


def test_other_series_stay(here: Spool) -> None:
    key = done(here, 1)
    done(here, 2)
    delete(here, uid(2))
    assert len(kept(here)) == 3
    assert here.results(key).is_dir()


def test_a_held_series_is_taken_for_whole_if_a_person_says_so_and_its_slices_fit(here: Spool) -> None:
    bring(here, 1, range(3))
    Arrivals(here).broken("a")
    assert judge(here, 1)
    retry(here, uid(1), 0.0)
    assert judge(here, 1) is None
    brought(here, 2, [0, 2])
    retry(here, uid(2), 0.0)
    assert judge(here, 2) == "MISSING_SLICES: [0, 2]"


def test_what_failed_is_tried_again_if_a_person_says_so(here: Spool) -> None:
    done(here, 1, deliver=False)
    outbox = Outbox(here, Retries(attempts=1))
    outbox.failed(outbox.due("pacs", 0.0)[0], "no", 0.0)
    retry(here, uid(1), 5.0)
    assert [one.failures for one in outbox.due("pacs", 5.0)] == [0]
    brought(here, 2, range(3))
    judge(here, 2)
    job = Jobs(here).next(0.0)
    assert job is not None
    Jobs(here).fail(job, "no", 0.0)
    retry(here, uid(2), 0.0)
    assert judge(here, 2) is None
    assert Jobs(here).next(0.0) == job


def test_an_unknown_series_is_named(here: Spool) -> None:
    with pytest.raises(ValueError, match=r"no series 1\.2\.3 is kept here"):
        retry(here, "1.2.3", 0.0)
