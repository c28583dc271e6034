"""C-STORE requests, taken off the wire into one buffer and answered at once; all other messages go to pynetdicom.

pynetdicom copies each fragment five times, and passes each object from thread to thread: 2 ms for half a megabyte.

Source: DICOM PS3.8 section 9.3.5 and annex E (P-DATA-TF, fragments); PS3.7 sections 9.3.1 (C-STORE) and 6.3 (commands).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pynetdicom.association import Association

from ...pipelines.gateway.arrival import Arrival, Reason, RefusedError
from .upper_layer import UpperLayer

STORE_REQUEST, STORE_RESPONSE, NO_DATA = 0x0001, 0x8001, 0x0101
CLASS, COMMAND, MESSAGE, ANSWERED, DATA_TYPE, STATUS, COMMENT, INSTANCE = (
    0x2,
    0x100,
    0x110,
    0x120,
    0x800,
    0x900,
    0x902,
    0x1000,
)
IS_COMMAND, IS_LAST = 1, 2  # bits of the byte that stands before each fragment
LONGEST_COMMAND = 64 << 10
KEPT_BYTES = 4 << 20  # of the buffer, from one object to the next


class WireError(ValueError):
    """What came is not what the standard says; the association is to be aborted."""


@dataclass(frozen=True)
class Sent:
    """An object as a peer announces and sends it.

    Args:
        association: That brings it.
        agreed: The SOP class and the transfer syntax that were agreed on.
        sop_class: As announced beside the object.
        uid: SOP instance UID, likewise.
        data: The encoded data set; gone once the object is answered.
    """

    association: Association
    agreed: tuple[str, str]
    sop_class: str
    uid: str
    data: memoryview

    def arrival(self) -> Arrival:
        """The object as the spool takes it.

        Raises:
            RefusedError: See `Arrival.read`; or it is of another class than was agreed on.
        """
        agreed_class, syntax = self.agreed
        if self.sop_class != agreed_class:
            raise RefusedError(Reason.OTHER_UID)
        return Arrival.read(self.sop_class, self.uid, syntax, self.data)


Store = Callable[[Sent], tuple[int, str]]
"""Takes an object and gives the status to answer with, and a comment on it; or raises a `WireError`."""


class Wire(Protocol):
    """A connection."""

    def fill(self, view: memoryview) -> None:
        """Read as many bytes as fit, or raise an OSError."""
        ...

    def send(self, data: bytes) -> None:
        """Send all of it, or raise an OSError."""
        ...


class Stores:
    """The C-STORE requests of one association.

    Args:
        layer: Of the association; its other messages go there.
        wire: Where they come from and answers go.
        object_bytes: Largest data set; of a longer one a byte more is kept, which shows that it was longer.
        store: What is done with each object.
    """

    def __init__(self, layer: UpperLayer, wire: Wire, object_bytes: int, store: Store) -> None:
        self.layer, self.wire, self.most, self.store = layer, wire, object_bytes + 1, store
        self._command, self._request = bytearray(), dict[int, bytes]()
        self._data, self._length, self._context, self._agreed = bytearray(KEPT_BYTES), 0, 0, ("", "")

    def take(self, length: int) -> None:
        """Take what a P-DATA-TF PDU of this length brings, and answer what it completes.

        Raises:
            WireError: It brings nothing that fits.
            OSError: The peer hung up or was silent for too long.
        """
        while length:
            size, context, control = struct.unpack(">LBB", self._read(6)) if length >= 6 else (0, 0, 0)
            length -= size + 4
            if size < 2 or length < 0:
                raise WireError("a fragment is longer than the PDU that it comes in")
            if control & IS_COMMAND:
                self._take_command(size - 2)
            else:
                self._take_data(size - 2, context)
            if control & IS_LAST:
                self._end_command(context) if control & IS_COMMAND else self._end_object()

    def _read(self, size: int) -> bytes:
        piece = bytearray(size)
        self.wire.fill(memoryview(piece))
        return bytes(piece)

    def _take_command(self, size: int) -> None:
        if self._request or len(self._command) + size > LONGEST_COMMAND:
            raise WireError("a command is too long, or comes before an object has ended")
        self._command += self._read(size)

    def _take_data(self, size: int, context: int) -> None:
        if not self._request or context != self._context:
            raise WireError("a data set comes that nobody announced")
        kept = min(size, self.most - self._length)
        if self._length + kept > len(self._data):
            self._data += bytes(max(kept, min(len(self._data), self.most - len(self._data))))
        with memoryview(self._data) as view:
            self.wire.fill(view[self._length : self._length + kept])
        self._length += kept
        if size > kept:
            self._read(size - kept)

    def _end_command(self, context: int) -> None:
        command, self._command = bytes(self._command), bytearray()
        request = _elements(command)
        if _number(request, COMMAND) != STORE_REQUEST:
            self._pass_on(context, command)
            return
        agreed = [one for one in self.layer.association.accepted_contexts if one.context_id == context]
        if not agreed or MESSAGE not in request:
            raise WireError("an object comes without a number, or in a context that was not agreed on")
        self._request, self._context = request, context
        self._agreed = (str(agreed[0].abstract_syntax), str(agreed[0].transfer_syntax[0]))
        if _number(request, DATA_TYPE) == NO_DATA:
            self._end_object()

    def _pass_on(self, context: int, command: bytes) -> None:
        """Give a message that is no object, and has no data set, to pynetdicom, which serves one after the other."""
        if self.layer.nr_messages() > 1:
            raise WireError("a peer does not wait for answers")
        try:
            self.layer.give(context, command)
        except Exception:  # it would end pynetdicom's thread, and leave the peer waiting
            raise WireError("a command cannot be read") from None

    def _end_object(self) -> None:
        request = self._request
        with memoryview(self._data)[: self._length] as data:
            uids = _text(request, CLASS), _text(request, INSTANCE)
            sent = Sent(self.layer.association, self._agreed, *uids, data)
            status, comment = self.store(sent)
        self._request, self._length = {}, 0
        if len(self._data) > KEPT_BYTES:
            self._data = bytearray(KEPT_BYTES)
        self.wire.send(_p_data(self._context, _answer(request, status, comment)))


def _elements(command: bytes) -> dict[int, bytes]:
    """The elements of a command, by their numbers within group 0."""
    found, at = dict[int, bytes](), 0
    while at < len(command):
        if len(command) < at + 8:
            raise WireError("a command ends within an element")
        group, element, size = struct.unpack_from("<HHL", command, at)
        at += 8 + size
        if group != 0 or at > len(command):
            raise WireError("a command has an element of another group, or one that is longer than itself")
        found[element] = command[at - size : at]
    return found


def _number(elements: dict[int, bytes], element: int) -> int:
    return int.from_bytes(elements.get(element, b""), "little")


def _text(elements: dict[int, bytes], element: int) -> str:
    return elements.get(element, b"").decode("ascii", errors="replace").strip("\0 ")


def _answer(request: dict[int, bytes], status: int, comment: str) -> bytes:
    """The command of a C-STORE response."""
    elements = {
        CLASS: request.get(CLASS, b""),
        COMMAND: STORE_RESPONSE.to_bytes(2, "little"),
        ANSWERED: request[MESSAGE],
        DATA_TYPE: NO_DATA.to_bytes(2, "little"),
        STATUS: status.to_bytes(2, "little"),
        COMMENT: comment.encode("ascii"),
        INSTANCE: request.get(INSTANCE, b""),
    }
    body = b"".join(_element(number, value) for number, value in elements.items() if value)
    return _element(0, len(body).to_bytes(4, "little")) + body


def _element(number: int, value: bytes) -> bytes:
    padded = value + b" " * (len(value) % 2)
    return struct.pack("<HHL", 0, number, len(padded)) + padded


def _p_data(context: int, command: bytes) -> bytes:
    """A PDU with one command in one fragment."""
    size = len(command) + 2
    return struct.pack(">BBLLBB", 4, 0, size + 4, size, context, IS_COMMAND | IS_LAST) + command
