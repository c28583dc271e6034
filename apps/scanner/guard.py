"""pynetdicom's server with bounds on what a peer can make it hold and on how long it can make it wait.

As it comes, pynetdicom reads a PDU of any announced length and a data set of any length into memory, waits for the rest
of either without end, and shakes hands for TLS in the thread that accepts everybody. Both threads of an association
sleep between two looks, milliseconds for each object; so objects are taken from the wire by `stores`, past them.
"""

import contextlib
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from functools import partial
from socketserver import TCPServer

from pynetdicom import evt
from pynetdicom.association import Association
from pynetdicom.transport import ThreadedAssociationServer

from .stores import Store, Stores, WireError
from .upper_layer import UpperLayer

PDU_BYTES = 128 << 10  # what we ask for; larger ones bring nothing
LONGEST_PDU = 1 << 20  # what a request for an association may take
WAIT_S = 0.005  # for a peer, before looking for something else to do
P_DATA_TF = 4


class GuardedServer(ThreadedAssociationServer):
    """Shakes hands in a thread for each peer, and keeps quiet about peers that fail to.

    Args:
        store: What is done with each object.
        object_bytes: Largest data set, see `Stores`.
        timeout_s: How long a peer may take for a handshake, for each PDU and between two.
        told: Called with a line for the log.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, *args, store: Store, object_bytes: int, timeout_s: float, told: Callable[[str], None], **kwargs
    ) -> None:
        super().__init__(*args, **kwargs)
        self.store, self.object_bytes, self.timeout_s, self.told = store, object_bytes, timeout_s, told
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
        layer = UpperLayer(event.assoc)
        wire = BoundedWire(layer.connection, self.timeout_s)
        stores = Stores(layer, wire, self.object_bytes, self.store)
        layer.read_by(partial(_wait_and_read, layer, wire, stores), wire.read)
        self._connections.append((event.assoc, layer.connection))


class BoundedWire:
    """A connection of which nobody reads more than was agreed on, or waits for longer than that.

    Args:
        connection: The socket.
        timeout_s: How long each reading may take.
    """

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        self.connection, self.timeout_s = connection, timeout_s
        self._header = bytearray()

    def ready(self, wait_s: float) -> bool:
        """Whether there is something to read, now or after a while; or it is closed, as reading will tell."""
        if isinstance(self.connection, ssl.SSLSocket) and self.connection.pending():
            return True
        with contextlib.suppress(OSError, ValueError):
            return bool(select.select([self.connection], [], [], wait_s)[0])
        return True

    def peek(self) -> bytearray:
        """The type and the length of the next PDU, or less if the peer hung up; `read` gives them once more."""
        self._header = self.read(6)
        return self._header

    def read(self, nr_bytes: int) -> bytearray:
        """Read exactly so many bytes, or fewer if the peer hangs up.

        Raises:
            OSError: So much is no PDU, or the time is over; pynetdicom then closes the connection.
        """
        if self._header:
            header, self._header = self._header, bytearray()
            return header
        if nr_bytes > LONGEST_PDU:
            raise OSError("a PDU is longer than any that was agreed")
        buffer = bytearray(nr_bytes)
        with memoryview(buffer) as view:
            got = self._fill(view)
        return buffer[:got]

    def fill(self, view: memoryview) -> None:
        """Fill a buffer.

        Raises:
            OSError: The peer hung up, or the time is over.
        """
        if self._fill(view) < len(view):
            raise ConnectionError("the peer hung up within a PDU")

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.connection.sendall(data)

    def _fill(self, view: memoryview) -> int:
        got, end = 0, time.monotonic() + self.timeout_s
        while got < len(view):
            self.connection.settimeout(max(end - time.monotonic(), 1e-3))
            count = self.connection.recv_into(view[got:])
            if not count:
                break
            got += count
        self.connection.settimeout(self.timeout_s)
        return got


def _wait_and_read(layer: UpperLayer, wire: BoundedWire, stores: Stores) -> bool:
    """Read what there is, and be awake when it comes; whether anything came."""
    if layer.has_events():
        return False  # pynetdicom first does what it has to
    ready = wire.ready(WAIT_S)
    if not layer.is_established():
        return layer.look()
    try:
        if ready:
            _take_objects(layer, wire, stores)
    except WireError:
        layer.abort()
    except OSError:
        layer.hung_up()
    return ready


def _take_objects(layer: UpperLayer, wire: BoundedWire, stores: Stores) -> None:
    """Take one PDU after the other, as long as they come and nothing else is to be done."""
    with layer.unwatched():
        while _brings_data(wire.peek()):
            stores.take(_length(wire.read(6)))
            if layer.has_work() or not wire.ready(WAIT_S):
                return
    layer.read()


def _brings_data(header: bytearray) -> bool:
    return len(header) == 6 and header[0] == P_DATA_TF


def _length(header: bytearray) -> int:
    (length,) = struct.unpack(">L", header[2:])
    if length > LONGEST_PDU:
        raise OSError("a PDU is longer than any that was agreed")
    return length
