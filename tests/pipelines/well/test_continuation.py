"""A continuation keeps what stays as it is, and can be read whenever its writer dies."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from fredholm.pipelines.well.check import check_file
from fredholm.pipelines.well.continuation import Continuation, Extent, finish, lay_out, partial
from helpers.well import write_file


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Waves with a constant field, a parameter of each trajectory, and one that changes with time."""
    path = write_file(tmp_path / "source.hdf5", trajectories=3, fields={"density": 0, "velocity": 1, "stress": 2})
    with h5py.File(path, "r+") as file:
        mask = file.create_dataset("t0_fields/mask", data=np.arange(24, dtype=np.float32).reshape(3, 8))
        mask.attrs.update(sample_varying=np.True_, time_varying=np.False_, dim_varying=[True, False])
        file["t0_fields"].attrs["field_names"] = ["density", "mask"]
        push = file.create_dataset("scalars/push", data=np.arange(15, dtype=np.float32).reshape(3, 5))
        push.attrs.update(sample_varying=np.True_, time_varying=np.True_)
        file["scalars"].attrs["field_names"] = ["viscosity", "push"]
    return path


def begun(path: Path, source: Path, frames: int = 6) -> Path:
    """Two trajectories whose known frames are 1 and 2."""
    lay_out(partial(path), source, Extent(2, frames, (0.5, 0.5)), {"note": "made here"})
    with h5py.File(partial(path), "r+") as file:
        found = Continuation(file)
        for frame in range(2):
            found.put(range(2), frame, torch.full((2, 8, 6, 7), frame + 1.0))
        found.seal(2)
    return path


def test_what_stays_as_it_is_is_copied(tmp_path: Path, source: Path) -> None:
    path = begun(tmp_path / "out.hdf5", source)
    with h5py.File(source) as given, h5py.File(partial(path)) as made:
        assert made.attrs["note"] == "made here"
        assert made.attrs["n_trajectories"] == 2
        assert np.array_equal(made["t0_fields/mask"][()], given["t0_fields/mask"][:2])
        assert made["scalars/push"][()].tolist() == [[0, 1, 1, 1, 1, 1], [5, 6, 6, 6, 6, 6]]
        assert np.array_equal(made["dimensions/time"][()], 0.5 * np.arange(6))
        for name in ("x_periodic", "y_wall"):
            mask = f"boundary_conditions/{name}/mask"
            assert np.array_equal(made[mask][()], given[mask][()])
    assert check_file(partial(path))[1] in ([], ["t0_fields/density is not finite, first in entry 0"])  # yet unwritten


def test_frames_come_back_as_they_were(tmp_path: Path, source: Path) -> None:
    path, values = begun(tmp_path / "out.hdf5", source), torch.randn(2, 8, 6, 7)
    with h5py.File(partial(path), "r+") as file:
        found = Continuation(file)
        for number in range(2):
            found.put(range(number, number + 1), 2, values[number : number + 1])
        found.seal(3)
        assert torch.equal(found.last(range(2), 2), torch.stack((torch.full_like(values, 2), values), 1))
        assert torch.equal(found.last(range(1, 2), 1)[:, 0], values[1:])
        assert np.array_equal(file["t2_fields/stress"][0, 2, ..., 0, 1], values[0, ..., 4].numpy())


def test_a_writer_that_dies_leaves_all_sealed_frames(tmp_path: Path, source: Path) -> None:
    path = begun(tmp_path / "out.hdf5", source)
    with h5py.File(partial(path), "r+") as file:
        found = Continuation(file)
        found.put(range(2), 2, torch.full((2, 8, 6, 7), 3.0))
        found.seal(3)
        found.put(range(1), 3, torch.full((1, 8, 6, 7), torch.nan))
        shutil.copy(partial(path), tmp_path / "left.hdf5")  # as a process that is killed here leaves it
    with h5py.File(tmp_path / "left.hdf5") as file:
        left = Continuation(file)
        assert left.written == 3
        assert left.last(range(2), 3)[0, :, 0, 0, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("frames", [2, 6])
def test_a_file_is_finished_with_the_frames_that_it_holds(tmp_path: Path, source: Path, frames: int) -> None:
    path = begun(tmp_path / "out.hdf5", source, frames)
    finish(path)
    assert not partial(path).exists()
    assert check_file(path)[1] == []
    with h5py.File(path) as file:
        assert file.attrs["note"] == "made here"
        assert file["t1_fields/velocity"].shape == (2, 2, 8, 6, 2)
        assert file["scalars/push"][()].tolist() == [[0, 1], [5, 6]]
        assert Continuation(file).last(range(2), 2)[1, :, 3, 2, 5].tolist() == [1, 2]
