"""The storage SCP: takes objects from those who may send them, and says Success for what is on the disk."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from uuid import uuid4

from pynetdicom import AE, _config, build_context, evt
from pynetdicom.association import Association
from pynetdicom.sop_class import Verification  # pyright: ignore[reportAttributeAccessIssue]

from ...pipelines.gateway.arrival import SYNTAXES, Reason, RefusedError, is_uid
from ...pipelines.gateway.completeness import Arrivals
from .config import Listen
from .guard import PDU_BYTES, GuardedServer
from .stores import Sent, WireError

SUCCESS, OUT_OF_RESOURCES, OTHER_CLASS, NOT_UNDERSTOOD = 0x0000, 0xA700, 0xA900, 0xC000
STATUS = {
    Reason.TOO_LARGE: OUT_OF_RESOURCES,
    Reason.DISK_FULL: OUT_OF_RESOURCES,
    Reason.OTHER_UID: OTHER_CLASS,
}
"""C-STORE status of a refusal; of any other it is `NOT_UNDERSTOOD`."""


class Receiver:
    """Serves until it is stopped.

    Args:
        listen: What is taken from whom.
        arrivals: Where it goes.
        told: Called with lines for the log: AE titles, UIDs and numbers.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        listen: Listen,
        arrivals: Arrivals,
        told: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.listen, self.arrivals, self.told, self.clock = listen, arrivals, told, clock
        self.counts: Counter[str] = Counter()
        self._open: dict[Association, str] = {}
        self._server = self._make_server()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="receiver", daemon=True)

    @property
    def port(self) -> int:
        """The TCP port."""
        return self._server.server_address[1]

    def start(self) -> None:
        """Take objects, in threads of its own."""
        self._thread.start()

    def reap(self) -> None:
        """Hear of associations that ended without a word; call it now and then."""
        for association in [one for one in list(self._open) if not one.is_alive()]:
            self._break(association)

    def stop(self, grace_s: float) -> None:
        """Take no more associations, let open ones end for a while, then end them."""
        self._server.shutdown()
        end = time.monotonic() + grace_s
        while self._server.active_associations and time.monotonic() < end:
            time.sleep(0.05)
        for association in self._server.active_associations:
            association.abort()
            association.join(1.0)
        for association in list(self._open):
            self._break(association)
        self._server.close_connections()

    def _break(self, association: Association) -> None:
        for series in self.arrivals.broken(self._open[association]):
            self.told(f"series {series}: an association broke while it brought it")
        self._open.pop(association, None)

    def _make_server(self) -> GuardedServer:
        _config.LOG_HANDLER_LEVEL = "none"  # pynetdicom's own log holds addresses and data sets
        listen = self.listen
        entity = AE(listen.ae_title)
        entity.require_called_aet = True
        entity.require_calling_aet = list(listen.calling)
        entity.maximum_associations = listen.associations
        entity.maximum_pdu_size = PDU_BYTES
        entity.acse_timeout = entity.dimse_timeout = entity.network_timeout = listen.timeout_s
        contexts = [build_context(Verification)]
        contexts += [build_context(uid, list(SYNTAXES)) for uid in listen.sop_classes]
        handlers: list[evt.EventHandlerType] = [
            (evt.EVT_RELEASED, self._released),
            (evt.EVT_REJECTED, self._rejected),
        ]
        tls = listen.tls.server() if listen.tls else None
        try:
            server = entity.make_server(
                (listen.host, listen.port),
                contexts=contexts,
                ssl_context=tls,
                evt_handlers=handlers,
                server_class=GuardedServer,  # pyright: ignore[reportArgumentType]
                store=self._store,
                object_bytes=listen.limits.object_bytes,
                timeout_s=listen.timeout_s,
                told=self.told,
            )
        except OSError as error:
            raise OSError(f"cannot serve on {listen.host} port {listen.port}: {error.strerror}") from None
        assert isinstance(server, GuardedServer)
        return server

    def _store(self, sent: Sent) -> tuple[int, str]:
        try:
            outcome = self._keep(sent)
            self.counts[outcome] += 1
            return SUCCESS, ""
        except RefusedError as refused:
            self.counts[refused.reason.name.lower()] += 1
            self.told(f"object {_uid(sent)} from {_caller(sent.association)} was refused: {refused}")
            return STATUS.get(refused.reason, NOT_UNDERSTOOD), str(refused)
        except Exception as error:  # its words may come out of the data set
            self.counts["errors"] += 1
            told = f"object {_uid(sent)} from {_caller(sent.association)} could not be kept: {type(error).__name__}"
            self.told(told)
            raise WireError(told) from None  # so that what the association brought counts as interrupted

    def _keep(self, sent: Sent) -> str:
        arrival = sent.arrival()
        association = self._open.setdefault(sent.association, uuid4().hex)
        return self.arrivals.spool.keep(arrival, association, self.clock())

    def _released(self, event: evt.Event) -> None:
        association = self._open.get(event.assoc)
        if association is not None:
            self.arrivals.released(association)
            self._open.pop(event.assoc)  # only now: where that fails, `reap` will find it

    def _rejected(self, event: evt.Event) -> None:
        self.counts["rejected"] += 1
        asked = event.assoc.requestor.primitive
        called = asked.called_ae_title if asked else None
        self.told(f"an association was refused: called {called!r} by {_caller(event.assoc)}")


def _caller(association: Association) -> str:
    return repr(association.requestor.ae_title)


def _uid(sent: Sent) -> str:
    return sent.uid if is_uid(sent.uid) else "without a UID"
