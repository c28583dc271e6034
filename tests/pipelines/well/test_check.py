"""Faults are found before training, and named; what The Well's own reader takes is good."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from fredholm.pipelines.well.check import check_file, check_folder
from fredholm.pipelines.well.folder import WellFolder
from helpers.well import write_file, write_set


def flag(file: h5py.File) -> None:
    del file["t0_fields/density"].attrs["time_varying"]


def lost(file: h5py.File) -> None:
    del file["t1_fields/velocity"]


def short(file: h5py.File) -> None:
    file.attrs["n_trajectories"] = 3


def not_a_number(file: h5py.File) -> None:
    file["t0_fields/density"][1, 2, 3, 4] = np.nan


def unmarked(file: h5py.File) -> None:
    file["boundary_conditions/x_periodic/mask"][...] = False


def unknown_edge(file: h5py.File) -> None:
    file["boundary_conditions/y_wall"].attrs["bc_type"] = "SPONGE"


def no_group(file: h5py.File) -> None:
    del file["scalars"]


def no_axis(file: h5py.File) -> None:
    del file["dimensions/y"]


@pytest.mark.parametrize("grid", [(8,), (8, 6), (6, 5, 4)])
def test_what_the_writer_writes_is_good(tmp_path: Path, grid: tuple[int, ...]) -> None:
    layout, faults = check_file(write_file(tmp_path / "a.hdf5", grid=grid))
    assert faults == []
    assert layout is not None
    assert layout.grid == grid


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (flag, "t0_fields/density needs a boolean attribute time_varying"),
        (lost, "t1_fields/velocity is named in field_names, but missing"),
        (short, "t0_fields/density has shape (2, 5, 8, 6), its flags say (3, 5, 8, 6)"),
        (not_a_number, "t0_fields/density is not finite, first in entry 1"),
        (unmarked, "the mask marks no point, so that PERIODIC would be read as OPEN"),
        (unknown_edge, "bc_type is SPONGE, expected one of WALL, OPEN, PERIODIC"),
        (no_group, "group scalars is missing"),
        (no_axis, "dimensions/y is missing"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, spoil: Callable[[h5py.File], None], words: str) -> None:
    path = write_file(tmp_path / "a.hdf5")
    with h5py.File(path, "r+") as file:
        spoil(file)
    assert words in "; ".join(check_file(path)[1])


def test_a_page_of_html_under_a_file_s_name_is_no_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    path.write_text("<html>503 Service Unavailable</html>")
    assert check_file(path)[1][0].startswith("no HDF5 file, or damaged")


def test_files_that_differ_are_told_by_what_differs(tmp_path: Path) -> None:
    folder = WellFolder.open(write_set(tmp_path / "set"))
    write_file(tmp_path / "set/data/valid/waves.hdf5", fields={"density": 0, "pressure": 0})
    faults = check_folder(folder)
    assert [len(found) for found in faults.values()] == [0, 1, 0]
    assert "pressure" in str(faults)


def test_the_real_set_is_good(data_folder: Path) -> None:
    assert not any(check_folder(WellFolder.open(data_folder / "pde/burgers_16")).values())
