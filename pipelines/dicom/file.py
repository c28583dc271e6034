"""One DICOM file: is it one, is it whole, and what it says, mended where the file itself holds the cure."""

import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydicom import dcmread
from pydicom.dataset import FileDataset
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
)

PREFIX_AT = 128
FIRST_GROUPS = (b"\x02\x00", b"\x08\x00")  # how a data set without preamble begins
LONG = 4096  # bytes; longer values than this are not loaded with a header
PIXEL_DATA, ITEM, END = 0x7FE00010, 0xFFFEE000, 0xFFFEE0DD
UNDEFINED = 0xFFFFFFFF
UNCOMPRESSED = (
    *(ImplicitVRLittleEndian, ExplicitVRLittleEndian, ExplicitVRBigEndian),
    DeflatedExplicitVRLittleEndian,  # once it is read
)


class DamagedFileError(ValueError):
    """A DICOM file that is truncated, or breaks the standard so that it cannot be read.

    Args:
        reason: What is wrong.
        series_uid: Of the series it belongs to, if that much can be read.
    """

    def __init__(self, reason: str, series_uid: str = "") -> None:
        super().__init__(reason)
        self.series_uid = series_uid


@dataclass(frozen=True, eq=False)
class Header:
    """What a file says, without its pixels.

    Args:
        dataset: All elements before the pixels.
        pixel_bytes: Length of the pixels that follow, whole; 0 if none do.
        repairs: What was mended, in a few words each.
    """

    dataset: FileDataset
    pixel_bytes: int
    repairs: tuple[str, ...]


def is_dicom(path: Path) -> bool:
    """Whether a file begins as DICOM does: with preamble and prefix, or, as very old ones, with its first group."""
    with path.open("rb") as file:
        start = file.read(PREFIX_AT + 4)
    return start[PREFIX_AT:] == b"DICM" or (len(start) > PREFIX_AT and start[:2] in FIRST_GROUPS)


def read_header(path: Path) -> Header:
    """Read all but the pixels of a file for which `is_dicom` holds.

    An empty SOP class or instance UID is taken from the file meta, a missing transfer syntax from how the file reads.

    Raises:
        DamagedFileError: It is truncated or cannot be parsed.
        OSError: The system refuses to open or read it.
    """
    dataset = None
    try:
        with parsing(), path.open("rb") as file:
            dataset = dcmread(file, force=True, defer_size=LONG, stop_before_pixels=True)
            if dataset.file_meta.get("TransferSyntaxUID") == DeflatedExplicitVRLittleEndian:
                pixel_bytes = len(dcmread(path).get("PixelData", b""))
            else:
                pixel_bytes = _pixel_bytes(file, path.stat().st_size, dataset)
            return Header(dataset, pixel_bytes, tuple(mend(dataset)))
    except DamagedFileError as error:
        raise DamagedFileError(str(error), _series_uid(dataset)) from error


def read_whole(path: Path) -> FileDataset:
    """Read a file with its pixels, mended as by `read_header`, which has found it whole."""
    with quiet():
        dataset = dcmread(path, force=True)
        mend(dataset)
    return dataset


@contextmanager
def parsing() -> Iterator[None]:
    """Let any trouble with what a file says be a DamagedFileError, and keep pydicom's remarks on odd values silent.

    pydicom lets through whatever its parsers meet: struct.error, KeyError, zlib.error, ... Their words are not
    repeated: they may hold what was read, a name for instance.
    """
    try:
        with quiet():
            yield
    except (OSError, DamagedFileError):
        raise
    except Exception as error:
        raise DamagedFileError(f"it cannot be parsed ({type(error).__name__})") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep pydicom's remarks on each odd value from the user: what matters here is checked and told once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def mend(dataset: FileDataset) -> list[str]:
    """Fill what is empty and known from elsewhere in the file, in place; tell each repair."""
    repairs, meta = [], dataset.file_meta
    for name, other in (("SOPClassUID", "MediaStorageSOPClassUID"), ("SOPInstanceUID", "MediaStorageSOPInstanceUID")):
        if not dataset.get(name) and meta.get(other):
            setattr(dataset, name, meta[other].value)
            repairs.append(f"empty {name} taken from the file meta")
    if not meta.get("TransferSyntaxUID"):
        meta.TransferSyntaxUID = ImplicitVRLittleEndian if dataset.original_encoding[0] else ExplicitVRLittleEndian
        repairs.append("missing TransferSyntaxUID taken from how the file reads")
    return repairs


def _series_uid(dataset: FileDataset | None) -> str:
    try:
        with parsing():
            return str(dataset.get("SeriesInstanceUID") or "") if dataset else ""
    except DamagedFileError:
        return ""


def _pixel_bytes(file: BinaryIO, size: int, dataset: FileDataset) -> int:
    """Length of the pixels that begin where the header ended; pydicom reads over their early end without a word."""
    implicit, little = dataset.original_encoding
    order = "<" if little else ">"
    form = f"{order}HHI" if implicit else f"{order}HH4xI"
    start = file.read(struct.calcsize(form))
    if not start:
        return 0
    if len(start) < struct.calcsize(form):
        raise DamagedFileError(f"it is truncated: the file ends at byte {size}, within an element")
    group, element, length = struct.unpack(form, start)
    if group << 16 | element != PIXEL_DATA:
        return 0  # floating point pixels, which no CT has
    if length == UNDEFINED:
        return _fragment_bytes(file, size)
    if file.tell() + length > size:
        raise DamagedFileError(f"it is truncated: its pixels end at byte {file.tell() + length}, the file at {size}")
    return length


def _fragment_bytes(file: BinaryIO, size: int) -> int:
    total = 0
    while len(start := file.read(8)) == 8:
        group, element, length = struct.unpack("<HHI", start)
        if group << 16 | element == END:
            return total
        if group << 16 | element != ITEM:
            raise DamagedFileError(f"its compressed pixels are garbled at byte {file.tell() - 8}")
        file.seek(length, 1)
        total += length
    raise DamagedFileError(f"it is truncated: its compressed pixels have no end, the file ends at byte {size}")
