"""A gateway's receiver in this process, and peers that send to it."""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest
from fredholm.apps.scanner.config import Listen, Tls
from fredholm.apps.scanner.receiver import Receiver
from fredholm.pipelines.gateway.completeness import Arrivals
from fredholm.pipelines.gateway.spool import Spool
from pydicom import Dataset
from pydicom.dataset import FileMetaDataset
from pydicom.uid import UID, CTImageStorage, ExplicitVRLittleEndian, MRImageStorage
from pynetdicom import AE
from pynetdicom.association import Association
from pynetdicom.dimse_primitives import C_STORE
from pynetdicom.sop_class import Verification  # pyright: ignore[reportAttributeAccessIssue]

from .gateway import ct

PATIENCE_S = 30.0  # the machine may be busy


def program(name: str, *places: str) -> str:
    """A program of DCMTK or Orthanc; the test is skipped where it is absent."""
    found = shutil.which(name, path=":".join(places or ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")))
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install dcmtk orthanc orthanc-dicomweb")
    return found


def until(true: Callable[[], object], words: str, patience_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end, f"in vain waited until {words}"
        time.sleep(0.02)


class Gate:
    """A receiver with its spool, and what it told the log."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.told: list[str] = []
        given = {"calling": ("CT1",), "port": 1, "free_gb": 1e-6, "timeout_s": 10.0, **options}
        self.listen = Listen(**given)  # pyright: ignore[reportArgumentType]
        object.__setattr__(self.listen, "port", 0)  # any free one; a user must name one
        self.spool = Spool(folder, self.listen.limits)
        self.arrivals = Arrivals(self.spool, quiet_s=0.0)
        self.receiver = Receiver(self.listen, self.arrivals, self.told.append)

    @property
    def port(self) -> int:
        return self.receiver.port

    def held(self, series: str) -> str | None:
        """Its verdict on a series, once nobody brings it any more."""

        def due() -> bool:
            self.receiver.reap()
            return series in self.arrivals.due(time.time())

        until(due, "the series is due")
        return self.arrivals.judge(series, lambda _: None, 0.0)


@contextmanager
def gate(folder: Path, **options: object) -> Iterator[Gate]:
    made = Gate(folder, **options)
    made.receiver.start()
    try:
        yield made
    finally:
        made.receiver.stop(0.0)
        made.spool.close()


def peer(title: str = "CT1", timeout_s: float = 30.0) -> AE:
    entity = AE(title)
    entity.acse_timeout = entity.dimse_timeout = entity.network_timeout = entity.connection_timeout = timeout_s
    for context in (CTImageStorage, MRImageStorage):
        entity.add_requested_context(context, ExplicitVRLittleEndian)
    entity.add_requested_context(Verification)
    return entity


def call(port: int, title: str = "CT1", called: str = "FREDHOLM", **options) -> Association:
    association = peer(title).associate("127.0.0.1", port, ae_title=called, **options)
    if association.dul.socket is not None and association.dul.socket.socket is not None:
        _connections.append(association.dul.socket.socket)
    return association


_connections: list[socket.socket] = []


def close_connections() -> None:
    """pynetdicom leaves those whose other end has gone to the garbage collector."""
    while _connections:
        _connections.pop().close()


def send(association: Association, slices: Iterable[Dataset]) -> list[int]:
    return [association.send_c_store(with_meta(one)).Status for one in slices]


def send_series(port: int, series: int, numbers: Iterable[int], side: int = 8) -> list[int]:
    association = call(port)
    assert association.is_established
    statuses = send(association, (ct(series, number, side) for number in numbers))
    association.release()
    return statuses


def with_meta(dataset: Dataset) -> Dataset:
    if not hasattr(dataset, "file_meta"):
        dataset.file_meta = FileMetaDataset()
        dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID
        dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    return dataset


def store(association: Association, data: bytes, sop_class: str = CTImageStorage, uid: str = "1.2.3") -> int:
    """Send any bytes as an object, on the context for CT images; the status, -1 if there is no answer."""
    context = next(one for one in association.accepted_contexts if one.abstract_syntax == CTImageStorage)
    assert context.context_id is not None
    running = association._reactor_checkpoint.is_set()
    association._reactor_checkpoint.clear()  # as send_c_store does, so that the answer is ours
    try:
        association.dimse.send_msg(request(data, sop_class, uid), context.context_id)
        _, answer = association.dimse.get_msg(block=True)
        return answer.Status if answer is not None else -1
    finally:
        if running:
            association._reactor_checkpoint.set()


def request(data: bytes, sop_class: str = CTImageStorage, uid: str = "1.2.3") -> C_STORE:
    asked = C_STORE()
    asked.MessageID, asked.Priority = 1, 2
    asked.AffectedSOPClassUID, asked.AffectedSOPInstanceUID = UID(sop_class), UID(uid)
    asked.DataSet = BytesIO(data)
    return asked


@dataclass(frozen=True)
class Certificates:
    """An authority, and what it signed for this machine."""

    authority: Path
    certificate: Path
    key: Path

    @property
    def tls(self) -> Tls:
        return Tls(authorities=str(self.authority), certificate=str(self.certificate), key=str(self.key))


def certificates(folder: Path) -> Certificates:
    openssl = program("openssl")
    folder.mkdir(parents=True)

    def call(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    call(*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "root.key", "-out", "root.pem")
    call(*new, "-subj", "/CN=localhost", "-keyout", "own.key", "-out", "own.csr")
    sign = ["x509", "-req", "-days", "2", "-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial"]
    call(*sign, "-in", "own.csr", "-extfile", "names", "-out", "own.pem")
    return Certificates(folder / "root.pem", folder / "own.pem", folder / "own.key")
