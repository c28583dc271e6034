"""Orthanc on loopback, started and stopped by tests, and a wire to it that can be cut."""

import contextlib
import json
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .scanner import program, until

PLUGIN = Path("/usr/share/orthanc/plugins/libOrthancDicomWeb.so")
WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Orthanc:
    """A PACS with its data in a folder; may be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.program = program("Orthanc", "/usr/sbin", "/usr/bin", "/usr/local/bin")
        if not PLUGIN.is_file():
            pytest.skip("Orthanc's DICOMweb is not installed: apt-get install orthanc-dicomweb")
        self.folder, self.http, self.dicom = folder, free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        settings = {
            "Name": "TESTPACS",
            "StorageDirectory": str(folder / "db"),
            "IndexDirectory": str(folder / "db"),
            "Plugins": [str(PLUGIN)],
            "HttpPort": self.http,
            "RemoteAccessAllowed": False,
            "AuthenticationEnabled": False,
            "DicomAet": "TESTPACS",
            "DicomPort": self.dicom,
            "DicomCheckCalledAet": True,
            "DicomAlwaysAllowStore": True,
            "UnknownSopClassAccepted": True,
            "DicomWeb": {"Enable": True, "Root": "/dicom-web/", "EnableWado": True},
        }
        (folder / "orthanc.json").write_text(json.dumps(settings))

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.http}/dicom-web"

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            [self.program, str(self.folder / "orthanc.json")], stdout=log, stderr=log, cwd=self.folder
        )
        log.close()
        until(self._answers, "Orthanc answers", 60)

    def stop(self) -> None:
        """Let it write down all that it has, which takes some seconds."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def find(self, level: str = "Instance", **query: str) -> list[dict]:
        """What it has, by Orthanc's own interface."""
        asked = json.dumps({"Level": level, "Expand": True, "Query": query}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}/tools/find", asked)
        with WITHOUT_PROXY.open(request, timeout=30) as answer:
            return json.load(answer)

    def segmentations(self) -> list[bytes]:
        """Every SEG object it has."""
        return [
            self._get(f"/instances/{one['ID']}/file") for one in self.find(SOPClassUID="1.2.840.10008.5.1.4.1.1.66.4")
        ]

    def empty(self) -> None:
        for one in self.find("Patient"):
            request = urllib.request.Request(f"http://127.0.0.1:{self.http}/patients/{one['ID']}", method="DELETE")
            WITHOUT_PROXY.open(request, timeout=30).close()

    def know(self, name: str, title: str, port: int) -> None:
        """Let it send to a peer on this machine, and answer it."""
        said = json.dumps({"AET": title, "Host": "127.0.0.1", "Port": port}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}/modalities/{name}", said, method="PUT")
        WITHOUT_PROXY.open(request, timeout=30).close()

    def store(self, dataset: bytes) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}/instances", dataset)
        WITHOUT_PROXY.open(request, timeout=30).close()

    def _get(self, path: str) -> bytes:
        with WITHOUT_PROXY.open(f"http://127.0.0.1:{self.http}{path}", timeout=30) as answer:
            return answer.read()

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            return bool(self._get("/system"))
        except OSError:
            return False


@contextmanager
def orthanc(folder: Path) -> Iterator[Orthanc]:
    made = Orthanc(folder)
    made.start()
    try:
        yield made
    finally:
        made.kill()


class Wire:
    """A TCP port that passes bytes on to another; answers can be withheld."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.withhold = threading.Event()
        self.withheld = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = [self._listening]
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                self._ends += [near, far]
                threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                # An association must come about; the answer to what was sent is a P-DATA PDU, type 4.
                if answers and self.withhold.is_set() and data[0] == 4:
                    self.withheld.set()
                    continue
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
