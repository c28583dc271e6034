"""The one thread that judges series and labels those that are whole, one after the other."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from ...pipelines.gateway.completeness import Arrivals, Check
from ...pipelines.gateway.jobs import Job, Jobs, Label
from ...pipelines.gateway.retention import expire
from .faults import StoppedError, words

PAUSE_S, AFTER_ERROR_S, EXPIRE_EVERY_S = 0.2, 5.0, 600.0


class Worker:
    """Works until it is stopped; an error costs one job, never the thread.

    Args:
        arrivals: Series that come in.
        jobs: The queue.
        check: Whether the slices of a series fit.
        label: Labels a series; may raise `StoppedError` once `stop` is set, and the job is then done at the next start.
        keep_s: Seconds for which a series is kept.
        stop: Set when to end.
        told: Called with lines for the log.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        jobs: Jobs,
        check: Check,
        label: Label,
        *,
        keep_s: float,
        stop: threading.Event,
        told: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.arrivals, self.jobs, self.check, self.label = arrivals, jobs, check, label
        self.keep_s, self.stop, self.told, self.clock = keep_s, stop, told, clock
        self._expired = 0.0

    def run(self) -> None:
        """Judge, label and delete, until `stop` is set."""
        while not self.stop.is_set():
            try:
                worked = self.step()
            except Exception as error:  # such as a full disk: say so, and go on when it has passed
                self.told(f"the worker met an error: {words(error)}")
                self.stop.wait(AFTER_ERROR_S)
            else:
                self.stop.wait(0.0 if worked else PAUSE_S)

    def step(self) -> bool:
        """Judge what is due and do one job; whether there was any."""
        if self.clock() - self._expired > EXPIRE_EVERY_S:
            self._expired = self.clock()
            for series in expire(self.arrivals.spool, self.keep_s, self.clock()):
                self.told(f"series {series}: deleted, as its time was over")
        due = self.arrivals.due(self.clock())
        for series in due:
            held = self.arrivals.judge(series, self._fault, self.clock())
            self.told(f"series {series}: {f'held, {held}' if held else 'whole'}")
        job = self.jobs.next(self.clock())
        if job is not None:
            self._do(job)
        return bool(due) or job is not None

    def _fault(self, folder: Path) -> None:
        try:
            self.check(folder)
        except Exception as error:  # whatever a reader does with objects from outside
            raise ValueError(words(error)) from None

    def _do(self, job: Job) -> None:
        begun = time.monotonic()
        try:
            files = self.jobs.run(job, self.label, self.clock)
        except StoppedError:
            self.jobs.put_back(job, self.clock())
            self.told(f"series {job.series}: put back, to be labelled after the next start")
        except Exception as error:
            self.jobs.fail(job, words(error), self.clock())
            self.told(f"series {job.series}: failed, {words(error)}")
        else:
            self.told(f"series {job.series}: labelled in {time.monotonic() - begun:.1f} s, {len(files)} to send")
