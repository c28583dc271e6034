"""A result counts as sent when its receiver says that it is stored, and why it is not is said without its contents."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from fredholm.apps.scanner.config import Store, Web
from fredholm.apps.scanner.faults import PeerError
from fredholm.apps.scanner.sender import Send, by_store, by_stow
from helpers.gateway import SECRETS, ct, uid
from helpers.pacs import Orthanc, free_port
from helpers.scanner import Certificates, certificates, with_meta
from pydicom.uid import CTImageStorage
from pynetdicom import AE, evt


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.dcm"
    with_meta(ct(1, 1)).save_as(path, enforce_file_format=True)
    return path


@pytest.fixture
def trusted(tmp_path: Path) -> Certificates:
    return certificates(tmp_path / "pem")


@contextmanager
def archive(status: int, sop_class: str = CTImageStorage, **options) -> Iterator[int]:
    entity = AE("ARCHIVE")
    entity.add_supported_context(sop_class)
    entity.require_called_aet = True
    handlers = [(evt.EVT_C_STORE, lambda _: status)]
    server = entity.start_server(("127.0.0.1", 0), block=False, evt_handlers=handlers, **options)
    assert server is not None
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()


def store(port: int, title: str = "ARCHIVE", **options) -> Send:
    return by_store(Store(name="a", ae_title=title, host="127.0.0.1", port=port, **options), "FREDHOLM", timeout_s=5)


def why(send: Send, path: Path) -> str:
    with pytest.raises(PeerError) as caught:
        send(path)
    assert not any(secret in str(caught.value) for secret in (*SECRETS, "127.0.0.1"))
    return str(caught.value)


@pytest.mark.parametrize("status", [0x0000, 0xB000, 0xB006, 0x0111])
def test_what_is_stored_is_sent(image: Path, status: int) -> None:
    with archive(status) as port:
        store(port)(image)


@pytest.mark.parametrize("status", [0xA700, 0xA900, 0xC000, 0x0122])
def test_a_failure_is_told_by_its_status(image: Path, status: int) -> None:
    with archive(status) as port:
        assert why(store(port), image) == f"refused with status 0x{status:04X}"


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # pynetdicom's, where nobody answers
def test_an_association_that_does_not_come_about_is_told(image: Path) -> None:
    with archive(0) as port:
        assert why(store(port, "OTHER"), image) == "the association was refused"
    with archive(0, "1.2.840.10008.5.1.4.1.1.4") as port:
        assert why(store(port), image) == "this SOP class and transfer syntax are not taken there"
    assert why(store(free_port()), image) == "nobody answers"


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_receiver_that_stalls_is_given_up(image: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = Store(name="a", ae_title="ARCHIVE", host="127.0.0.1", port=silent.getsockname()[1])
        assert why(by_store(target, "FREDHOLM", timeout_s=0.5), image) == "nobody answers"
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert why(by_stow(Web(name="w", url=url), timeout_s=0.5), image) == "nobody answers (ReadTimeout)"


def test_tls_is_spoken_with_our_certificate(image: Path, trusted: Certificates) -> None:
    with archive(0, ssl_context=trusted.tls.server()) as port:
        store(port, tls=trusted.tls)(image)


def test_stow_stores(image: Path, pacs: Orthanc) -> None:
    send = by_stow(Web(name="w", url=pacs.web))
    send(image)
    send(image)  # a second time is no failure
    assert len(pacs.find(SOPInstanceUID=uid(1, 1))) == 1


def test_stow_tells_a_refusal_by_its_status(image: Path, pacs: Orthanc) -> None:
    assert why(by_stow(Web(name="w", url=pacs.web + "/nowhere")), image).startswith("refused with HTTP status 4")
    assert why(by_stow(Web(name="w", url=f"http://127.0.0.1:{free_port()}")), image).startswith("nobody answers")


def test_stow_shows_its_authorization(image: Path, tmp_path: Path) -> None:
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.headers["Authorization"])
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    (tmp_path / "token").write_text("Bearer abc\n")
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        target = Web(
            name="w", url=f"http://127.0.0.1:{server.server_address[1]}", authorization=str(tmp_path / "token")
        )
        assert why(by_stow(target, timeout_s=10), image) == "refused with HTTP status 401"
        server.shutdown()
    assert seen == ["Bearer abc"]
