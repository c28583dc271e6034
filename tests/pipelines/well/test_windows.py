"""Windows hold what the file holds, for every split alike, in any process, and trajectories are whole."""

import gc
import os
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from fredholm.pipelines.well.folder import WellFolder
from fredholm.pipelines.well.windows import OPEN, PERIODIC, WALL, Windows
from helpers.well import write_file, write_set
from torch.utils.data import DataLoader


@pytest.fixture
def folder(tmp_path: Path) -> WellFolder:
    return WellFolder.open(write_set(tmp_path / "set"))


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_window_is_what_the_file_holds(folder: WellFolder, split: str) -> None:
    """G1: as on disk, the same for every split; who trains normalises."""
    windows = Windows(folder, split, history=2, steps=2)
    with h5py.File(folder.files(split)[0]) as file:
        density, velocity = file["t0_fields/density"][()], file["t1_fields/velocity"][()]
    stored = torch.from_numpy(np.concatenate((density[..., None], velocity), -1))
    for trajectory, numbers in enumerate(windows.trajectories):
        for start, number in enumerate(numbers):
            window = windows[number]
            assert torch.equal(torch.cat((window.history, window.target)), stored[trajectory, start : start + 4])
            assert window.scalars.tolist() == [0.25]
            assert float(window.time_step) == 0.5
            assert window.constants.shape == (8, 6, 0)


def test_what_it_holds_is_told(folder: WellFolder) -> None:
    contents = Windows(folder, "train").contents
    assert contents.channels == ("density", "velocity_x", "velocity_y")
    assert contents.fields == ("density", "velocity")
    assert contents.boundary == ((PERIODIC, PERIODIC), (WALL, WALL))
    assert contents.scalars == ("viscosity",)
    assert OPEN not in sum(contents.boundary, ())


def test_a_long_trajectory_is_whole(tmp_path: Path) -> None:
    """G6: The Well would hand out 100 steps."""
    write_file(tmp_path / "set/data/test/long.hdf5", grid=(4,), frames=151, trajectories=1)
    write_file(tmp_path / "set/data/test/short.hdf5", grid=(4,), frames=7)
    windows = Windows(WellFolder.open(tmp_path / "set"), "test", history=2)
    assert [len(numbers) for numbers in windows.trajectories] == [149, 5, 5]
    assert windows.trajectories[-1].stop == len(windows)


def test_a_long_window_is_whole(tmp_path: Path) -> None:
    """G6: nor is a window cut."""
    write_file(tmp_path / "set/data/test/long.hdf5", grid=(4,), frames=151, trajectories=1)
    assert len(Windows(WellFolder.open(tmp_path / "set"), "test", steps=150)[0].target) == 150


def test_workers_read_the_same_numbers_and_no_handle_stays(folder: WellFolder) -> None:
    """E7: a handle that a fork inherits reads what is not there."""
    windows = Windows(folder, "train")
    alone = [windows[number] for number in range(len(windows))]
    again = list(DataLoader(pickle.loads(pickle.dumps(windows)), batch_size=None, num_workers=2))
    assert all(
        torch.equal(a, b) for one, other in zip(alone, again, strict=True) for a, b in zip(one, other, strict=True)
    )
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        [windows[number] for number in range(len(windows))]
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_trajectory_that_is_too_short_is_told(folder: WellFolder) -> None:
    with pytest.raises(ValueError, match="5 steps is not enough steps"):
        Windows(folder, "train", history=5)
