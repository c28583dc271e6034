"""Objects come whole out of whatever fragments they are cut into; what is no object ends the association, no more."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fredholm.apps.scanner.stores import IS_COMMAND, IS_LAST
from helpers.gateway import ct, encoded, kept, on_disk, uid
from helpers.scanner import Gate, call, gate, send_series, until
from pydicom.uid import CTImageStorage
from pynetdicom.association import Association

SUCCESS, NOT_UNDERSTOOD = 0x0000, 0xC000
WITH_DATA, WITHOUT_DATA = 0x0001, 0x0101
Fragment = tuple[int, bytes]  # the byte that says what it is, and what it carries


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Gate]:
    with gate(tmp_path) as made:
        yield made


@pytest.fixture
def association(here: Gate) -> Association:
    made = call(here.port)
    made._reactor_checkpoint.clear()  # answers are this test's
    return made


def command(instance: str, data_type: int = WITH_DATA) -> bytes:
    """A C-STORE request."""
    values = {0x0002: CTImageStorage.encode(), 0x0100: b"\1\0", 0x0110: b"\7\0", 0x0700: b"\2\0"}
    values |= {0x0800: struct.pack("<H", data_type), 0x1000: instance.encode()}
    padded = {number: value + b"\0" * (len(value) % 2) for number, value in values.items()}
    return b"".join(struct.pack("<HHL", 0, number, len(value)) + value for number, value in padded.items())


def cut(data: bytes, kind: int, size: int) -> list[Fragment]:
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return [(kind | IS_LAST * (number == len(pieces)), piece) for number, piece in enumerate(pieces, 1)]


def post(association: Association, fragments: Sequence[Fragment], each: int = 1) -> None:
    """Send PDUs of so many fragments."""
    assert association.dul.socket is not None
    assert association.dul.socket.socket is not None
    context = next(one.context_id for one in association.accepted_contexts if one.abstract_syntax == CTImageStorage)
    items = [struct.pack(">LBB", len(piece) + 2, context, kind) + piece for kind, piece in fragments]
    for start in range(0, len(items), each):
        content = b"".join(items[start : start + each])
        association.dul.socket.socket.sendall(struct.pack(">BBL", 4, 0, len(content)) + content)


def answer(association: Association) -> int:
    _, message = association.dimse.get_msg(block=True)
    assert message is not None
    assert message.MessageIDBeingRespondedTo == 7
    return message.Status


@pytest.mark.parametrize(("size", "each"), [(10_000, 2), (100, 1), (37, 5), (1, 1000)])
def test_an_object_comes_whole_out_of_any_fragments(here: Gate, association: Association, size: int, each: int) -> None:
    for number in (1, 2):
        instance, data = uid(1, number), encoded(ct(1, number))
        post(association, cut(command(instance), IS_COMMAND, size) + cut(data, 0, size), each)
        assert answer(association) == SUCCESS
        assert on_disk(here.spool.root)[instance] == ct(1, number)


def test_an_object_without_data_is_refused_and_the_next_is_taken(here: Gate, association: Association) -> None:
    post(association, [(IS_COMMAND | IS_LAST, command(uid(1, 1), WITHOUT_DATA))])
    assert answer(association) == NOT_UNDERSTOOD
    post(association, [(IS_COMMAND | IS_LAST, command(uid(1, 2))), (IS_LAST, encoded(ct(1, 2)))])
    assert answer(association) == SUCCESS
    assert kept(here.spool) == [uid(1, 2)]


@pytest.mark.parametrize(
    "fragments",
    [
        [(IS_LAST, b"data that nobody announced")],
        [(IS_COMMAND | IS_LAST, command(uid(1, 1))), (IS_COMMAND | IS_LAST, command(uid(1, 2)))],
        [(IS_COMMAND | IS_LAST, command(uid(1, 1))[:-3])],
        [(IS_COMMAND | IS_LAST, command(uid(1, 1)).replace(b"\0\0\x10\1", b"\0\0\x11\1"))],
    ],
    ids=["data first", "command within an object", "cut command", "no message ID"],
)
def test_what_does_not_fit_ends_the_association(
    here: Gate, association: Association, fragments: Sequence[Fragment]
) -> None:
    post(association, fragments)
    association._reactor_checkpoint.set()
    until(lambda: association.is_aborted or not association.is_alive(), "it is aborted")
    assert send_series(here.port, 1, [1]) == [SUCCESS]


def test_a_fragment_longer_than_its_pdu_ends_the_association(here: Gate, association: Association) -> None:
    assert association.dul.socket is not None
    assert association.dul.socket.socket is not None
    association.dul.socket.socket.sendall(struct.pack(">BBLLBB", 4, 0, 6, 500, 1, IS_COMMAND))
    association._reactor_checkpoint.set()
    until(lambda: association.is_aborted or not association.is_alive(), "it is aborted")
    assert send_series(here.port, 1, [1]) == [SUCCESS]
