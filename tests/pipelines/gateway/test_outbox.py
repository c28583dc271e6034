"""A result is tried again and again, ever more seldom, but not for ever."""

from pathlib import Path

import pytest
from fredholm.pipelines.gateway.completeness import Arrivals
from fredholm.pipelines.gateway.jobs import Jobs
from fredholm.pipelines.gateway.outbox import Outbox, Retries
from fredholm.pipelines.gateway.spool import Spool
from helpers.gateway import brought, spool, uid, without_gaps


@pytest.fixture
def here(tmp_path: Path) -> Spool:
    made = spool(tmp_path)
    brought(made, 1, range(2))
    Arrivals(made).judge(uid(1), without_gaps, 0.0)
    jobs = Jobs(made, ["pacs", "web"])
    job = jobs.next(0.0)
    assert job is not None
    jobs.run(job, lambda _, out: [(out / "seg.dcm").write_bytes(b"x") and out / "seg.dcm"], lambda: 0.0)
    return made


def test_each_wait_is_twice_as_long_up_to_a_limit() -> None:
    retries = Retries(first_s=10, longest_s=60)
    assert [retries.wait_s(failures) for failures in (1, 2, 3, 4, 5, 10_000)] == [10, 20, 40, 60, 60, 60]


def test_the_usual_retries_outlast_a_day() -> None:
    retries = Retries()
    assert sum(retries.wait_s(failures) for failures in range(1, retries.attempts)) > 24 * 3600


def test_what_failed_is_due_after_its_wait_and_given_up_after_its_attempts(here: Spool) -> None:
    outbox, now = Outbox(here, Retries(attempts=3, first_s=10)), 0.0
    for wait in (10.0, 20.0):
        (delivery,) = outbox.due("pacs", now)
        assert outbox.failed(delivery, "REFUSED", now)
        assert outbox.due("pacs", now + wait - 0.1) == []
        now += wait
    (delivery,) = outbox.due("pacs", now)
    assert not outbox.failed(delivery, "REFUSED", now)
    assert outbox.due("pacs", 1e9) == []
    (row,) = here.index.rows("SELECT * FROM deliveries WHERE target = 'pacs'")
    assert (row["state"], row["attempts"], row["reason"]) == ("failed", 3, "REFUSED")


def test_receivers_do_not_wait_for_each_other(here: Spool) -> None:
    outbox = Outbox(here)
    outbox.failed(outbox.due("pacs", 0.0)[0], "REFUSED", 0.0)
    (delivery,) = outbox.due("web", 0.0)
    outbox.sent(delivery)
    assert outbox.due("web", 1e9) == []
    assert len(outbox.due("pacs", 1e9)) == 1
