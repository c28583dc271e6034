"""`fredholm pde rollout`: a surrogate runs on into a file that The Well's own reader reads."""

from pathlib import Path

import h5py
import pytest
import torch
from fredholm.pipelines.forecast.plan import SurrogatePlan
from fredholm.pipelines.forecast.stepping import Stepper, slide
from fredholm.pipelines.run import Run
from fredholm.pipelines.well.check import check_file
from fredholm.pipelines.well.continuation import partial
from fredholm.pipelines.well.folder import WellFolder
from fredholm.pipelines.well.windows import Windows
from helpers.segment import fredholm, says
from helpers.well import write_file, write_run, write_set
from the_well.data import WellDataset

KNOWN, STEPS = 2, 7  # of the run, and what is left of nine frames


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_set(tmp_path / "set", frames=9)


@pytest.fixture
def run(tmp_path: Path, data: Path) -> Run[SurrogatePlan]:
    return write_run(tmp_path / "run", data)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out.hdf5"


def read(file: Path, steps: int = STEPS) -> list[dict[str, torch.Tensor]]:
    """All trajectories, as The Well reads them."""
    found = WellDataset(
        path=str(file.parent),
        include_filters=[file.name],
        n_steps_input=KNOWN,
        n_steps_output=steps,
        max_rollout_steps=steps,
    )
    return [found[number] for number in range(len(found))]


def test_each_frame_is_a_step_from_those_before_it(run: Run, data: Path, target: Path) -> None:
    assert fredholm("pde", "rollout", run.folder, data, "-o", target, "--batch", 1) == 0
    model, stepper = run.load_model(), Stepper(run.plan.simulation, run.plan.target)
    around = stepper.surroundings(torch.zeros(1, 8, 6, 0), torch.full((1, 1), 0.25), torch.full((1,), 0.5))
    windows = Windows(WellFolder.open(data), "test", KNOWN)
    for numbers, trajectory in zip(windows.trajectories, read(target), strict=True):
        history = windows[numbers[0]].history[None]
        assert torch.equal(trajectory["input_fields"][None], history)
        for frame in trajectory["output_fields"]:
            with torch.no_grad():
                following = stepper.step(model, history, around)
            torch.testing.assert_close(frame, following[0])
            history = slide(history, following)


def test_the_file_says_what_it_was_made_of_and_is_good(run: Run, data: Path, target: Path) -> None:
    assert fredholm("pde", "rollout", run.folder, data, "-o", target) == 0
    assert check_file(target)[1] == []
    with h5py.File(target) as file:
        told = dict(file.attrs)
    assert told["rollout_run"] == str(run.folder)
    assert told["rollout_weights"] == "weights.safetensors"
    assert len(told["rollout_weights_sha256"]) == len(told["rollout_start_sha256"]) == 64
    assert told["rollout_data"] == "waves.hdf5"
    assert told["rollout_start"] == "frames 0 to 1"
    assert told["rollout_fredholm"]


def test_it_runs_as_long_as_it_is_asked_to(
    run: Run, data: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """G6: as many steps as are asked for, and their number is told."""
    assert fredholm("pde", "rollout", run.folder, data, "-o", target, "--steps", 150, "--trajectories", 1) == 0
    assert "1 trajectories, 2 known frames and 150 steps" in capsys.readouterr().err
    (trajectory,) = read(target, 150)
    assert torch.equal(trajectory["output_time_grid"], 0.5 * torch.arange(2, 152))


def test_a_stopped_one_goes_on_to_the_same_bytes(
    run: Run, data: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("pde", "rollout", run.folder, data, "--batch", 1, "-o")
    assert fredholm(*command, tmp_path / "whole.hdf5") == 0
    step, calls = Stepper.step, []

    def stops(*inputs):
        calls.append(1)
        if len(calls) == 6:  # in the middle of the third step
            raise KeyboardInterrupt
        return step(*inputs)

    with monkeypatch.context() as patched:
        patched.setattr(Stepper, "step", stops)
        assert fredholm(*command, target) == 130
    assert not target.exists()
    assert len(read(partial(target).rename(tmp_path / "seen.hdf5"))) == 2  # can be read while it is unfinished
    (tmp_path / "seen.hdf5").rename(partial(target))
    assert fredholm(*command, target) == 0
    assert target.read_bytes() == (tmp_path / "whole.hdf5").read_bytes()
    assert not partial(target).exists()


def test_what_was_made_is_kept_and_never_mixed(
    run: Run, data: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("pde", "rollout", run.folder, data, "-o", target)
    fredholm(*command)
    capsys.readouterr()
    before = target.stat().st_mtime_ns
    assert fredholm(*command) == 0
    assert target.stat().st_mtime_ns == before
    capsys.readouterr()
    says(capsys, "made with another steps: give another -o", code=fredholm(*command, "--steps", 3))


@pytest.mark.parametrize(("scale", "field", "step"), [(1e39, "velocity_x", 1), (1e30, "density", 2)])
def test_what_is_no_longer_finite_ends_it_and_the_steps_before_stay(
    run: Run, data: Path, target: Path, capsys: pytest.CaptureFixture[str], scale: float, field: str, step: int
) -> None:
    model = run.load_model()
    model.get_submodule("out").weight.data[1] *= scale  # of velocity_x: infinite at once, or after the network saw it
    run.save_weights(model.state_dict())
    for _ in range(2):  # a second call says it again
        code = fredholm("pde", "rollout", run.folder, data, "-o", target)
        says(capsys, f"{field} is not finite at step {step} of trajectory 0", code=code)
    assert check_file(target)[1] == []
    with h5py.File(target) as file:
        assert file["t1_fields/velocity"].shape[:2] == (2, KNOWN + step - 1)


def test_of_several_files_each_has_its_own(run: Run, data: Path, tmp_path: Path, capsys) -> None:
    other = write_file(data / "data/test/others.hdf5", frames=9, seed=7, scalars={"viscosity": 0.5})
    command = ("pde", "rollout", run.folder)
    says(capsys, "has 2 files: give a folder as -o", code=fredholm(*command, data, "-o", tmp_path / "out.hdf5"))
    assert fredholm(*command, data, "-o", tmp_path / "out") == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["others.hdf5", "waves.hdf5"]
    assert fredholm(*command, other, "-o", tmp_path / "one.hdf5") == 0
    with h5py.File(tmp_path / "one.hdf5") as file:
        assert file.attrs["viscosity"] == file["scalars/viscosity"][()] == 0.5


def test_a_file_outside_a_data_set_is_one_line(run: Run, tmp_path: Path, capsys) -> None:
    file = write_file(tmp_path / "alone.hdf5", frames=9)
    code = fredholm("pde", "rollout", run.folder, file, "-o", tmp_path / "out.hdf5")
    says(capsys, "expected an HDF5 file in data/train, data/valid, data/test of a data set", code=code)
