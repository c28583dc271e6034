"""What was acknowledged is on the disk, whole, once, and found again after a crash."""

import errno
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fredholm.pipelines.gateway import spool as module
from fredholm.pipelines.gateway.arrival import Reason, RefusedError
from fredholm.pipelines.gateway.completeness import Arrivals
from fredholm.pipelines.gateway.spool import Limits, Spool
from helpers.gateway import arrival, bring, brought, ct, encoded, kept, spool, stored, uid
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


def again(spool: Spool) -> Spool:
    """The same folder, opened by the next process."""
    spool.index.close()
    opened = Spool(spool.root, spool.limits)
    with opened.owned():
        return opened


def test_an_object_is_kept_as_it_came(tmp_path: Path) -> None:
    here, dataset = spool(tmp_path), ct(1, 1)
    assert here.keep(arrival(dataset), "a", 5.0) == "new"
    found = stored(here.path(uid(1), uid(1, 1)))
    assert found == dataset
    assert encoded(dataset) in here.path(uid(1), uid(1, 1)).read_bytes()
    assert not list((here.root / "incoming").iterdir())
    assert series(here)["arrived"] == 5.0


def test_the_folder_is_for_this_user_alone(tmp_path: Path) -> None:
    assert spool(tmp_path).root.stat().st_mode & 0o077 == 0


def test_the_same_object_again_changes_nothing_but_the_time(tmp_path: Path) -> None:
    here = spool(tmp_path)
    here.keep(arrival(ct(1, 1)), "a", 5.0)
    before = here.path(uid(1), uid(1, 1)).stat()
    assert here.keep(arrival(ct(1, 1)), "b", 7.0) == "repeated"
    assert here.path(uid(1), uid(1, 1)).stat().st_ino == before.st_ino
    assert series(here)["arrived"] == 7.0
    assert len(kept(here)) == 1


@pytest.mark.parametrize("change", ["pixels", "series", "syntax"])
def test_other_bytes_under_the_same_uid_are_refused_and_the_first_stay(tmp_path: Path, change: str) -> None:
    here, other = spool(tmp_path), ct(1, 1)
    here.keep(arrival(ct(1, 1)), "a", 0.0)
    before = here.path(uid(1), uid(1, 1)).read_bytes()
    if change == "pixels":
        other.PixelData = b"\1" * len(other.PixelData)
    if change == "series":
        other.SeriesInstanceUID = uid(2)
    syntax = {"syntax": ImplicitVRLittleEndian} if change == "syntax" else {}
    assert refusal(here, arrival(other, **syntax), "a", 0.0) is Reason.OTHER_BYTES
    assert here.path(uid(1), uid(1, 1)).read_bytes() == before
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
    here._check_room = lambda _: None  # another program takes the room between the look and the write
    assert refusal(here, big, "a", 0.0) is Reason.DISK_FULL
    assert not list((here.root / "incoming").iterdir())
    assert [row["uid"] for row in here.index.rows("SELECT uid FROM instances")] == [uid(1, 1)]
    filler.unlink()
    assert here.keep(big, "a", 0.0) == "new"
    assert here.keep(arrival(ct(1, 2, side=64)), "a", 0.0) == "new"
    assert not here.index.rows("SELECT * FROM refused")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("place", ["write", "fsync", "rename"])
def test_a_failing_disk_leaves_nothing_that_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, "no room")

    here = spool(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(os, place, fail)
        assert refusal(here, arrival(ct(1, 1)), "a", 0.0) is Reason.DISK_FULL
    assert not here.index.rows("SELECT * FROM instances")
    assert not list((here.root / "incoming").iterdir())
    assert here.keep(arrival(ct(1, 1)), "a", 0.0) == "new"


def test_an_error_that_is_not_of_room_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    here = spool(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="broken"):
        here.keep(arrival(ct(1, 1)), "a", 0.0)


def test_it_is_on_the_disk_and_then_renamed_and_then_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, calls = spool(tmp_path), []
    here.keep(arrival(ct(1, 1)), "a", 0.0)
    fsync, rename = os.fsync, os.rename

    def entered() -> int:
        with sqlite3.connect(here.root / "index.sqlite") as other:
            return other.execute("SELECT count(*) FROM instances").fetchone()[0]

    monkeypatch.setattr(os, "fsync", lambda file: (calls.append(("fsync", entered())), fsync(file)))
    monkeypatch.setattr(os, "rename", lambda one, other: (calls.append(("rename", entered())), rename(one, other)))
    here.keep(arrival(ct(1, 2)), "a", 0.0)
    assert calls == [("fsync", 1), ("rename", 1), ("fsync", 1)]
    assert entered() == 2


def test_the_index_is_a_map_of_the_disk_again_after_a_crash(tmp_path: Path) -> None:
    here = spool(tmp_path)
    brought(here, 1, range(4))
    brought(here, 2, range(3))
    (here.root / "incoming" / "half").write_bytes(b"half an object")
    (here.root / "work" / "job").mkdir()
    (here.root / "work" / "job" / "scan").touch()
    here.path(uid(1), uid(1, 2)).unlink()  # by a hand that should not have
    with here.index.change() as db:
        db.execute("DELETE FROM instances WHERE uid = ?", (uid(2, 1),))  # killed between the rename and the entry
    here = again(here)
    assert sorted(row["uid"] for row in here.index.rows("SELECT uid FROM instances")) == kept(here)
    assert [series(here, number)["interrupted"] for number in (1, 2)] == [1, 1]
    assert not list((here.root / "incoming").iterdir())
    assert not list((here.root / "work").iterdir())
    assert here.keep(arrival(ct(2, 1)), "a", 0.0) == "repeated"


def test_a_damaged_file_counts_no_longer_and_can_be_sent_again(tmp_path: Path) -> None:
    here = spool(tmp_path)
    brought(here, 1, range(3))
    here.path(uid(1), uid(1, 1)).write_bytes(b"cut off")
    here = again(here)
    assert series(here)["interrupted"] == 1
    assert here.keep(arrival(ct(1, 1)), "a", 0.0) == "new"
    assert stored(here.path(uid(1), uid(1, 1))) == ct(1, 1)


def test_a_lost_index_is_made_again(tmp_path: Path) -> None:
    here = spool(tmp_path)
    brought(here, 1, range(4))
    before = [tuple(row) for row in here.index.rows("SELECT * FROM instances ORDER BY uid")]
    here.index.close()
    for path in here.root.glob("index.sqlite*"):
        path.unlink()
    here = again(here)
    assert [tuple(row) for row in here.index.rows("SELECT * FROM instances ORDER BY uid")] == before
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
