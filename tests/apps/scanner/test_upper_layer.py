"""pynetdicom inside is as the receiver takes it to be; where a new version is not, `upper_layer` is to be mended."""

import struct
import threading
from collections.abc import Iterator

import pytest
from fredholm.apps.scanner.upper_layer import UpperLayer
from helpers.scanner import call, until
from pydicom.uid import CTImageStorage
from pynetdicom import AE, evt
from pynetdicom.association import Association
from pynetdicom.sop_class import Verification  # pyright: ignore[reportAttributeAccessIssue]

ECHO = {0x0002: Verification.encode(), 0x0100: b"\x30\0", 0x0110: b"\7\0", 0x0800: b"\1\1"}
ABORT = 7
SUCCESS = 0


class Served:
    """One association with a server of pynetdicom's own: what lies below each end, and what the peer was sent."""

    def __init__(self) -> None:
        self.layers: list[UpperLayer] = []
        self.asked = threading.Event()
        entity = AE("FREDHOLM")
        entity.add_supported_context(Verification)
        entity.add_supported_context(CTImageStorage)
        opened: list[evt.EventHandlerType] = [
            (evt.EVT_CONN_OPEN, lambda event: self.layers.append(UpperLayer(event.assoc)))
        ]
        self.server = entity.start_server(("127.0.0.1", 0), block=False, evt_handlers=opened)
        self.peer: Association = call(self.server.server_address[1])
        (self.layer,) = self.layers
        self.pdus: list[int] = []
        self.peer.bind(evt.EVT_DATA_RECV, lambda event: self.pdus.append(event.data[0]))

    def echo(self) -> int:
        return self.peer.send_c_echo().Status


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.peer.abort()
    made.server.shutdown()


def test_an_open_association_is_in_the_state_that_the_standard_numbers(served: Served) -> None:
    until(served.layer.is_established, "it is established")
    assert not served.layer.has_work()
    served.peer.release()
    until(lambda: not served.layer.is_established(), "it is no more")


def test_its_thread_asks_for_pdus_and_reads_them_as_it_is_told(served: Served) -> None:
    looks, reads = [], []
    stream = served.layer._stream
    own = stream.recv

    def look() -> bool:
        looks.append(threading.current_thread())
        return served.layer.look()

    def receive(size: int) -> bytearray:
        reads.append(size)
        return own(size)

    served.layer.read_by(look, receive)
    assert served.echo() == SUCCESS
    assert set(looks) == {served.layer._dul}
    assert reads[0] == 6  # type and length
    assert len(reads) == 2


def test_the_association_rests_while_nobody_watches_it_and_its_messages_are_counted(served: Served) -> None:
    answers = []
    with served.layer.unwatched():
        asking = threading.Thread(target=lambda: answers.append(served.echo()))
        asking.start()
        until(lambda: served.layer.nr_messages() == 1, "the message waits")
        assert served.layer.has_work()
        asking.join(0.1)
        assert not answers
    asking.join()
    assert answers == [SUCCESS]
    assert served.layer.nr_messages() == 0


def test_a_message_that_is_given_is_answered_as_one_that_came(served: Served) -> None:
    context = next(one for one in served.peer.accepted_contexts if one.abstract_syntax == Verification)
    assert context.context_id is not None
    command = b"".join(struct.pack("<HHL", 0, number, len(value)) + value for number, value in ECHO.items())
    served.peer._reactor_checkpoint.clear()  # the answer is this test's
    served.layer.give(context.context_id, command)
    _, answer = served.peer.dimse.get_msg(block=True)
    assert answer is not None
    assert (answer.MessageIDBeingRespondedTo, answer.Status) == (7, SUCCESS)
    served.peer._reactor_checkpoint.set()


def test_a_peer_that_speaks_no_dicom_is_aborted_and_one_that_hung_up_is_not(served: Served) -> None:
    other = call(served.server.server_address[1])
    served.layer.abort()
    until(lambda: served.peer.is_aborted, "it is aborted")
    assert served.pdus[-1] == ABORT
    pdus = []
    other.bind(evt.EVT_DATA_RECV, lambda event: pdus.append(event.data[0]))
    served.layers[1].hung_up()
    until(lambda: not served.layers[1].association.is_alive() and not other.is_established, "it has ended")
    assert not pdus
