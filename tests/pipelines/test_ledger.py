"""What is done is what was made of the same bytes with the same things, and is still there."""

from pathlib import Path

import pytest
from fredholm.pipelines.ledger import NAME, Ledger, fingerprint

ENTRY = {"scan": "a", "overlap": 0.5, "beside": ["view"]}


def made(folder: Path, name: str = "labels.nii.gz") -> Path:
    path = folder / name
    path.write_bytes(b"labels")
    return path


def test_what_was_entered_is_there_for_the_next_one_who_looks(tmp_path: Path) -> None:
    path = made(tmp_path)
    Ledger(tmp_path).enter([path], ENTRY)
    assert Ledger(tmp_path).has([path], dict(ENTRY))


@pytest.mark.parametrize("other", [{"scan": "b"}, {"overlap": 0.25}, {"beside": []}, {"mirror": True}])
def test_made_of_or_with_anything_else_it_is_not_done(tmp_path: Path, other: dict) -> None:
    path = made(tmp_path)
    Ledger(tmp_path).enter([path], ENTRY)
    assert not Ledger(tmp_path).has([path], {**ENTRY, **other})


def test_a_file_that_is_gone_is_not_done_nor_one_that_was_never_made(tmp_path: Path) -> None:
    one, other = made(tmp_path), made(tmp_path, "other.nii.gz")
    ledger = Ledger(tmp_path)
    ledger.enter([one], ENTRY)
    assert not ledger.has([one, other], ENTRY)
    ledger.enter([other], ENTRY)
    assert ledger.has([one, other], ENTRY)
    one.unlink()
    assert not ledger.has([one, other], ENTRY)


def test_two_at_work_in_one_folder_do_not_lose_each_others_entries(tmp_path: Path) -> None:
    first, second = Ledger(tmp_path), Ledger(tmp_path)
    paths = [made(tmp_path, name) for name in ("a.nii.gz", "b.nii.gz")]
    first.enter(paths[:1], ENTRY)
    second.enter(paths[1:], ENTRY)
    assert first.has(paths, ENTRY)
    second.strike(paths[:1])
    assert not first.has(paths[:1], ENTRY)
    assert first.has(paths[1:], ENTRY)


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1}', '{"a": {"b": 1}}'])
def test_a_file_of_that_name_that_is_something_else_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    with pytest.raises(ValueError, match=NAME):
        Ledger(tmp_path)
    assert (tmp_path / NAME).read_text() == content


def test_a_fingerprint_is_of_what_files_hold_and_of_nothing_else(tmp_path: Path) -> None:
    for name, content in {"a": b"one", "b": b"two", "c": b"two", "d": b"one"}.items():
        (tmp_path / name).write_bytes(content)
    a, b, c, d = (tmp_path / name for name in "abcd")
    assert fingerprint([a, b]) == fingerprint([c, d])
    assert len({fingerprint(files) for files in ([a], [b], [a, b], [a, a], [])}) == 5
    before = fingerprint([a])
    a.write_bytes(b"One")
    assert fingerprint([a]) != before
