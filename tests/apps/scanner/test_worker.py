"""An error costs one job, never the worker; and nothing of what it says comes out of a data set."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fredholm.apps.scanner.faults import StoppedError, words
from fredholm.apps.scanner.worker import Worker
from fredholm.pipelines.dicom import Code, SeriesError
from fredholm.pipelines.gateway.completeness import Arrivals
from fredholm.pipelines.gateway.jobs import Jobs, Label
from fredholm.pipelines.gateway.spool import Spool
from fredholm.pipelines.gateway.states import snapshot
from helpers.gateway import SECRETS, brought, kept, spool, uid, without_gaps
from helpers.scanner import until


@pytest.fixture
def here(tmp_path: Path) -> Spool:
    return spool(tmp_path)


def nothing(_: Path, __: Path) -> list[Path]:
    return []


def raising(error: BaseException) -> Callable[..., list[Path]]:
    def fail(*_: object) -> list[Path]:
        raise error

    return fail


class Working:
    def __init__(self, spool: Spool, label: Label = nothing, check: Callable[[Path], object] = without_gaps) -> None:
        self.stop, self.told, self.time, self.spool = threading.Event(), [], 1000.0, spool
        self.worker = Worker(
            Arrivals(spool, quiet_s=60),
            Jobs(spool),
            check,  # pyright: ignore[reportArgumentType]
            label,
            keep_s=86_400.0,
            stop=self.stop,
            told=self.told.append,
            clock=lambda: self.time,
        )

    def state(self) -> tuple[str, str | None]:
        (found,) = snapshot(self.spool.index, self.spool.root).series
        return found.state, found.reason


def test_a_whole_series_is_labelled_once_it_was_quiet(here: Spool) -> None:
    working = Working(here)
    brought(here, 1, range(3), now=950)
    assert not working.worker.step()
    working.time = 1010
    assert working.worker.step()
    assert working.state() == ("done", None)
    assert working.told[0] == f"series {uid(1)}: whole"
    assert not working.worker.step()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SeriesError(Code.DAMAGED_FILE, "1.2.3.dcm is\ncut off"), "DAMAGED_FILE: 1.2.3.dcm is cut off"),
        (ValueError(SECRETS[0]), "ValueError at test_worker.py:"),
        (KeyError(SECRETS[0]), "KeyError at test_worker.py:"),
        (MemoryError(), "MemoryError at test_worker.py:"),
        (OSError(28, SECRETS[0], "x"), "OSError: No space left on device"),
    ],
)
def test_an_error_of_a_check_holds_and_one_of_a_job_fails(here: Spool, error: Exception, reason: str) -> None:
    brought(here, 1, range(3), now=0)
    holding = Working(here, check=raising(error))
    holding.worker.step()
    state, why = holding.state()
    assert state == "held"
    assert (why or "").startswith(reason)
    brought(here, 1, range(4), now=0)
    failing = Working(here, raising(error))
    failing.worker.step()
    state, why = failing.state()
    assert state == "failed"
    assert (why or "").startswith(reason)
    assert not any(SECRETS[0] in line for line in (*holding.told, *failing.told))


def test_a_job_that_is_stopped_is_put_back(here: Spool) -> None:
    working = Working(here, raising(StoppedError()))
    brought(here, 1, range(3), now=0)
    working.worker.step()
    assert working.state() == ("queued", None)
    (job,) = here.index.rows("SELECT attempts FROM jobs")
    assert job["attempts"] == 0


def test_old_series_are_deleted_every_now_and_then(here: Spool) -> None:
    working = Working(here)
    brought(here, 1, range(3), now=0)
    working.worker.step()
    working.time += 2 * 86_400
    working.worker.step()
    assert kept(here) == []
    assert working.told[-1] == f"series {uid(1)}: deleted, as its time was over"


def test_an_error_of_its_own_does_not_end_the_worker(here: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    working, steps = Working(here), []

    def step() -> bool:
        steps.append(1)
        if len(steps) == 1:
            raise OSError(28, "full")
        working.stop.set()
        return False

    monkeypatch.setattr("fredholm.apps.scanner.worker.AFTER_ERROR_S", 0.01)
    monkeypatch.setattr(working.worker, "step", step)
    thread = threading.Thread(target=working.worker.run)
    thread.start()
    until(lambda: not thread.is_alive(), "the worker has stopped")
    assert working.told == ["the worker met an error: OSError: No space left on device"]
    assert len(steps) == 2


def test_words_of_an_error_without_a_place() -> None:
    assert words(RuntimeError(SECRETS[0])) == "RuntimeError"
