"""Files to which objects are appended as they come, so that each is on the disk before it is answered.

To make a file for each object, and to name it, costs the disk several writes, one after the other; to overwrite what
is laid out already costs one. So files of zeros are laid out beforehand. An association takes one; once it has ended,
its objects are given files of their own, and the journal is blanked and laid back.

A record begins on a page: the SHA-256 and the length of what is kept, its SOP instance and series UID, a CRC-32 of
these, and then the bytes. What a crash left in part is no record, nor is anything behind it.
"""

import fcntl
import hashlib
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from uuid import uuid4

HEADER = struct.Struct("<32sQ64s64sL")
PAGE = 4096  # whole ones are overwritten without a look at what they hold
CHUNK = 1 << 20
SPARES = 2  # a series may come while the one before is still in its journal
_fdatasync = getattr(os, "fdatasync", os.fsync)  # not on macOS


@dataclass(frozen=True)
class Record:
    """An object in a journal.

    Args:
        uid: SOP instance UID.
        series: Series instance UID.
        sha256: Of its bytes, in hexadecimal digits.
        length: Number of bytes.
        start: Where they begin in the journal.
    """

    uid: str
    series: str
    sha256: str
    length: int
    start: int


class Journal:
    """A journal of which nobody else has hold, until it is closed.

    Args:
        path: Where it lies.
        file: Open and locked.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path, self._file = path, file
        self.end, self._laid_out = 0, os.fstat(file.fileno()).st_size

    @property
    def name(self) -> str:
        """By which the index calls it."""
        return self.path.stem

    def write(self, *parts: bytes | memoryview) -> tuple[str, int]:
        """Write an object behind the others, where nobody will find it unless it is committed.

        Returns:
            Its hash and its length.
        """
        length, sha256 = sum(map(len, parts)), hashlib.sha256()
        padding = bytes(_whole_pages(HEADER.size + length) - HEADER.size - length)
        try:
            _write(self._file.fileno(), [bytes(HEADER.size), *parts, padding], self.end)
        except OSError:
            self._file.truncate(max(self.end, self._laid_out))  # a full disk has better use for it
            raise
        _begin_flush(self._file.fileno())
        for part in parts:
            sha256.update(part)
        return sha256.hexdigest(), length

    def commit(self, uid: str, series: str, sha256: str, length: int) -> None:
        """Let what was just written be an object, and wait until it is on the disk."""
        words = (bytes.fromhex(sha256), length, uid.encode(), series.encode())
        os.pwrite(self._file.fileno(), HEADER.pack(*words, _checksum(*words)), self.end)
        _fdatasync(self._file.fileno())
        self.end += _whole_pages(HEADER.size + length)

    def records(self) -> Iterator[Record]:
        """The objects, in the order in which they came."""
        self.end = 0
        while len(header := os.pread(self._file.fileno(), HEADER.size, self.end)) == HEADER.size:
            *words, checksum = HEADER.unpack(header)
            if checksum != _checksum(*words):
                return
            digest, length, uid, series = words
            start = self.end + HEADER.size
            yield Record(_text(uid), _text(series), digest.hex(), length, start)
            self.end += _whole_pages(HEADER.size + length)

    def copy(self, record: Record, target: Path) -> bool:
        """Write an object to a file of its own, and begin to bring that to the disk; whether it is whole."""
        sha256, at, end = hashlib.sha256(), record.start, record.start + record.length
        with target.open("xb", buffering=0) as file:
            while chunk := os.pread(self._file.fileno(), min(CHUNK, end - at), at):
                _write(file.fileno(), [chunk], at - record.start)
                sha256.update(chunk)
                at += len(chunk)
            _begin_flush(file.fileno())
        return sha256.hexdigest() == record.sha256

    def blank(self, size: int) -> None:
        """Make it so many zeros, each of them laid out on the disk: what it held is of patients."""
        self._file.truncate(min(size, os.fstat(self._file.fileno()).st_size))
        for at in range(0, size, CHUNK):
            zeros = bytes(min(CHUNK, size - at))
            if os.pread(self._file.fileno(), len(zeros), at) != zeros:
                _write(self._file.fileno(), [zeros], at)
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Leave it to others."""
        self._file.close()


class Journals:
    """The folder of journals, for any number of threads and of processes.

    Args:
        folder: The folder; made if it is not there.
        ready_bytes: How much each spare is laid out for; 0 for no spares.
    """

    def __init__(self, folder: Path, ready_bytes: int = 0) -> None:
        self.folder, self.ready_bytes = folder, ready_bytes
        folder.mkdir(exist_ok=True)

    def take(self) -> Journal:
        """A journal to append to: a spare, or one that grows with what comes, which is slower."""
        while True:
            for path in self.folder.glob("*.spare"):
                file = _locked(path)
                if file is not None:
                    return self._taken(path, file)
            (self.folder / f"{uuid4().hex}.spare").touch()

    def over(self) -> Iterator[Journal]:
        """Those to which nobody appends any longer."""
        for path in self.folder.glob("*.journal"):
            file = _locked(path)
            if file is not None:
                journal = Journal(path, file)
                try:
                    yield journal
                finally:
                    journal.close()

    def names(self) -> list[str]:
        """All that are not spare."""
        return [path.stem for path in self.folder.glob("*.journal")]

    def lay_back(self, journal: Journal) -> None:
        """Make a journal a spare one, or remove it if there are enough."""
        if self.ready_bytes and len(list(self.folder.glob("*.spare"))) < SPARES:
            journal.blank(self.ready_bytes)
            self._rename(journal.path, "spare")
        else:
            journal.path.unlink()
            flush_folder(self.folder)

    def lay_out(self) -> None:
        """Make as many spares as there should be, each as large as it should be."""
        for journal in [self.take() for _ in range(SPARES)]:
            self.lay_back(journal)
            journal.close()

    def _taken(self, path: Path, file: FileIO) -> Journal:
        try:
            return Journal(self._rename(path, "journal"), file)
        except OSError:
            file.close()
            raise

    def _rename(self, path: Path, kind: str) -> Path:
        renamed = self.folder / f"{uuid4().hex}.{kind}"
        os.rename(path, renamed)
        flush_folder(self.folder)
        return renamed


def flush_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk itself."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(path: Path) -> FileIO | None:
    """Open a file of which nobody else has hold; None if somebody has, or had and moved it."""
    try:
        file = path.open("rb+", buffering=0)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    file.close()
    return None


def _write(descriptor: int, parts: Sequence[bytes | memoryview], at: int) -> None:
    rest = [memoryview(part) for part in parts]
    while rest:
        written = os.pwritev(descriptor, rest, at)
        at += written
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if written:
            rest[0] = rest[0][written:]


def _begin_flush(descriptor: int) -> None:
    """Have the disk begin with what was written, while there is something else to do; a flush waits for it."""
    if hasattr(os, "posix_fadvise"):  # not on macOS
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _whole_pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def _checksum(digest: bytes, length: int, uid: bytes, series: bytes) -> int:
    return zlib.crc32(HEADER.pack(digest, length, uid, series, 0))


def _text(word: bytes) -> str:
    return word.rstrip(b"\0").decode("ascii", errors="replace")
