"""A receiver takes what it may from whom it may, promises what it keeps, and cannot be made to wait or to burst."""

import contextlib
import logging
import resource
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fredholm.apps.scanner.receiver import STATUS
from fredholm.pipelines.gateway.arrival import Arrival, Reason
from fredholm.pipelines.gateway.completeness import INTERRUPTED
from helpers.gateway import SECRETS, ct, encoded, kept, on_disk, uid
from helpers.scanner import (
    Certificates,
    Gate,
    call,
    certificates,
    gate,
    program,
    request,
    send,
    send_series,
    store,
    until,
    with_meta,
)
from pydicom.uid import CTImageStorage, MRImageStorage
from pynetdicom.pdu_primitives import P_DATA

SUCCESS, OUT_OF_RESOURCES, OTHER_CLASS, NOT_UNDERSTOOD = 0x0000, 0xA700, 0xA900, 0xC000
TWO_GIGABYTES = 2 << 30


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Gate]:
    with gate(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("trusted") / "pem")


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("strange") / "pem")


def closed(connection: socket.socket, within_s: float) -> bool:
    """Whether the other side hangs up, with or without a last word."""
    connection.settimeout(within_s)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def turned_away(port: int, context: ssl.SSLContext) -> bool:
    """Whether a TLS peer gets no further than the handshake."""
    try:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            return closed(connection, 20)
    except ssl.SSLError:
        return True


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# What is taken


def test_objects_are_kept_as_they_were_sent(here: Gate) -> None:
    assert send_series(here.port, 1, range(3)) == [SUCCESS] * 3
    assert on_disk(here.spool.root)[uid(1, 2)] == ct(1, 2)
    assert here.held(uid(1)) is None
    assert here.receiver.counts == {"new": 3}


def test_an_object_is_on_the_disk_when_success_is_said(here: Gate) -> None:
    association = call(here.port)
    for number in range(3):
        send(association, [ct(1, number)])
        assert kept(here.spool) == [uid(1, each) for each in range(number + 1)]
    association.abort()


def test_dcmtk_can_send(here: Gate, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for number in range(3):
        with_meta(ct(1, number)).save_as(tmp_path / "out" / f"{number}.dcm", enforce_file_format=True)
    command = [program("storescu"), "-aet", "CT1", "-aec", "FREDHOLM", "127.0.0.1", str(here.port)]
    subprocess.run([*command, "+sd", str(tmp_path / "out")], check=True, timeout=60)
    assert len(kept(here.spool)) == 3
    assert here.held(uid(1)) is None


def test_an_echo_is_answered(here: Gate) -> None:
    association = call(here.port)
    assert association.send_c_echo().Status == SUCCESS
    association.release()


def test_the_same_object_again_is_a_success_and_other_bytes_are_none(here: Gate) -> None:
    other = ct(1, 1)
    other.PixelData = b"\7" * len(other.PixelData)
    association = call(here.port)
    assert send(association, [ct(1, 1), ct(1, 1), other]) == [SUCCESS, SUCCESS, NOT_UNDERSTOOD]
    association.release()
    assert on_disk(here.spool.root)[uid(1, 1)] == ct(1, 1)
    assert here.receiver.counts == {"new": 1, "repeated": 1, "other_bytes": 1}


def test_two_series_interleaved_on_two_associations_end_as_two(here: Gate) -> None:
    one, other = call(here.port), call(here.port)
    for number in range(4):
        first, second = (1, 2) if number % 2 else (2, 1)
        assert send(one, [ct(first, number)]) == send(other, [ct(second, number)]) == [SUCCESS]
    one.release()
    other.release()
    assert [here.held(uid(1)), here.held(uid(2))] == [None, None]
    assert kept(here.spool) == sorted(uid(series, number) for series in (1, 2) for number in range(4))


# What is not


@pytest.mark.parametrize(("title", "called"), [("CT2", "FREDHOLM"), ("CT1", "FREUD"), ("ct1", "FREDHOLM")])
def test_other_ae_titles_are_turned_away(here: Gate, title: str, called: str) -> None:
    assert call(here.port, title, called).is_rejected
    until(lambda: here.told, "the log says so")
    assert here.told == [f"an association was refused: called {called!r} by {title!r}"]
    assert here.receiver.counts == {"rejected": 1}


def test_other_sop_classes_are_not_agreed_on(here: Gate) -> None:
    association = call(here.port)
    assert MRImageStorage in {context.abstract_syntax for context in association.rejected_contexts}
    association.release()


def test_an_object_of_another_class_than_agreed_is_refused(here: Gate) -> None:
    association = call(here.port)
    image = ct(1, 1)
    image.SOPClassUID = MRImageStorage
    assert store(association, encoded(image), MRImageStorage, uid(1, 1)) == OTHER_CLASS
    assert store(association, encoded(image), CTImageStorage, uid(1, 1)) == OTHER_CLASS
    association.release()
    assert kept(here.spool) == []


def test_more_associations_than_allowed_are_turned_away(tmp_path: Path) -> None:
    with gate(tmp_path, associations=2) as here:
        taken = [call(here.port) for _ in range(2)]
        assert call(here.port).is_rejected
        for association in taken:
            association.release()


@pytest.mark.parametrize("data", [b"\0" * 400, b"\xff" * 400, b"\x08\x00\x05\x00CS\x0a\x00Doe^Jane\\x"])
def test_bytes_that_are_no_object_are_refused_and_the_next_is_taken(here: Gate, data: bytes) -> None:
    association = call(here.port)
    assert store(association, data) == NOT_UNDERSTOOD
    assert store(association, encoded(ct(1, 1)), uid=uid(1, 1)) == SUCCESS
    association.release()


@pytest.mark.filterwarnings("ignore:Invalid value for VR UI")  # both sides of pynetdicom are in this process
def test_a_path_for_a_uid_is_refused(here: Gate) -> None:
    association = call(here.port)
    assert store(association, encoded(ct(1, 1)), uid="../../../etc/x") == NOT_UNDERSTOOD
    association.release()
    assert "object without a UID from 'CT1' was refused" in here.told[0]


def test_an_object_beyond_the_limit_is_refused_and_its_series_held(tmp_path: Path) -> None:
    with gate(tmp_path, object_mb=0.01) as here:
        association = call(here.port)
        assert send(association, [ct(1, 1), ct(1, 2, side=128), ct(1, 3)]) == [SUCCESS, OUT_OF_RESOURCES, SUCCESS]
        association.release()
        held = here.held(uid(1))
        assert held is not None
        assert "1 of its objects were refused" in held


def test_a_huge_object_is_refused_without_being_held_in_memory(tmp_path: Path) -> None:
    huge = with_meta(ct(1, 1))
    huge.PixelData = bytes(160 << 20)
    huge.save_as(tmp_path / "huge.dcm", enforce_file_format=True)
    with gate(tmp_path / "spool", object_mb=1) as here:
        before = peak_mb()
        command = [program("storescu"), "-v", "-aet", "CT1", "-aec", "FREDHOLM", "127.0.0.1", str(here.port)]
        sent = subprocess.run([*command, str(tmp_path / "huge.dcm")], capture_output=True, text=True, timeout=100)
        assert "Refused: OutOfResources" in sent.stdout + sent.stderr
        assert peak_mb() - before < 20
        assert kept(here.spool) == []


def test_where_the_disk_is_full_the_peer_is_told(tmp_path: Path) -> None:
    with gate(tmp_path, free_gb=1e6) as here:
        assert send_series(here.port, 1, [1]) == [OUT_OF_RESOURCES]


def test_every_refusal_fits_its_field_and_has_a_failures_status() -> None:
    assert all(len(reason.value) <= 64 for reason in Reason)
    assert all(0xA700 <= STATUS.get(reason, NOT_UNDERSTOOD) <= 0xCFFF for reason in Reason)


# Peers that break off, stall or lie


def test_a_series_of_an_association_that_broke_is_held_until_it_comes_again(here: Gate) -> None:
    association = call(here.port)
    send(association, [ct(1, 1), ct(1, 2)])
    association.abort()
    assert here.held(uid(1)) == INTERRUPTED
    assert any(uid(1) in line for line in here.told)
    send_series(here.port, 1, range(1, 4))
    assert here.held(uid(1)) is None


def test_a_series_of_a_connection_that_vanished_is_held(here: Gate) -> None:
    association = call(here.port)
    send(association, [ct(1, 1), ct(1, 2)])
    assert association.dul.socket is not None
    association.dul.socket.close()
    assert here.held(uid(1)) == INTERRUPTED


@pytest.mark.parametrize(
    "words", [b"", b"\x01", b"\x01\0" + struct.pack(">L", 200) + b"\0\1", b"\x04\0\0\0\4\0"], ids=len
)
def test_a_peer_that_stalls_is_dropped_and_holds_nobody_up(tmp_path: Path, words: bytes) -> None:
    with gate(tmp_path, timeout_s=0.6) as here, socket.create_connection(("127.0.0.1", here.port)) as silent:
        silent.sendall(words)
        assert send_series(here.port, 1, range(2)) == [SUCCESS] * 2
        assert closed(silent, 20)


def test_a_peer_that_stalls_within_an_object_is_dropped_and_its_series_held(tmp_path: Path) -> None:
    with gate(tmp_path, timeout_s=0.6) as here:
        association = call(here.port)
        send(association, [ct(1, 1), ct(1, 2)])
        assert association.dul.socket is not None
        assert association.dul.socket.socket is not None
        association.dul.socket.socket.sendall(b"\x04\0" + struct.pack(">L", 5000) + b"\0" * 100)
        assert here.held(uid(1)) == INTERRUPTED
        until(lambda: association.is_aborted or not association.is_established, "the peer has heard of it")


def test_a_pdu_that_announces_two_gigabytes_is_not_waited_for(here: Gate) -> None:
    before = peak_mb()
    with socket.create_connection(("127.0.0.1", here.port)) as liar:
        liar.sendall(b"\x04\0" + struct.pack(">L", TWO_GIGABYTES) + bytes(1 << 16))
        assert closed(liar, 5)
    assert peak_mb() - before < 50
    assert send_series(here.port, 1, [1]) == [SUCCESS]


def test_an_element_that_announces_two_gigabytes_is_only_an_odd_element(here: Gate) -> None:
    association, data = call(here.port), encoded(ct(1, 1))
    place = data.index(b"\xe0\x7f\x10\x00OW\0\0") + 8
    lying = data[:place] + struct.pack("<L", TWO_GIGABYTES) + data[place + 4 :]
    assert store(association, lying, uid=uid(1, 1)) == SUCCESS  # kept as it came; no reader will take it
    association.release()


@pytest.mark.filterwarnings("ignore")
def test_of_a_peer_that_does_not_wait_for_answers_no_object_waits_in_memory(
    here: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, waiting = here.spool.keep, []

    def slow(arrival: Arrival, association: str, now: float) -> str:
        time.sleep(0.05)
        waiting.extend(one.dimse.msg_queue.qsize() for one in here.receiver._server.active_associations)
        return keep(arrival, association, now)

    monkeypatch.setattr(here.spool, "keep", slow)
    association = call(here.port)
    context = association.accepted_contexts[0].context_id
    assert context is not None
    for number in range(12):
        association.dimse.send_msg(request(encoded(ct(1, number)), uid=uid(1, number)), context)
    association.release()
    assert waiting == [0] * 12
    assert here.held(uid(1)) is None
    assert len(kept(here.spool)) == 12


@pytest.mark.parametrize("command", [b"\xff" * 40, b"", bytes(12), bytes(200_000)], ids=len)
def test_a_malformed_command_ends_the_association_and_nothing_else(here: Gate, command: bytes) -> None:
    association = call(here.port)
    context = association.accepted_contexts[0].context_id
    assert context is not None
    for start in range(0, max(1, len(command)), 60_000):
        piece = command[start : start + 60_000]
        data = P_DATA()
        last = start + 60_000 >= len(command)
        data.presentation_data_value_list = [[context, (b"\3" if last else b"\1") + piece]]  # pyright: ignore
        association.dul.send_pdu(data)
    until(lambda: association.is_aborted or not association.is_alive(), "it is aborted")
    assert send_series(here.port, 1, [1]) == [SUCCESS]


def test_a_bug_ends_the_association_without_a_traceback_and_its_series_is_held(
    here: Gate, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    association = call(here.port)
    send(association, [ct(1, 1)])
    with monkeypatch.context() as broken:
        broken.setattr(here.spool, "keep", lambda *_: (_ for _ in ()).throw(RuntimeError(SECRETS[0])))
        with contextlib.suppress(RuntimeError, AttributeError):  # there is no answer
            send(association, [ct(1, 2)])
        until(lambda: association.is_aborted or not association.is_alive(), "it is aborted")
    assert here.held(uid(1)) == INTERRUPTED
    assert here.told[0] == f"object {uid(1, 2)} from 'CT1' could not be kept: RuntimeError"
    assert "Traceback" not in "".join(capfd.readouterr())


# TLS


def tls_call(port: int, context: ssl.SSLContext):
    return call(port, tls_args=(context, "localhost"))


def test_a_peer_with_a_certificate_that_we_trust_is_served(tmp_path: Path, trusted: Certificates) -> None:
    with gate(tmp_path, tls=trusted.tls) as here:
        association = tls_call(here.port, trusted.tls.client())
        assert send(association, [ct(1, 1), ct(1, 2, side=128)]) == [SUCCESS] * 2
        association.release()
        assert here.held(uid(1)) is None


def test_a_peer_without_a_certificate_or_with_a_strange_one_is_not(
    tmp_path: Path, trusted: Certificates, strange: Certificates
) -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(trusted.authority)
    forged = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    forged.load_verify_locations(trusted.authority)
    forged.load_cert_chain(strange.certificate, strange.key)
    with gate(tmp_path, tls=trusted.tls, timeout_s=2) as here:
        assert turned_away(here.port, bare)
        assert turned_away(here.port, forged)
        with socket.create_connection(("127.0.0.1", here.port)) as plain:
            plain.sendall(b"\x01\0" + struct.pack(">L", 200) + bytes(200))
            assert closed(plain, 20)
        until(lambda: len(here.told) == 3, "the log says so")
        assert {line.split(":")[0] for line in here.told} == {"a connection was dropped"}
        assert kept(here.spool) == []


def test_a_peer_that_does_not_shake_hands_holds_nobody_up(tmp_path: Path, trusted: Certificates) -> None:
    with (
        gate(tmp_path, tls=trusted.tls, timeout_s=1.5) as here,
        socket.create_connection(("127.0.0.1", here.port)) as silent,
    ):
        association = tls_call(here.port, trusted.tls.client())
        assert send(association, [ct(1, 1)]) == [SUCCESS]
        association.release()
        assert closed(silent, 20)


def test_we_trust_no_peer_of_strangers(tmp_path: Path, trusted: Certificates, strange: Certificates) -> None:
    with gate(tmp_path, tls=strange.tls, timeout_s=2) as here:
        assert turned_away(here.port, trusted.tls.client())


# The end


def test_stopping_lets_an_open_association_end_and_takes_no_new_one(tmp_path: Path) -> None:
    with gate(tmp_path) as here:
        association = call(here.port)
        send(association, [ct(1, 1)])
        threading.Timer(0.5, association.release).start()
        here.receiver.stop(20.0)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", here.port))
        assert here.held(uid(1)) is None


def test_stopping_ends_what_does_not_end_by_itself(tmp_path: Path) -> None:
    with gate(tmp_path) as here:
        association = call(here.port)
        send(association, [ct(1, 1)])
        here.receiver.stop(0.1)
        until(lambda: association.is_aborted or not association.is_alive(), "it is aborted")
        assert here.held(uid(1)) == INTERRUPTED


def test_nothing_of_the_patient_is_told(
    here: Gate, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.CRITICAL, logger="pynetdicom")  # as `serve` does
    other = ct(1, 1)
    other.PatientName = "Roe^Richard"
    association = call(here.port)
    send(association, [ct(1, 1), other])
    store(association, encoded(ct(1, 2))[:200], uid=uid(1, 2))
    association.abort()
    here.held(uid(1))
    text = "\n".join([*here.told, caplog.text, *capfd.readouterr()])
    assert uid(1, 1) in text
    assert not any(secret in text for secret in (*SECRETS, "Roe", "127.0.0.1"))
