"""A journal gives back what was committed to it, in order, and nothing else; what a crash left in part is no object."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fredholm.pipelines.gateway.journal import HEADER, PAGE, SPARES, Journal, Journals
from hypothesis import given
from hypothesis import strategies as some

BODIES = (b"a" * 10, b"b" * (2 * PAGE - HEADER.size), b"", b"c" * (PAGE + 1))
READY = 4 * PAGE
PATIENT = b"Doe^Jane" * 100


@pytest.fixture
def journals(tmp_path: Path) -> Journals:
    return Journals(tmp_path / "journal", READY)


def append(journal: Journal, *bodies: bytes) -> None:
    for number, body in enumerate(bodies):
        journal.commit(f"1.{number}", "2.3", *journal.write(body[:5], memoryview(body)[5:]))


def objects(journal: Journal) -> dict[str, bytes]:
    """What is whole in a journal."""
    found = {}
    with TemporaryDirectory() as folder:
        for record in journal.records():
            path = Path(folder) / record.uid
            if journal.copy(record, path):
                found[record.uid] = path.read_bytes()
    return found


def left(journals: Journals) -> Iterator[dict[str, bytes]]:
    """What is found in each journal whose association has ended."""
    yield from map(objects, journals.over())


def written() -> bytes:
    """A journal of `BODIES`, as it lies on the disk."""
    with TemporaryDirectory() as folder, closing(Journals(Path(folder) / "journal").take()) as journal:
        append(journal, *BODIES)
        return journal.path.read_bytes()


WRITTEN = written()
EXPECTED = {f"1.{number}": body for number, body in enumerate(BODIES)}


def read(content: bytes) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        journals = Journals(Path(folder))
        (journals.folder / "a.journal").write_bytes(content)
        (found,) = left(journals)
    return found


def test_what_is_committed_is_found(journals: Journals) -> None:
    with closing(journals.take()) as journal:
        append(journal, *BODIES)
        assert list(left(journals)) == []  # of nobody else as long as somebody appends
    assert list(left(journals)) == [EXPECTED]


def test_what_is_not_committed_is_not_found_and_the_next_takes_its_place(journals: Journals) -> None:
    with closing(journals.take()) as journal:
        append(journal, b"one")
        journal.write(b"z" * (3 * PAGE))
        assert list(objects(journal)) == ["1.0"]
        journal.commit("1.1", "2.3", *journal.write(b"two"))
    assert list(left(journals)) == [{"1.0": b"one", "1.1": b"two"}]


@given(some.integers(0, len(WRITTEN)))
def test_of_a_journal_that_is_cut_off_all_before_the_cut_is_found(cut: int) -> None:
    found = read(WRITTEN[:cut])
    assert list(found) == list(EXPECTED)[: len(found)]
    assert all(EXPECTED[uid] == body for uid, body in found.items())
    lengths = [HEADER.size + len(body) for body in BODIES]
    starts = [sum(-(-length // PAGE) * PAGE for length in lengths[:number]) for number in range(len(lengths))]
    assert len(found) == sum(start + length <= cut for start, length in zip(starts, lengths, strict=True))


@given(some.integers(0, len(WRITTEN) - 1), some.integers(1, 255))
def test_damage_makes_nothing_up_and_leaves_what_is_before_it(at: int, change: int) -> None:
    damaged = bytearray(WRITTEN)
    damaged[at] ^= change
    found = read(bytes(damaged))
    assert found.items() <= EXPECTED.items()
    assert len(found) >= len(read(WRITTEN[:at]))


@given(some.binary(max_size=3 * PAGE))
def test_any_bytes_hold_no_object(content: bytes) -> None:
    assert read(content) == {}


def test_spares_are_laid_out_taken_and_laid_back_without_a_trace(journals: Journals) -> None:
    journals.lay_out()
    spares = sorted(path.stat().st_ino for path in journals.folder.glob("*.spare"))
    for _ in range(3):
        taken = [journals.take() for _ in range(SPARES)]
        assert sorted(journal.path.stat().st_ino for journal in taken) == spares
        for journal in taken:
            append(journal, PATIENT, PATIENT * 30)
            journal.write(PATIENT * 100)  # and then its association ended
            journal.close()
        for journal in journals.over():
            journals.lay_back(journal)
        assert [path.read_bytes() for path in journals.folder.iterdir()] == [bytes(READY)] * SPARES


def test_without_a_spare_there_is_room_all_the_same(journals: Journals) -> None:
    taken = [journals.take() for _ in range(SPARES + 2)]
    for journal in taken:
        append(journal, *BODIES)
        journal.close()
    assert list(left(journals)) == [EXPECTED] * len(taken)
    for journal in journals.over():
        journals.lay_back(journal)
    assert [path.read_bytes() for path in journals.folder.iterdir()] == [bytes(READY)] * SPARES


def test_nobody_shares_a_journal(journals: Journals) -> None:
    journals.lay_out()
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: journals.take(), range(24)))
    assert len({journal.path.stat().st_ino for journal in taken}) == 24
    assert not list(journals.over())
    for journal in taken:
        journal.close()
