"""What a person sees of each series, from its first object to its last delivery."""

import json
from pathlib import Path

import pytest
from fredholm.pipelines.gateway.arrival import RefusedError
from fredholm.pipelines.gateway.completeness import INTERRUPTED, Arrivals
from fredholm.pipelines.gateway.jobs import Jobs
from fredholm.pipelines.gateway.outbox import Outbox, Retries
from fredholm.pipelines.gateway.spool import Spool
from fredholm.pipelines.gateway.states import STATES, SeriesState, snapshot
from helpers.gateway import SECRETS, arrival, bring, brought, ct, spool, uid, without_gaps


def only(here: Spool) -> SeriesState:
    (state,) = snapshot(here.index, here.root).series
    return state


def test_a_series_goes_through_its_states(tmp_path: Path) -> None:
    here = spool(tmp_path)
    arrivals, jobs, outbox = Arrivals(here), Jobs(here, ["pacs"]), Outbox(here, Retries(attempts=2))
    seen = []

    def see() -> SeriesState:
        seen.append(only(here).state)
        return only(here)

    bring(here, 1, range(3), now=4.0)
    assert see().objects == 3
    arrivals.broken("a")
    see()
    arrivals.judge(uid(1), without_gaps, 0.0)
    assert see().reason == INTERRUPTED
    brought(here, 1, range(3), now=5.0)
    assert see().reason is None
    arrivals.judge(uid(1), without_gaps, 0.0)
    see()
    job = jobs.next(0.0)
    assert job is not None
    see()
    jobs.run(job, lambda _, out: [out / str((out / "seg.dcm").touch())], lambda: 0.0)
    see()
    for state in ("sending", "undelivered"):
        outbox.failed(outbox.due("pacs", 1e6)[0], "REFUSED", 0.0)
        assert (see().state, see().reason) == (state, "REFUSED")
    assert only(here).failures == 2
    assert only(here).arrived == 5.0
    flow = ["receiving", "waiting", "held", "waiting", "queued", "running", "sending"]
    assert seen == [*flow, "sending", "sending", "undelivered", "undelivered"]


def test_a_failed_job_shows_its_reason(tmp_path: Path) -> None:
    here = spool(tmp_path)
    brought(here, 1, range(3))
    Arrivals(here).judge(uid(1), without_gaps, 0.0)
    job = Jobs(here).next(0.0)
    assert job is not None
    Jobs(here).fail(job, "out of memory", 0.0)
    assert (only(here).state, only(here).reason) == ("failed", "out of memory")


def test_counts_and_json_tell_uids_and_numbers_only(tmp_path: Path) -> None:
    here = spool(tmp_path)
    brought(here, 1, range(3))
    bring(here, 2, range(2), association="b")
    other = ct(1, 1)
    other.PatientName = "Roe^Jane"
    with pytest.raises(RefusedError):
        here.keep(arrival(other), "b", 0.0)
    found = snapshot(here.index, here.root)
    assert {state: count for state, count in found.counts().items() if count} == {"waiting": 1, "receiving": 1}
    assert tuple(found.counts()) == STATES
    text = json.dumps(found.plain())
    assert not any(secret in text for secret in (*SECRETS, "Roe"))
    assert sorted(one.conflicts for one in found.series) == [0, 1]


def test_no_name_reaches_the_index(tmp_path: Path) -> None:
    here = spool(tmp_path)
    brought(here, 1, range(3))
    here.index.flush()
    content = b"".join(path.read_bytes() for path in here.root.glob("index.sqlite*"))
    assert uid(1).encode() in content
    assert not any(secret.encode() in content for secret in SECRETS)
