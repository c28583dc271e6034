"""All that the receiver takes from inside pynetdicom's upper layer, which no release of it promises; nothing else does.

Two threads serve an association: the upper layer's reads PDUs, sends others and drives a state machine by events, the
association's own serves messages from a queue. Written for pynetdicom 3.0.4. The range in pyproject.toml ends before
the next minor version; tests/apps/scanner/test_upper_layer.py says which of these a version lacks or does otherwise.

Source: DICOM PS3.8 section 9.2 (states and events).
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pynetdicom.association import Association
from pynetdicom.dul import DULServiceProvider
from pynetdicom.pdu_primitives import P_DATA
from pynetdicom.transport import AssociationSocket

ESTABLISHED, CLOSED, INVALID_PDU = "Sta6", "Evt17", "Evt19"  # as the standard numbers them


class UpperLayer:
    """What lies below an association.

    Args:
        association: From its connection on (`EVT_CONN_OPEN`).
    """

    def __init__(self, association: Association) -> None:
        self.association, self._dul = association, association.dul

    @property
    def connection(self) -> socket.socket:
        """To the peer."""
        connection = self._stream.socket
        assert connection is not None
        return connection

    @property
    def _stream(self) -> AssociationSocket:
        assert self._dul.socket is not None
        return self._dul.socket

    def read_by(self, look: Callable[[], bool], receive: Callable[[int], bytearray]) -> None:
        """Have its thread ask others, from now on.

        Args:
            look: Asked again and again, in place of `look`; whether anything came.
            receive: Reads so many bytes, or fewer where the peer hung up.
        """
        self._dul._is_transport_event = look
        self._stream.recv = receive  # pyright: ignore[reportAttributeAccessIssue]

    def look(self) -> bool:
        """See as pynetdicom does whether there is a PDU, and read it; whether anything came."""
        return DULServiceProvider._is_transport_event(self._dul)

    def read(self) -> None:
        """Read the PDU that is there, and have the state machine act on it."""
        self._dul._read_pdu_data()

    def is_established(self) -> bool:
        """Whether messages may come."""
        return self._dul.state_machine.current_state == ESTABLISHED

    def has_events(self) -> bool:
        """Whether the state machine has something to do first."""
        return not self._dul.event_queue.empty()

    def hung_up(self) -> None:
        """End the association as one whose peer closed the connection."""
        self._dul.event_queue.put(CLOSED)

    def abort(self) -> None:
        """End the association as one whose peer does not speak DICOM."""
        self._dul.event_queue.put(INVALID_PDU)

    def nr_messages(self) -> int:
        """How many messages wait for the association's own thread."""
        return self.association.dimse.msg_queue.qsize()

    def has_work(self) -> bool:
        """Whether one of the two threads has something to serve or to send."""
        return bool(self.nr_messages() or self._dul.to_provider_queue.qsize())

    def give(self, context: int, command: bytes) -> None:
        """Have a message without a data set served by the association's own thread.

        Raises:
            Exception: Of any kind: the command cannot be read.
        """
        message, whole = P_DATA(), bytes([3]) + command  # a command, and its last fragment
        message.presentation_data_value_list = [[context, whole]]  # pyright: ignore[reportAttributeAccessIssue]
        self.association.dimse.receive_primitive(message)

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Let the association's own thread rest, which otherwise looks for work a thousand times a second."""
        self.association._reactor_checkpoint.clear()
        try:
            yield
        finally:
            self.association._reactor_checkpoint.set()
