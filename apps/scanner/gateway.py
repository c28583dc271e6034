"""The whole gateway: a receiver, one worker, a sender for each receiver of results, and the status page."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...pipelines.gateway.completeness import Arrivals, Check
from ...pipelines.gateway.jobs import Jobs, Label
from ...pipelines.gateway.outbox import Outbox
from ...pipelines.gateway.spool import Spool
from ...pipelines.gateway.states import snapshot
from ...pipelines.gateway.visit import end_visits_of_the_dead
from .config import DAY_S, MEGABYTE, Config
from .page import Counts, StatusPage
from .receiver import Receiver
from .sender import Sender, by_store, by_stow
from .worker import Worker

GRACE_S = 10.0  # for what is under way when the gateway stops
LOOK_S = 0.5


class Gateway:
    """Serves as its configuration says.

    Args:
        config: The configuration.
        check: Whether the slices of a series fit.
        label: Labels a series, see `Worker`.
        stop: Set when to end.
        told: Called with lines for the log, from any thread.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        config: Config,
        check: Check,
        label: Label,
        *,
        stop: threading.Event,
        told: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.config, self.stop, self.told = config, stop, told
        common = {"stop": stop, "told": told, "clock": clock}
        self.spool = Spool(config.spool_folder, config.listen.limits, int(config.ready_mb * MEGABYTE))
        arrivals = self.arrivals = Arrivals(self.spool, config.quiet_s)
        ways = {one.name: by_store(one, config.listen.ae_title) for one in config.c_store if one.results}
        ways |= {one.name: by_stow(one) for one in config.stow_rs if one.results}
        self.jobs = Jobs(self.spool, tuple(ways))
        outbox = Outbox(self.spool, config.retries)
        self.receiver = Receiver(config.listen, arrivals, told, clock)
        self.worker = Worker(arrivals, self.jobs, check, label, keep_s=config.keep_days * DAY_S, **common)
        self.senders = [Sender(name, way, outbox, **common) for name, way in ways.items()]
        self.page = None
        if config.page_port:
            self.page = StatusPage(config.page_port, lambda: snapshot(self.spool.index, self.spool.root), self.counts)

    def serve(self) -> None:
        """Serve until `stop` is set, or an exception such as Ctrl-C comes; then end cleanly.

        Raises:
            BlockingIOError: Another gateway serves from the same folder.
        """
        with self.spool.owned(), self._running():
            listen = self.config.listen
            self.told(f"{listen.ae_title} serves on {listen.host} port {self.receiver.port}")
            while not self.stop.wait(LOOK_S):
                self.receiver.reap()
                for series in end_visits_of_the_dead(self.arrivals):
                    self.told(f"series {series}: a command broke off while it fetched it")

    def counts(self) -> Counts:
        """Numbers since the start."""
        sent = {f"{one.target}_{outcome}": number for one in self.senders for outcome, number in one.counts.items()}
        return {"objects": dict(self.receiver.counts), "deliveries": sent}

    @contextmanager
    def _running(self) -> Iterator[None]:
        self.jobs.recover()
        targets = [self.worker.run, *(sender.run for sender in self.senders)]
        threads = [threading.Thread(target=target, daemon=True) for target in targets]
        for part in (*threads, self.receiver, *([self.page] if self.page else [])):
            part.start()
        try:
            yield
        finally:
            self.stop.set()
            self.told("stopping")
            self.receiver.stop(GRACE_S)
            if self.page:
                self.page.stop()
            for thread in threads:
                thread.join(GRACE_S)
            self.spool.index.flush()
            self.told("stopped")
