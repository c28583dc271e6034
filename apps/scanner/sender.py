"""Sends results, by C-STORE or STOW-RS, from a thread for each receiver."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pydicom import dcmread
from pynetdicom import build_context

from ...pipelines.gateway.outbox import Delivery, Outbox
from .config import Store, Web
from .dimse import associated
from .faults import PeerError, words
from .web import WebError, client, refusal

PAUSE_S = 0.5
WARNINGS = range(0xB000, 0xC000)  # stored all the same
DUPLICATE = 0x0111  # it is there already: an earlier answer was lost

Send = Callable[[Path], None]
"""Sends a file, or raises a `PeerError`."""


class Sender:
    """Sends what is due to one receiver until it is stopped.

    Args:
        target: Name of the receiver.
        send: How.
        outbox: Where deliveries wait.
        stop: Set when to end.
        told: Called with lines for the log.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        target: str,
        send: Send,
        outbox: Outbox,
        *,
        stop: threading.Event,
        told: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.target, self.send, self.outbox = target, send, outbox
        self.stop, self.told, self.clock = stop, told, clock
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Send, until `stop` is set."""
        while not self.stop.is_set():
            try:
                for delivery in self.outbox.due(self.target, self.clock()):
                    if not self.stop.is_set():
                        self._deliver(delivery)
            except Exception as error:
                self.told(f"the sender to {self.target} met an error: {words(error)}")
            self.stop.wait(PAUSE_S)

    def _deliver(self, delivery: Delivery) -> None:
        name = f"result {delivery.job[:12]} to {self.target}"
        try:
            self.send(delivery.path)
        except Exception as error:
            reason = str(error) if isinstance(error, PeerError) else words(error)
            again = self.outbox.failed(delivery, reason, self.clock())
            self.counts["failed"] += 1
            self.told(f"{name}: {reason}; {'will be tried again' if again else 'given up'}")
        else:
            self.outbox.sent(delivery)
            self.counts["sent"] += 1
            self.told(f"{name}: sent")


def by_store(target: Store, own_title: str, timeout_s: float = 60.0) -> Send:
    """Send by C-STORE.

    Args:
        target: The receiver.
        own_title: By which we call.
        timeout_s: How long the receiver may take to answer.
    """

    def send(path: Path) -> None:
        dataset = dcmread(path)
        context = build_context(dataset.SOPClassUID, dataset.file_meta.TransferSyntaxUID)
        with associated(target, own_title, [context], timeout_s=timeout_s) as association:
            status = association.send_c_store(dataset).get("Status")
        if status is None:
            raise PeerError("no answer came")
        if status not in (0, DUPLICATE) and status not in WARNINGS:
            raise PeerError(f"refused with status 0x{status:04X}")

    return send


def by_stow(target: Web, timeout_s: float = 60.0) -> Send:
    """Send by STOW-RS; see `by_store`."""

    def send(path: Path) -> None:
        dataset = dcmread(path)
        try:
            answer = client(target, timeout_s).store_instances([dataset])
        except WebError as error:
            raise PeerError(refusal(error)) from None
        for failed in answer.get("FailedSOPSequence", ()):
            reason = failed.get("FailureReason", 0)
            if reason != DUPLICATE:
                raise PeerError(f"refused with failure reason 0x{reason:04X}")

    return send
