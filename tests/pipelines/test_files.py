"""A file is there whole, as new or as before, whatever happens while it is written."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fredholm.pipelines.files import replacing, replacing_folder, write_text


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB; mounting one needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fail_half_way(path: Path, error: BaseException) -> None:
    with replacing(path) as beside:
        beside.write_text("half")
        raise error


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_is_written(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "words\n\u00fc")
    assert (tmp_path / "a.txt").read_bytes() == "words\n\u00fc".encode()
    assert names(tmp_path) == ["a.txt"]


def test_an_earlier_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    with replacing(path) as beside:
        beside.write_text("after")
        assert path.read_text() == "before"
        assert beside.parent == path.parent
    assert path.read_text() == "after"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("name", ["x.nii.gz", "x.nii", "plan.yaml", "patient 1.2.840.nii.gz", "bare", ".hidden"])
def test_the_file_beside_is_hidden_and_has_the_same_endings(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with replacing(path) as beside:
        assert beside.name.startswith(".")
        assert beside.name.endswith("".join(path.suffixes[-2:]))
        assert beside.name != name
        beside.touch()
    assert names(tmp_path) == [name]


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), KeyboardInterrupt(), SystemExit(3), OSError(errno.ENOSPC, "no space left"), MemoryError()],
)
@pytest.mark.parametrize("earlier", ["before", None])
def test_after_any_error_all_is_as_before(tmp_path: Path, error: BaseException, earlier: str | None) -> None:
    path = tmp_path / "a.txt"
    if earlier is not None:
        path.write_text(earlier)
    with pytest.raises(type(error)):
        fail_half_way(path, error)
    assert names(tmp_path) == ([] if earlier is None else ["a.txt"])
    assert earlier is None or path.read_text() == earlier


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_an_error_while_flushing_or_renaming_leaves_all_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, place: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    path = tmp_path / "a.txt"
    path.write_text("before")
    monkeypatch.setattr(os, place, fail)
    with pytest.raises(type(error)):
        write_text(path, "after")
    assert path.read_text() == "before"
    assert names(tmp_path) == ["a.txt"]


def test_a_full_disk_keeps_the_earlier_file_and_leaves_nothing_beside(small_disk: Path) -> None:
    path = small_disk / "a.txt"
    write_text(path, "before")
    with pytest.raises(OSError, match="No space left") as caught:
        write_text(path, "x" * 200_000)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_text() == "before"
    assert names(small_disk) == ["a.txt"]


def test_it_reaches_the_disk_before_it_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda one, other: (calls.append("replace"), rename(one, other)))
    write_text(tmp_path / "a.txt", "words")
    assert calls == ["fsync", "replace"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"no such folder: {tmp_path / 'absent'}"):
        write_text(tmp_path / "absent" / "a.txt", "words")
    assert names(tmp_path) == []


def test_a_folder_in_the_files_place_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_text(tmp_path / "a.txt", "words")
    assert names(tmp_path) == ["a.txt"]


def test_many_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replacing(path) as one, replacing(path) as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_takes_an_earlier_ones_place_as_a_whole(tmp_path: Path) -> None:
    for word in ("before", "after"):
        with replacing_folder(tmp_path / "folder") as beside:
            (beside / "inner").mkdir()
            (beside / "inner" / word).write_text(word)
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder" / "inner") == ["after"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_folder_that_fails_half_way_leaves_the_earlier_one(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "before").write_text("")
    with pytest.raises(error), replacing_folder(tmp_path / "folder") as beside:  # noqa: PT012
        (beside / "after").write_text("half")
        raise error
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == ["before"]


def test_a_folder_that_cannot_take_its_place_leaves_the_earlier_one(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "folder").mkdir()
    rename = os.replace

    def full(source: Path, target: Path) -> None:
        if (source / "after").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"), replacing_folder(tmp_path / "folder") as beside:
        (beside / "after").write_text("")
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == []
