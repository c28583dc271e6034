"""Damaged objects: each is answered, and read or refused by name; none brings down the receiver or the reader.

FREDHOLM_FUZZ sets how many are tried, 10000 for a thorough search; the seed is fixed.
"""

import os
import random
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fredholm.pipelines.dicom import SeriesError, find_series, read_series
from fredholm.pipelines.gateway.arrival import Arrival
from helpers.gateway import ct, encoded, uid
from helpers.scanner import Gate, call, gate, store, until
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, ImplicitVRLittleEndian

NUMBER = int(os.environ.get("FREDHOLM_FUZZ", "300"))
SLICES = 3
STANDSTILL_S = 3600.0  # nobody counts as stalled where a busy machine lets everybody wait
SUCCESS = 0
REFUSED = {0xA700, 0xA900, 0xC000}

pytestmark = pytest.mark.filterwarnings("ignore")  # pydicom's, on each odd value


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Gate]:
    with gate(tmp_path / "spool", timeout_s=STANDSTILL_S) as made:
        yield made


def damaged(data: bytes, chance: random.Random) -> bytes:
    """One to four injuries: bits, bytes, lengths, pieces cut out, doubled, moved or put in, and the end cut off."""
    wounded = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        # Most of an object is pixels, and most of what can go wrong stands before them.
        reach = min(len(wounded), 1200) if chance.random() < 0.8 else len(wounded)
        at = chance.randrange(max(reach, 1))
        span = chance.choice((1, 2, 4, 8, 64))
        match chance.randrange(8):
            case 0:
                wounded[at : at + 1] = bytes(byte ^ 1 << chance.randrange(8) for byte in wounded[at : at + 1])
            case 1:
                wounded[at : at + span] = chance.randbytes(span)
            case 2:
                wounded[at : at + span] = chance.choice((b"\0", b"\xff", b"\x7f", b"\\", b"9")) * span
            case 3:
                wounded[at : at + 4] = chance.choice((0xFFFFFFFF, 0x7FFFFFFF, 2 << 20, 0)).to_bytes(4, "little")
            case 4:
                del wounded[at : at + span]
            case 5:
                wounded[at:at] = wounded[at : at + span]
            case 6:
                wounded[at:at] = chance.randbytes(span)
            case 7:
                del wounded[max(at, 1) :]
    return bytes(wounded) or b"\0"  # of nothing pynetdicom sends nothing, for which the receiver rightly waits


def test_every_damaged_object_is_answered_and_the_receiver_goes_on(
    here: Gate, capfd: pytest.CaptureFixture[str]
) -> None:
    chance, answers = random.Random(1), Counter[int]()
    association = call(here.port)
    association.network_timeout = STANDSTILL_S
    association._reactor_checkpoint.clear()  # else its thread takes an answer in some thousands
    time.sleep(0.1)
    connection = association.dul.socket.socket  # pyright: ignore
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else 40 ms for each object
    for number in range(NUMBER):
        answers[store(association, damaged(encoded(ct(2, number)), chance), CTImageStorage, uid(2, number))] += 1
        assert association.is_established
    assert store(association, encoded(ct(1, 1)), uid=uid(1, 1)) == SUCCESS
    association._reactor_checkpoint.set()
    association.release()
    assert sum(answers.values()) == NUMBER
    assert SUCCESS in answers
    assert set(answers) <= {SUCCESS, *REFUSED}
    until(lambda: not here.receiver._server.active_associations, "the association has ended")
    here.spool.settle()
    assert len(list((here.spool.root / "series").rglob("*.dcm"))) == answers[SUCCESS] + 1
    assert here.receiver.counts["errors"] == 0
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_every_damaged_slice_is_refused_or_read(tmp_path: Path, syntax: str) -> None:
    chance, outcomes = random.Random(2), Counter[str]()
    slices = [encoded(ct(1, number), syntax) for number in range(SLICES)]
    for number, data in enumerate(slices):
        keep(tmp_path, number, syntax, data)
    for _ in range(NUMBER // 2):
        number = chance.randrange(SLICES)
        keep(tmp_path, number, syntax, damaged(slices[number], chance))
        outcomes[read(tmp_path)] += 1
        keep(tmp_path, number, syntax, slices[number])
    assert read(tmp_path) == "read"
    assert outcomes["read"] < outcomes.total()


def keep(folder: Path, number: int, syntax: str, data: bytes) -> None:
    """As the spool would write it, whatever is in it."""
    arrival = Arrival(CTImageStorage, uid(1, number), syntax, data, uid(1))
    (folder / f"{number}.dcm").write_bytes(arrival.preamble() + data)


def read(folder: Path) -> str:
    """What the worker does with a series: it reads, or names what is wrong; anything else fails the test."""
    try:
        read_series(find_series(folder).only())
    except SeriesError as error:
        return error.code.name
    return "read"
