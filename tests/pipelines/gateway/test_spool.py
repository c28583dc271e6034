"""What was acknowledged is on the disk, whole, once, and found again after a crash."""

import contextlib
import errno
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fredholm.pipelines.gateway import journal
from fredholm.pipelines.gateway import spool as module
from fredholm.pipelines.gateway.arrival import Reason, RefusedError
from fredholm.pipelines.gateway.completeness import Arrivals
from fredholm.pipelines.gateway.index import Index
from fredholm.pipelines.gateway.spool import Limits, Spool
from helpers import gateway
from helpers.gateway import arrival, bring, brought, close_spools, ct, encoded, kept, spool, stored, uid
from pydicom.uid import ImplicitVRLittleEndian


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB; mounting one needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def series(spool: Spool, number: int = 1) -> dict:
    (row,) = spool.index.rows("SELECT * FROM series WHERE uid = ?", uid(number))
    return dict(row)


def refusal(spool: Spool, *given: object) -> Reason:
    with pytest.raises(RefusedError) as caught:
        spool.keep(*given)  # pyright: ignore[reportArgumentType]
    return caught.value.reason


def files(here: Spool) -> list[str]:
    """Objects that have files of their own."""
    return sorted(path.stem for path in (here.root / "series").rglob("*.dcm"))


def settled(here: Spool, association: str = "a") -> Spool:
    """The spool, once what an association brought has files of its own."""
    here.end(association)
    here.settle()
    return here


def again(here: Spool) -> Spool:
    """The same folder, opened by the next process."""
    close_spools()
    opened = gateway.spool(here.root.parent, here.limits, here.journals.ready_bytes)
    with opened.owned():
        return opened


def test_an_object_is_kept_as_it_came(tmp_path: Path) -> None:
    here, dataset = spool(tmp_path), ct(1, 1)
    assert here.keep(arrival(dataset), "a", 5.0) == "new"
    settled(here)
    assert stored(here.path(uid(1), uid(1, 1))) == dataset
    assert encoded(dataset) in here.path(uid(1), uid(1, 1)).read_bytes()
    assert not list((here.root / "incoming").iterdir())
    assert series(here)["arrived"] == 5.0


def test_the_folder_is_for_this_user_alone(tmp_path: Path) -> None:
    assert spool(tmp_path).root.stat().st_mode & 0o077 == 0


def test_the_same_object_again_changes_nothing_but_the_time(tmp_path: Path) -> None:
    here = spool(tmp_path)
    here.keep(arrival(ct(1, 1)), "a", 5.0)
    before = settled(here).path(uid(1), uid(1, 1)).stat()
    assert here.keep(arrival(ct(1, 1)), "b", 7.0) == "repeated"
    settled(here, "b")
    assert here.path(uid(1), uid(1, 1)).stat().st_ino == before.st_ino
    assert series(here)["arrived"] == 7.0
    assert len(kept(here)) == 1


@pytest.mark.parametrize("change", ["pixels", "series", "syntax"])
def test_other_bytes_under_the_same_uid_are_refused_and_the_first_stay(tmp_path: Path, change: str) -> None:
    here, other = spool(tmp_path), ct(1, 1)
    here.keep(arrival(ct(1, 1)), "a", 0.0)
    if change == "pixels":
        other.PixelData = b"\1" * len(other.PixelData)
    if change == "series":
        other.SeriesInstanceUID = uid(2)
    syntax = {"syntax": ImplicitVRLittleEndian} if change == "syntax" else {}
    assert refusal(here, arrival(other, **syntax), "a", 0.0) is Reason.OTHER_BYTES
    assert stored(settled(here).path(uid(1), uid(1, 1))) == ct(1, 1)
    assert series(here, 2 if change == "series" else 1)["conflicts"] == 1
    assert kept(here) == [uid(1, 1)]
    assert not here.index.rows("SELECT * FROM refused")


def test_an_object_that_is_too_large_is_refused_and_missed(tmp_path: Path) -> None:
    here = spool(tmp_path, Limits(object_bytes=100, free_bytes=0))
    assert refusal(here, arrival(ct(1, 1)), "a", 0.0) is Reason.TOO_LARGE
    assert [row["uid"] for row in here.index.rows("SELECT * FROM refused")] == [uid(1, 1)]
    assert kept(here) == []


def test_room_is_left_on_the_disk(tmp_path: Path) -> None:
    here = spool(tmp_path, Limits(free_bytes=1 << 60))
    assert refusal(here, arrival(ct(1, 1)), "a", 0.0) is Reason.DISK_FULL


def test_a_missed_object_that_comes_after_all_is_missed_no_longer(tmp_path: Path) -> None:
    here = spool(tmp_path, Limits(free_bytes=1 << 60))
    refusal(here, arrival(ct(1, 1)), "a", 0.0)
    here.limits = Limits(free_bytes=0)
    assert here.keep(arrival(ct(1, 1)), "a", 0.0) == "new"
    assert not here.index.rows("SELECT * FROM refused")


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    here = spool(small_disk, Limits(object_bytes=1 << 20, free_bytes=0))
    filler = small_disk / "filler"
    here.keep(arrival(ct(1, 1)), "a", 0.0)
    filler.write_bytes(b"x" * (module.shutil.disk_usage(small_disk).free - 16_384))
    assert refusal(here, arrival(ct(1, 2, side=64)), "a", 0.0) is Reason.DISK_FULL
    big = arrival(ct(1, 3, side=120))
    here._check_room = lambda size, association: None  # another program takes the room between the look and the write
    assert refusal(here, big, "a", 0.0) is Reason.DISK_FULL
    assert not list((here.root / "incoming").iterdir())
    assert [row["uid"] for row in here.index.rows("SELECT uid FROM instances")] == [uid(1, 1)]
    filler.unlink()
    assert here.keep(big, "a", 0.0) == "new"
    assert here.keep(arrival(ct(1, 2, side=64)), "a", 0.0) == "new"
    assert not here.index.rows("SELECT * FROM refused")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("place", ["os.pwritev", "os.pwrite", "os.rename", "journal._fdatasync"])
def test_a_failing_disk_leaves_nothing_that_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, "no room")

    here = spool(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(place if place.startswith("os.") else f"fredholm.pipelines.gateway.{place}", fail)
        assert refusal(here, arrival(ct(1, 1)), "a", 0.0) is Reason.DISK_FULL
    assert not here.index.rows("SELECT * FROM instances")
    assert not list((here.root / "incoming").iterdir())
    assert here.keep(arrival(ct(1, 1)), "a", 0.0) == "new"
    assert stored(settled(here).path(uid(1), uid(1, 1))) == ct(1, 1)


def test_an_error_that_is_not_of_room_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    here = spool(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="broken"):
        here.keep(arrival(ct(1, 1)), "a", 0.0)


def entered(here: Spool) -> int:
    """How many objects another process sees in the index."""
    with sqlite3.connect(here.root / "index.sqlite") as other:
        return other.execute("SELECT count(*) FROM instances WHERE journal IS NOT NULL").fetchone()[0]


def test_it_is_on_the_disk_before_it_is_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, calls, flush = spool(tmp_path), [], journal._fdatasync
    here.keep(arrival(ct(1, 1)), "a", 0.0)
    monkeypatch.setattr(journal, "_fdatasync", lambda file: (calls.append(entered(here)), flush(file)))
    here.keep(arrival(ct(1, 2)), "a", 0.0)
    assert calls == [1]
    assert entered(here) == 2


def test_a_file_is_on_the_disk_before_it_has_its_name_and_that_before_the_journal_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, calls = spool(tmp_path), []
    bring(here, 1, range(2))
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append(("fsync", entered(here))), fsync(file)))
    monkeypatch.setattr(os, "rename", lambda one, other: (calls.append(("rename", entered(here))), rename(one, other)))
    settled(here)
    files, folders = [("fsync", 2)] * 2, [("fsync", 2)]
    assert calls == [*files, *folders, *[("rename", 2)] * 2, *folders, ("fsync", 0)]


def what_is_there(here: Spool) -> tuple[list[str], list[tuple], dict]:
    rows = here.index.rows("SELECT uid, series, sha256, bytes, journal FROM instances ORDER BY uid")
    return files(here), [tuple(row) for row in rows], series(here)


@pytest.mark.parametrize(
    "place",
    [
        (journal.Journal, "copy"),
        (os, "fsync"),
        (module, "flush_folder"),
        (os, "rename"),
        (Index, "change"),
        (module, "_drop"),
        (journal.Journals, "lay_back"),
        (journal.Journals, "_rename"),
    ],
    ids=lambda place: place[1],
)
def test_after_a_crash_at_any_moment_of_settling_it_is_settled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[object, str]
) -> None:
    class CrashError(BaseException):
        pass

    def crash(*_: object) -> None:
        raise CrashError

    once = spool(tmp_path / "once", ready_bytes=8192)
    brought(once, 1, range(4))
    once.settle()
    expected = what_is_there(once)
    here = spool(tmp_path / "crashed", ready_bytes=8192)
    brought(here, 1, range(4))
    with monkeypatch.context() as broken, contextlib.suppress(CrashError):
        broken.setattr(*place, crash)
        here.settle()
    assert what_is_there(again(here)) == expected
    assert len(files(here)) == 4


def test_of_an_object_that_was_being_written_at_a_crash_nothing_is_left(tmp_path: Path) -> None:
    here = spool(tmp_path)
    bring(here, 1, range(3))
    here._open["a"].write(encoded(ct(1, 3)))
    path = here._open["a"].path
    here.close()
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size - 1)
    here = again(here)
    assert files(here) == [uid(1, number) for number in range(3)]
    assert here.keep(arrival(ct(1, 3)), "b", 0.0) == "new"


def test_a_journal_that_the_disk_spoiled_is_missed(tmp_path: Path) -> None:
    here = spool(tmp_path)
    bring(here, 1, range(3))
    path = here._open["a"].path
    content = bytearray(path.read_bytes())
    content[5000] ^= 1  # within the second object
    path.write_bytes(content)
    Arrivals(here).released("a")
    here.settle()
    assert files(here) == [row["uid"] for row in here.index.rows("SELECT uid FROM instances")] == [uid(1, 0), uid(1, 2)]
    assert series(here)["interrupted"] == 1


def test_a_disk_that_is_too_full_for_files_leaves_all_in_the_journal(small_disk: Path) -> None:
    here = spool(small_disk, Limits(object_bytes=1 << 20, free_bytes=0))
    brought(here, 1, range(3))
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (module.shutil.disk_usage(small_disk).free - 4096))
    with pytest.raises(OSError, match="No space left"):
        here.settle()
    assert files(here) == []
    filler.unlink()
    here.settle()
    assert files(here) == [uid(1, number) for number in range(3)]


def test_what_a_command_brings_while_a_gateway_starts_is_left_to_it(tmp_path: Path) -> None:
    here = spool(tmp_path)
    bring(here, 1, range(3), association="visit")
    with spool(tmp_path).owned():  # as if by another process
        bring(here, 1, range(3, 5), association="visit")
    assert len(files(settled(here, "visit"))) == 5
    assert len(here.index.rows("SELECT * FROM instances")) == 5


def test_the_index_is_a_map_of_the_disk_again_after_a_crash(tmp_path: Path) -> None:
    here = spool(tmp_path)
    brought(here, 1, range(4))
    brought(here, 2, range(3))
    here.settle()
    (here.root / "incoming" / "half").write_bytes(b"half an object")
    (here.root / "work" / "job").mkdir()
    (here.root / "work" / "job" / "scan").touch()
    here.path(uid(1), uid(1, 2)).unlink()  # by a hand that should not have
    with here.index.change() as db:
        db.execute("DELETE FROM instances WHERE uid = ?", (uid(2, 1),))  # killed between the rename and the entry
    here = again(here)
    assert sorted(row["uid"] for row in here.index.rows("SELECT uid FROM instances")) == files(here)
    assert [series(here, number)["interrupted"] for number in (1, 2)] == [1, 1]
    assert not list((here.root / "incoming").iterdir())
    assert not list((here.root / "work").iterdir())
    assert here.keep(arrival(ct(2, 1)), "a", 0.0) == "repeated"


def test_a_damaged_file_counts_no_longer_and_can_be_sent_again(tmp_path: Path) -> None:
    here = spool(tmp_path)
    brought(here, 1, range(3))
    here.settle()
    here.path(uid(1), uid(1, 1)).write_bytes(b"cut off")
    here = again(here)
    assert series(here)["interrupted"] == 1
    assert here.keep(arrival(ct(1, 1)), "a", 0.0) == "new"
    assert stored(settled(here).path(uid(1), uid(1, 1))) == ct(1, 1)


@pytest.mark.parametrize("settled_before", [False, True])
def test_a_lost_index_is_made_again(tmp_path: Path, settled_before: bool) -> None:
    here, question = spool(tmp_path), "SELECT uid, series, sha256, bytes FROM instances ORDER BY uid"
    brought(here, 1, range(4))
    if settled_before:
        here.settle()
    before = [tuple(row) for row in here.index.rows(question)]
    here.close()
    for path in here.root.glob("index.sqlite*"):
        path.unlink()
    here = again(here)
    assert [tuple(row) for row in here.index.rows(question)] == before
    assert series(here)["interrupted"] == 1


def test_what_is_well_stays_as_it_is_over_a_restart(tmp_path: Path) -> None:
    here = spool(tmp_path)
    brought(here, 1, range(4))
    before = series(here)
    assert series(again(here)) == before


def test_a_series_that_was_coming_in_is_interrupted_by_a_restart(tmp_path: Path) -> None:
    here = spool(tmp_path)
    bring(here, 1, range(3))
    here = again(here)
    assert series(here)["interrupted"] == 1
    bring(here, 1, range(4), association="b")
    Arrivals(here).released("b")
    assert series(here)["interrupted"] == 0


def test_strange_files_in_the_spool_are_left_alone(tmp_path: Path) -> None:
    here = spool(tmp_path)
    (here.root / "series" / "not a uid").mkdir()
    (here.root / "series" / "not a uid" / "1.2.dcm").touch()
    again(here)
    assert (here.root / "series" / "not a uid" / "1.2.dcm").exists()


def test_two_gateways_do_not_share_a_folder(tmp_path: Path) -> None:
    here = spool(tmp_path)
    with here.owned(), pytest.raises(BlockingIOError, match="another gateway serves from"), here.owned():
        pass
    with here.owned():
        pass


def test_limits_are_of_the_data_set(tmp_path: Path) -> None:
    size = len(encoded(ct(1, 1)))
    here = spool(tmp_path, Limits(object_bytes=size, free_bytes=0))
    assert here.keep(arrival(ct(1, 1)), "a", 0.0) == "new"
    here.limits = replace(here.limits, object_bytes=size - 1)
    assert refusal(here, arrival(ct(1, 2)), "a", 0.0) is Reason.TOO_LARGE
