"""`fredholm pde check` and `stats`: a good set, a bad one, a folder of the wrong level."""

from pathlib import Path

import h5py
import pytest
from fredholm.pipelines.well.folder import WellFolder
from fredholm.pipelines.well.statistics import read_statistics
from helpers.segment import fredholm, says
from helpers.well import write_set


def test_a_good_set_is_called_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fredholm("pde", "check", write_set(tmp_path)) == 0
    assert capsys.readouterr().out.count("good") == 3


def test_a_fault_is_told_beside_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(write_set(tmp_path) / "data/valid/waves.hdf5", "r+") as file:
        del file["scalars/viscosity"]
    assert fredholm("pde", "check", tmp_path) == 1
    out, err = capsys.readouterr()
    assert "data/valid/waves.hdf5: scalars/viscosity is named in field_names, but missing" in out
    assert "1 of 3 files have faults" in err


def test_statistics_are_computed_where_they_are_looked_for(tmp_path: Path) -> None:
    assert fredholm("pde", "stats", write_set(tmp_path)) == 0
    changing, _ = read_statistics(WellFolder.open(tmp_path).statistics_file, ["density", "velocity"], [])
    assert changing.mean == pytest.approx((3, 3, 3), abs=0.2)


@pytest.mark.parametrize("command", ["check", "stats"])
def test_a_folder_of_the_wrong_level_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    write_set(tmp_path / "set")
    says(capsys, f"give {tmp_path / 'set'}", code=fredholm("pde", command, tmp_path / "set/data"))
