"""An object as it arrives, and the few words about it that a peer and a log may hear."""

import re
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO

from pydicom import Dataset
from pydicom.filereader import read_dataset
from pydicom.tag import BaseTag
from pydicom.uid import UID

SOP_CLASS, SOP_INSTANCE, SERIES = 0x0008_0016, 0x0008_0018, 0x0020_000E
SYNTAXES = (
    "1.2.840.10008.1.2",  # Implicit VR Little Endian
    "1.2.840.10008.1.2.1",  # Explicit VR Little Endian
    "1.2.840.10008.1.2.4.50",  # JPEG Baseline
    "1.2.840.10008.1.2.4.51",  # JPEG Extended
    "1.2.840.10008.1.2.4.57",  # JPEG Lossless
    "1.2.840.10008.1.2.4.70",  # JPEG Lossless, first order
    "1.2.840.10008.1.2.4.80",  # JPEG-LS Lossless
    "1.2.840.10008.1.2.4.81",  # JPEG-LS
    "1.2.840.10008.1.2.4.90",  # JPEG 2000 Lossless
    "1.2.840.10008.1.2.4.91",  # JPEG 2000
    "1.2.840.10008.1.2.4.201",  # HTJ2K Lossless
    "1.2.840.10008.1.2.4.202",  # HTJ2K Lossless RPCL
    "1.2.840.10008.1.2.4.203",  # HTJ2K
    "1.2.840.10008.1.2.5",  # RLE
)
"""Transfer syntaxes that are taken. Not the deflated one: a small object of it can unpack to any size."""

_IMPLEMENTATION = b"2.25.276641017483967719088366370479979929994"
_UID = re.compile(r"[0-9][0-9.]{0,63}")


class Reason(StrEnum):
    """Why an object is refused, in words without a trace of the patient."""

    TOO_LARGE = "the object is larger than this gateway takes"
    DISK_FULL = "the disk is full"
    UNREADABLE = "the data set cannot be read"
    NO_SERIES = "the series instance UID is missing or no UID"
    BAD_UID = "the SOP instance UID is no UID"
    OTHER_UID = "the data set is of another SOP instance or class than announced"
    OTHER_BYTES = "this SOP instance is here already, with other bytes"


class RefusedError(ValueError):
    """An object is not taken; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True)
class Arrival:
    """An object that a peer sent.

    Args:
        sop_class: As announced beside the data set.
        uid: SOP instance UID, likewise.
        syntax: Transfer syntax of `data`.
        data: The encoded data set as it came.
        series: Series instance UID in it.
    """

    sop_class: str
    uid: str
    syntax: str
    data: bytes | memoryview
    series: str

    @classmethod
    def read(cls, sop_class: str, uid: str, syntax: str, data: bytes | memoryview) -> "Arrival":
        """Find the series of a data set; nothing beyond its identifiers is looked at.

        Raises:
            RefusedError: The UIDs are missing, are none, or are not those announced, or the data set cannot be read.
        """
        if not is_uid(uid):
            raise RefusedError(Reason.BAD_UID)
        head = _head(data, UID(syntax))
        series = _word(head, SERIES)
        if not is_uid(series):
            raise RefusedError(Reason.NO_SERIES)
        # Scanners send objects whose own UIDs are empty; those announced serve then.
        if _word(head, SOP_INSTANCE) not in ("", uid) or _word(head, SOP_CLASS) not in ("", sop_class):
            raise RefusedError(Reason.OTHER_UID)
        return cls(sop_class, uid, syntax, data, series)

    def preamble(self) -> bytes:
        """What stands before the data set in a DICOM file; the same for the same object, whenever it comes."""
        elements = (
            _element(0x01, b"OB\0\0", 4, b"\0\1"),  # version
            _element(0x02, b"UI", 2, self.sop_class.encode()),
            _element(0x03, b"UI", 2, self.uid.encode()),
            _element(0x10, b"UI", 2, self.syntax.encode()),
            _element(0x12, b"UI", 2, _IMPLEMENTATION),
            _element(0x13, b"SH", 2, b"FREDHOLM"),
        )
        length = sum(map(len, elements))
        return b"".join((b"\0" * 128, b"DICM", _element(0x00, b"UL", 2, length.to_bytes(4, "little")), *elements))


def is_uid(text: str) -> bool:
    """Whether a text is written as a UID; then it is also fit to name a file."""
    return _UID.fullmatch(text) is not None


def _element(number: int, representation: bytes, width: int, value: bytes) -> bytes:
    """An element of group 2; pydicom writes the same, in the time that half a megabyte takes to the disk."""
    value += b"\0" * (len(value) % 2)
    return b"\2\0" + number.to_bytes(2, "little") + representation + len(value).to_bytes(width, "little") + value


def _head(data: bytes | memoryview, syntax: UID) -> Dataset:
    def past_series(tag: BaseTag, _vr: str | None, _length: int) -> bool:
        return tag > SERIES

    tags: list[BaseTag | int] = [SOP_CLASS, SOP_INSTANCE, SERIES]
    try:
        file = BytesIO(data)
        return read_dataset(file, syntax.is_implicit_VR, True, stop_when=past_series, specific_tags=tags)
    except Exception:  # whatever a parser does with bytes from outside, the peer is told one thing
        raise RefusedError(Reason.UNREADABLE) from None


def _word(head: Dataset, tag: int) -> str:
    """A UID as it stands there, without pydicom's conversion, which warns with the value in its words or raises."""
    element = head.get_item(tag, keep_deferred=True)  # else pydicom takes a value of None for one still to be read
    value = element.value if element is not None else None
    if not isinstance(value, bytes | None):
        raise RefusedError(Reason.UNREADABLE)
    return (value or b"").decode("ascii", errors="replace").strip("\0 ")
