"""The gateway's YAML file: who may send what, where results go, what is kept and for how long."""

import ipaddress
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ...pipelines.gateway.arrival import is_uid
from ...pipelines.gateway.outbox import Retries
from ...pipelines.gateway.spool import Limits
from ...pipelines.records import read_record

CT = ("1.2.840.10008.5.1.4.1.1.2", "1.2.840.10008.5.1.4.1.1.2.1")  # CT Image, Enhanced CT Image
MEGABYTE, DAY_S = 1 << 20, 86_400.0

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Certificates, each a PEM file.

    Args:
        authorities: Who must have signed the other side's certificate.
        certificate: Our own, with the chain to a root that the other side knows.
        key: Of `certificate`, without a password.
    """

    authorities: str
    certificate: str
    key: str

    def __post_init__(self) -> None:
        for name in ("authorities", "certificate", "key"):
            _text(name, getattr(self, name))

    def server(self) -> ssl.SSLContext:
        """For those who connect to us: a client without a certificate that we trust is turned away."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        return self._loaded(context)

    def client(self) -> ssl.SSLContext:
        """For those whom we connect to; their certificate must be of the host that is called."""
        return self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_verify_locations(self.authorities)
            context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except OSError as error:
            files = f"{self.authorities}, {self.certificate}, {self.key}"
            raise ValueError(f"tls: cannot read these as PEM files ({files}): {error}") from None
        return context


@dataclass(frozen=True, kw_only=True)
class Listen:
    """What is taken from whom.

    Args:
        calling: AE titles that may send; others are turned away.
        ae_title: Our own, by which we must be called.
        host: Address to serve on.
        port: TCP port.
        tls: Certificates; None for plain DICOM.
        plain_network: Allows plain DICOM on another address than this machine's own.
        sop_classes: What is taken; CT images, single-frame and enhanced, unless others are named.
        timeout_s: How long a peer may keep us waiting.
        associations: How many at once.
        object_mb: Largest object. It is held in memory while it comes.
        free_gb: What must stay free on the disk.
    """

    calling: tuple[str, ...]
    ae_title: str = "FREDHOLM"
    host: str = "127.0.0.1"
    port: int = 11112
    tls: Tls | None = None
    plain_network: bool = False
    sop_classes: tuple[str, ...] = CT
    timeout_s: float = 60.0
    associations: int = 10
    object_mb: float = 512.0
    free_gb: float = 2.0

    def __post_init__(self) -> None:
        if not isinstance(self.calling, tuple) or not self.calling:
            raise ValueError("calling is a list of AE titles that may send, one at least")
        for title in (*self.calling, self.ae_title):
            _ae_title(title)
        _text("host", self.host)
        _number("port", self.port, 1, 65_535, int)
        if not isinstance(self.sop_classes, tuple) or not all(
            isinstance(uid, str) and is_uid(uid) for uid in self.sop_classes
        ):
            raise ValueError(f"sop_classes is a list of UIDs, not {self.sop_classes!r}")
        _number("associations", self.associations, 1, 1000, int)
        for name in ("timeout_s", "object_mb", "free_gb"):
            _number(name, getattr(self, name), 1e-6, 1e6, float)
        _yes_or_no("plain_network", self.plain_network)
        if self.tls is None and not self.plain_network and not is_loopback(self.host):
            raise ValueError(
                f"{self.host} can be reached from other machines: give tls, or set plain_network: true if the network"
                " itself protects patients' data"
            )

    @property
    def limits(self) -> Limits:
        """What is refused for its size."""
        return Limits(int(self.object_mb * MEGABYTE), int(self.free_gb * 1024 * MEGABYTE))


@dataclass(frozen=True, kw_only=True)
class Store:
    """An archive by DICOM: results go there by C-STORE, series come from there by C-GET or C-MOVE.

    Args:
        name: By which the states and the log call it.
        ae_title: Its own.
        host: Its address.
        port: Its TCP port.
        tls: Certificates; None for plain DICOM.
        results: Whether results are sent there; if not, it is only fetched from.
    """

    name: str
    ae_title: str
    host: str
    port: int
    tls: Tls | None = None
    results: bool = True

    def __post_init__(self) -> None:
        _text("name", self.name)
        _ae_title(self.ae_title)
        _text("host", self.host)
        _number("port", self.port, 1, 65_535, int)
        _yes_or_no("results", self.results)


@dataclass(frozen=True, kw_only=True)
class Web:
    """An archive by DICOMweb: results go there by STOW-RS, series come from there by QIDO-RS and WADO-RS.

    Args:
        name: By which the states and the log call it.
        url: Of its DICOMweb service.
        authorization: File whose first line is sent as the Authorization header, such as "Bearer ..."; None for none.
        tls: Certificates; None for those that the system trusts, and none of our own.
        results: Whether results are sent there; if not, it is only fetched from.
    """

    name: str
    url: str
    authorization: str | None = None
    tls: Tls | None = None
    results: bool = True

    def __post_init__(self) -> None:
        _text("name", self.name)
        if not isinstance(self.url, str) or not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url starts with https:// or http://, not {self.url!r}")
        if self.authorization is not None:
            _text("authorization", self.authorization)
        _yes_or_no("results", self.results)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The whole file.

    Args:
        folder: Where objects, results and states are kept.
        run: Folder of the trained run that labels.
        listen: What is taken from whom.
        c_store: Archives by DICOM.
        stow_rs: Archives by DICOMweb.
        quiet_s: Seconds without a new object after which a series may be whole.
        keep_days: How long a series and its results are kept after its last object came.
        ready_mb: Room that is laid out on the disk for a series to come, twice; it is taken faster then. 0 for none.
        retries: When failed deliveries are tried again.
        page_port: Port of the status page, on this machine alone; 0 for none.
        view: Whether pages that show each labelled series are written; the status page leads to them.
        device: Where the network runs: auto, cpu, cuda.
    """

    folder: str
    run: str
    listen: Listen
    c_store: tuple[Store, ...] = ()
    stow_rs: tuple[Web, ...] = ()
    quiet_s: float = 60.0
    keep_days: float = 7.0
    ready_mb: float = 256.0
    retries: Retries = field(default_factory=Retries)
    page_port: int = 11180
    view: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("folder", "run", "device"):
            _text(name, getattr(self, name))
        if not isinstance(self.listen, Listen):
            raise ValueError("listen is missing")
        for name, kind in (("c_store", Store), ("stow_rs", Web)):
            found = getattr(self, name)
            if not isinstance(found, tuple) or not all(isinstance(one, kind) for one in found):
                raise ValueError(f"{name} is a list of archives")
        names = [one.name for one in (*self.c_store, *self.stow_rs)]
        if len(set(names)) != len(names):
            raise ValueError(f"each archive needs a name of its own, these are {', '.join(names)}")
        if not isinstance(self.retries, Retries):
            raise ValueError("retries is empty")
        _number("quiet_s", self.quiet_s, 0.0, DAY_S, float)
        _number("keep_days", self.keep_days, 0.0, 36_500.0, float)
        _number("ready_mb", self.ready_mb, 0.0, 1e6, float)
        _number("page_port", self.page_port, 0, 65_535, int)
        _yes_or_no("view", self.view)

    @classmethod
    def read(cls, path: Path) -> "Config":
        """Read the file; see `read_record` for what it raises."""
        return read_record(cls, path, _RECORDS)

    @property
    def spool_folder(self) -> Path:
        """`folder` as a path."""
        return Path(self.folder)

    def archive(self, name: str) -> Store | Web:
        """The archive of this name.

        Raises:
            ValueError: There is none.
        """
        known = {one.name: one for one in (*self.c_store, *self.stow_rs)}
        if name not in known:
            raise ValueError(f"no archive {name!r} in the configuration, known are: {', '.join(known) or 'none'}")
        return known[name]


_RECORDS: dict[str, type] = {
    "listen": Listen,
    "tls": Tls,
    "c_store": Store,
    "stow_rs": Web,
    "retries": Retries,
}


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone; a name other than localhost may be anybody's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is a text, not {value!r}")


def _yes_or_no(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is true or false, not {value!r}")


def _ae_title(value: object) -> None:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= 16 or not value.isascii() or "\\" in value:
        raise ValueError(f"an AE title is 1 to 16 ASCII characters, not {value!r}")


def _number(name: str, value: object, least: Number, most: Number, kind: type[Number]) -> None:
    kinds = int if kind is int else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        words = "a whole number" if kind is int else "a number"
        raise ValueError(f"{name} is {words} from {least} to {most}, not {value!r}")
