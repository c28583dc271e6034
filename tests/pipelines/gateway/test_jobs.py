"""Each series with each content is labelled once, whatever happens meanwhile."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from fredholm.pipelines.gateway.completeness import Arrivals
from fredholm.pipelines.gateway.jobs import Job, Jobs
from fredholm.pipelines.gateway.outbox import Outbox
from fredholm.pipelines.gateway.spool import Spool
from helpers.gateway import brought, spool, uid, without_gaps


@pytest.fixture
def here(tmp_path: Path) -> Spool:
    return spool(tmp_path)


class Count:
    """Labels by counting the slices, and remembers that it did."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, series: Path, out: Path) -> Sequence[Path]:
        self.calls.append(len(list(series.iterdir())))
        (out / "seg.dcm").write_text(str(self.calls[-1]))
        (out / "page").mkdir()
        (out / "page" / "index.html").write_text("a page")
        return [out / "seg.dcm"]


def queue(here: Spool, series: int, count: int = 3, now: float = 0.0) -> None:
    brought(here, series, range(count))
    assert Arrivals(here).judge(uid(series), without_gaps, now) is None


def taken(jobs: Jobs) -> Job:
    job = jobs.next(0.0)
    assert job is not None
    return job


def states(here: Spool) -> list[str]:
    return [row["state"] for row in here.index.rows("SELECT state FROM jobs ORDER BY series")]


def now() -> float:
    return 1.0


def test_results_are_kept_and_queued_for_everybody(here: Spool) -> None:
    queue(here, 1)
    jobs, label = Jobs(here, ["pacs", "web"]), Count()
    job = taken(jobs)
    assert jobs.run(job, label, now) == [here.results(job.key) / "seg.dcm"]
    assert (here.results(job.key) / "seg.dcm").read_text() == "3"
    assert (here.results(job.key) / "page" / "index.html").exists()
    assert not list((here.root / "work").iterdir())
    for target in ("pacs", "web"):
        assert [one.path for one in Outbox(here).due(target, 1.0)] == [here.results(job.key) / "seg.dcm"]
    assert states(here) == ["done"]


def test_the_first_that_was_whole_is_the_first_that_is_done(here: Spool) -> None:
    for series, when in ((2, 1.0), (3, 2.0), (1, 3.0)):
        queue(here, series, now=when)
    jobs = Jobs(here)
    assert [taken(jobs).series for _ in range(3)] == [uid(2), uid(3), uid(1)]
    assert jobs.next(0.0) is None


def test_a_series_sent_again_after_its_job_is_not_labelled_again(here: Spool) -> None:
    jobs, label = Jobs(here, ["pacs"]), Count()
    for _ in range(2):
        queue(here, 1)
        job = jobs.next(0.0)
        if job:
            jobs.run(job, label, now)
    assert label.calls == [3]
    assert len(Outbox(here).due("pacs", 1.0)) == 1


def test_a_series_that_grew_after_its_job_is_another_content(here: Spool) -> None:
    jobs, label = Jobs(here), Count()
    for count in (3, 4):
        queue(here, 1, count)
        jobs.run(taken(jobs), label, now)
    assert label.calls == [3, 4]


def test_a_job_whose_series_is_not_as_it_was_judged_waits(here: Spool) -> None:
    queue(here, 1)
    brought(here, 1, [3])
    assert Jobs(here).next(0.0) is None


def test_a_series_that_changes_as_its_job_begins_is_judged_anew(here: Spool) -> None:
    queue(here, 1)
    jobs, label = Jobs(here, attempts=1), Count()
    job = taken(jobs)
    brought(here, 1, [3])
    assert jobs.run(job, label, now) == []
    assert label.calls == []
    queue(here, 1, 4)
    jobs.run(taken(jobs), label, now)
    assert label.calls == [4]


def test_a_job_that_was_under_way_at_a_crash_is_done_after_it(here: Spool) -> None:
    queue(here, 1)
    taken(Jobs(here))
    assert Jobs(here).next(0.0) is None
    Jobs(here).recover()
    label = Count()
    Jobs(here).run(taken(Jobs(here)), label, now)
    assert label.calls == [3]


def test_results_that_a_crash_left_unentered_are_taken_as_they_are(here: Spool) -> None:
    queue(here, 1)
    jobs, label = Jobs(here, ["pacs"]), Count()
    job = taken(jobs)
    here.results(job.key).mkdir()
    (here.results(job.key) / "seg.dcm").write_text("made before the crash")
    jobs.run(job, label, now)
    assert label.calls == []
    assert [one.path.read_text() for one in Outbox(here).due("pacs", 1.0)] == ["made before the crash"]


def test_a_job_that_takes_the_process_down_each_time_is_given_up(here: Spool) -> None:
    queue(here, 1)
    for _ in range(3):
        taken(Jobs(here, attempts=3))
        Jobs(here).recover()
    assert Jobs(here, attempts=3).next(0.0) is None
    assert states(here) == ["failed"]


def test_a_job_that_was_put_back_was_no_attempt(here: Spool) -> None:
    queue(here, 1)
    jobs = Jobs(here, attempts=1)
    for _ in range(3):
        jobs.put_back(taken(jobs), 0.0)
    assert states(here) == ["queued"]


def test_after_an_error_nothing_is_left_behind_and_others_go_on(here: Spool) -> None:
    def fail(_series: Path, out: Path) -> Sequence[Path]:
        (out / "half.dcm").touch()
        raise ValueError("no")

    queue(here, 1)
    queue(here, 2, now=1.0)
    jobs = Jobs(here, ["pacs"])
    job = taken(jobs)
    with pytest.raises(ValueError, match="no"):
        jobs.run(job, fail, now)
    jobs.fail(job, "no", 0.0)
    assert not list((here.root / "work").iterdir())
    assert not list((here.root / "results").iterdir())
    jobs.run(taken(jobs), Count(), now)
    assert states(here) == ["failed", "done"]
    assert len(Outbox(here).due("pacs", 1.0)) == 1
