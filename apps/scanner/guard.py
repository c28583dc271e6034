"""pynetdicom's server with bounds on what a peer can make it hold and on how long it can make it wait.

As it comes, pynetdicom reads a PDU of any announced length and a data set of any length into memory, waits for the rest
of either without end, and shakes hands for TLS in the thread that accepts everybody. It also passes each object from
one thread to another and its answer back, and both of them sleep between two looks: milliseconds for each object.
"""

import contextlib
import queue
import select
import socket
import ssl
import time
from collections.abc import Callable
from functools import partial
from socketserver import TCPServer

from pynetdicom import evt
from pynetdicom.association import Association
from pynetdicom.dimse import DIMSEServiceProvider
from pynetdicom.dimse_primitives import C_STORE
from pynetdicom.dul import DULServiceProvider
from pynetdicom.pdu_primitives import P_DATA
from pynetdicom.service_class import StorageServiceClass
from pynetdicom.sop_class import uid_to_service_class
from pynetdicom.transport import AssociationSocket, ThreadedAssociationServer

PDU_BYTES = 128 << 10  # what we ask for; larger ones bring nothing
LONGEST_PDU = 1 << 20  # what a request for an association may take
LONGEST_COMMAND = 64 << 10
WAIT_S = 0.005  # for a peer, before looking for something else to do
INVALID_PDU = "Evt19"  # pynetdicom's event; it answers with an abort


class GuardedServer(ThreadedAssociationServer):
    """Shakes hands in a thread for each peer, and keeps quiet about peers that fail to.

    Args:
        object_bytes: Largest data set; of a longer one a byte more is kept, which shows that it was longer.
        timeout_s: How long a peer may take for a handshake, for each PDU and between two.
        told: Called with a line for the log.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *args, object_bytes: int, timeout_s: float, told: Callable[[str], None], **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.object_bytes, self.timeout_s, self.told = object_bytes, timeout_s, told
        self._connections: list[tuple[Association, socket.socket]] = []
        self.bind(evt.EVT_CONN_OPEN, self._guard)

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """Accept a connection, and no more."""
        assert self.socket is not None
        return self.socket.accept()

    def finish_request(self, request, client_address) -> None:
        """Shake hands, in the peer's own thread."""
        assert isinstance(request, socket.socket)
        request.settimeout(self.timeout_s)
        if self.ssl_context:
            request = self.ssl_context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address) -> None:
        """A peer that did not get as far as an association; no traceback, no address."""
        self.told("a connection was dropped: no TLS handshake, or no certificate that is trusted here")

    def service_actions(self) -> None:
        """Close connections whose peers hung up first, which pynetdicom leaves to the garbage collector."""
        super().service_actions()
        over = [(one, connection) for one, connection in self._connections if one.ident and not one.is_alive()]
        for pair in over:
            pair[1].close()
            self._connections.remove(pair)

    def close_connections(self) -> None:
        """Close all."""
        while self._connections:
            self._connections.pop()[1].close()

    def shutdown(self) -> None:
        """Accept nobody any more; may be called again."""
        TCPServer.shutdown(self)
        self.server_close()

    def _guard(self, event: evt.Event) -> None:
        """Put our bounds in the place of pynetdicom's parts, before the association begins."""
        association = event.assoc
        association.dimse = _BoundedMessages(association, self.object_bytes)
        stream = association.dul.socket
        assert stream is not None
        assert stream.socket is not None
        stream.recv = partial(_receive, stream, timeout_s=self.timeout_s)
        association.dul._is_transport_event = partial(_wait_and_read, association.dul)
        self._connections.append((association, stream.socket))


def _receive(stream: AssociationSocket, nr_bytes: int, *, timeout_s: float) -> bytearray:
    """Read exactly `nr_bytes`, or fewer if the peer hangs up.

    Raises:
        OSError: So much is no PDU, or the time is over; pynetdicom then closes the connection.
    """
    if nr_bytes > LONGEST_PDU:
        raise OSError("a PDU is longer than any that was agreed")
    assert stream.socket is not None
    buffer, got, end = bytearray(nr_bytes), 0, time.monotonic() + timeout_s
    with memoryview(buffer) as view:
        while got < nr_bytes:
            stream.socket.settimeout(max(end - time.monotonic(), 1e-3))
            count = stream.socket.recv_into(view[got:])
            if not count:
                break
            got += count
    stream.socket.settimeout(timeout_s)
    return buffer[:got]


def _wait_and_read(dul: DULServiceProvider) -> bool:
    """Read a PDU if there is one, and be awake when it comes."""
    stream = dul.socket
    connection = stream.socket if stream is not None else None
    if connection is not None and dul.event_queue.empty() and not _holds_data(connection):
        with contextlib.suppress(OSError, ValueError):  # it is closed, as pynetdicom will find
            select.select([connection], [], [], WAIT_S)
    return DULServiceProvider._is_transport_event(dul)


def _holds_data(connection: socket.socket) -> bool:
    return isinstance(connection, ssl.SSLSocket) and connection.pending() > 0


class _Served(queue.Queue):
    """Messages that wait for the association's thread; objects do not wait, but are taken at once by who brings them.

    While one is being written nothing is read from its peer, so that a peer that does not wait for answers cannot fill
    the memory with objects.
    """

    def __init__(self, association: Association) -> None:
        super().__init__()
        self.association = association

    def put(self, item, block: bool = True, timeout: float | None = None) -> None:
        context_id, message = item
        context = self.association._accepted_cx.get(context_id)
        if isinstance(message, C_STORE) and message.is_valid_request and context is not None:
            service = uid_to_service_class(str(context.abstract_syntax))
            if service is StorageServiceClass:  # else pynetdicom knows what to answer
                service(self.association).SCP(message, context)
                return
        super().put(item, block, timeout)


class _BoundedMessages(DIMSEServiceProvider):
    """Puts messages together from their fragments, up to a length."""

    def __init__(self, association: Association, object_bytes: int) -> None:
        super().__init__(association)
        self.msg_queue = _Served(association)
        self.most, self.command, self.data = object_bytes + 1, 0, 0

    def receive_primitive(self, primitive: P_DATA) -> None:
        """Take the next fragments; those beyond the limit are dropped as they come."""
        pieces = [[context, self._cut(value)] for context, value in primitive.presentation_data_value_list]
        # Nor are more messages than one put aside for a peer that does not wait for answers.
        if self.command > LONGEST_COMMAND or self.msg_queue.qsize() > 1:
            self.dul.event_queue.put(INVALID_PDU)
            return
        primitive.presentation_data_value_list = pieces  # pyright: ignore[reportAttributeAccessIssue]
        try:
            super().receive_primitive(primitive)
        except Exception:  # a malformed command would end pynetdicom's thread, and leave the peer waiting
            self.dul.event_queue.put(INVALID_PDU)
            return
        if self.message is None:
            self.command = self.data = 0

    def _cut(self, value: bytes) -> bytes:
        """A fragment is a control byte, of which the lowest bit means a command, and what it carries."""
        if value[:1] and value[0] & 1:
            self.command += len(value)
            return value
        kept = value[: 1 + max(0, self.most - self.data)]
        self.data += len(kept) - 1
        return kept
