"""`fredholm pde train`: a run is made, goes on, and what is wrong is one line."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fredholm.apps import training
from fredholm.backbones import Interpolation
from fredholm.pipelines.forecast.plan import SurrogatePlan
from fredholm.pipelines.phases import AnchorPhases, anchors_of
from fredholm.pipelines.run import Run
from fredholm.pipelines.training import Trainer
from helpers.segment import fredholm, says
from helpers.well import write_file, write_run, write_set
from safetensors.torch import load_file

NAMES = ("whole", "halves")
SMALL = ("--dim", "8", "--depth", "1", "--history", "2", "--batch", "2", "--validate-every", "2", "--device", "cpu")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    fredholm("pde", "stats", write_set(tmp_path / "set"))
    return tmp_path / "set"


def test_a_run_is_made_and_scored(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fredholm("pde", "train", data, "-o", tmp_path / "run", "--minutes", "0.001", *SMALL) == 0
    assert "velocity_x" in capsys.readouterr().out
    run = Run.open(tmp_path / "run", SurrogatePlan.read)
    assert [row for row in run.read_log() if "vrmse" in row]
    assert run.load_model()
    assert run.best_file.is_file()


@pytest.mark.parametrize("model", ["unet", "cnextunet", "fno", "tfno"])
def test_what_it_is_measured_against_is_trained_and_opened_alike(data: Path, tmp_path: Path, model: str) -> None:
    small = ("--dim", "4", "--depth", "1", "--history", "2", "--batch", "2", "--ema", "0.5", "--device", "cpu")
    trained = ("pde", "train", data, "-o", tmp_path / "run", "--model", model, *small)
    assert fredholm(*trained, "--minutes", "0.0001") == 0
    run = Run.open(tmp_path / "run", SurrogatePlan.read)
    assert run.plan.model == model
    found, written = run.load_model().state_dict(), load_file(run.weights_file)
    assert all(torch.equal(found[name], value) for name, value in written.items())
    assert found.keys() == written.keys()


def test_it_interpolates_where_asked(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = ("pde", "train", data, "-o", tmp_path / "run", *SMALL, "--minutes", "0.001")
    says(capsys, "need --interpolation", code=fredholm(*trained, "--interpolate-from", "2"))
    code = fredholm(*trained, "--interpolation", "4", "--model", "unet")
    says(capsys, "the model unet has no --interpolation", code=code)
    assert fredholm(*trained, "--interpolation", "4", "--anchor-phases", "2", "4") == 0
    run = Run.open(tmp_path / "run", SurrogatePlan.read)
    assert run.plan.network.interpolation == Interpolation(anchors=4)  # pyright: ignore[reportAttributeAccessIssue]
    assert run.plan.recipe.phases == AnchorPhases(activation=2, joint=4)
    assert anchors_of(run.load_model())[0].any()


def test_a_finished_run_is_finished(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fredholm("pde", "train", data, "-o", tmp_path / "run", "--minutes", "0.001", *SMALL)
    assert fredholm("pde", "train", data, "-o", tmp_path / "run", "--resume") == 0
    assert "the run is finished already" in capsys.readouterr().err


def test_without_statistics_it_says_how_to_get_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = fredholm("pde", "train", write_set(tmp_path / "set"), "-o", tmp_path / "run", *SMALL)
    says(capsys, f"fredholm pde stats {tmp_path / 'set'} computes it", code=code)
    assert not (tmp_path / "run").exists()


def other_fields(data: Path) -> Path:
    write_file(data / "data/train/other.hdf5", fields={"density": 0, "pressure": 0})
    return data


def no_training_file(data: Path) -> Path:
    (data / "data/train/waves.hdf5").unlink()
    return data


def cut_off(data: Path) -> Path:
    file = data / "data/train/waves.hdf5"
    file.write_bytes(file.read_bytes()[:2000])
    return data


WRONG = [
    (lambda data: data / "data", (), "has no folder data/"),
    (no_training_file, (), "the split train has no file"),
    (other_fields, (), "waves.hdf5: fields ('t0:density', 't1:velocity') differ from ('t0:density', 't0:pressure')"),
    (cut_off, (), "waves.hdf5: no HDF5 file, or damaged"),
    (lambda data: data, ("--patch", "4"), "patch 4 does not divide the grid (8, 6): choose another --patch"),
    (lambda data: data, ("--patch", "16"), "patch 16 does not divide the grid (8, 6): choose another --patch"),
    (lambda data: data, ("--history", "5"), "5 steps is not enough"),
    (lambda data: data, ("--model", "transformer"), "transformer"),
    (lambda data: data, ("--pattern", "HX"), "X"),
    (lambda data: data, ("--loss", "mae"), "mae"),
]


@pytest.mark.parametrize(("spoil", "options", "words"), WRONG, ids=[str(n) for n in range(len(WRONG))])
def test_what_is_wrong_is_one_line_and_no_run_is_made(
    data: Path, tmp_path: Path, capsys, spoil: Callable[[Path], Path], options: tuple[str, ...], words: str
) -> None:
    code = fredholm("pde", "train", spoil(data), "-o", tmp_path / "run", *SMALL, *options)
    says(capsys, words, code=code)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", [("evaluate",), ("rollout",)])
def test_a_field_that_is_not_there_is_named(data: Path, tmp_path: Path, capsys, command: tuple[str, ...]) -> None:
    run = write_run(tmp_path / "run", data)
    other = write_set(tmp_path / "other", fields={"pressure": 0, "velocity": 1})
    fredholm("pde", "stats", other)
    capsys.readouterr()
    what = other if command == ("evaluate",) else other / "data/test/waves.hdf5"
    target = () if command == ("evaluate",) else ("-o", tmp_path / "out.hdf5")
    says(capsys, "density", code=fredholm("pde", *command, run.folder, what, *target))


def test_a_stopped_one_goes_on_to_the_same_weights(data: Path, tmp_path: Path, monkeypatch) -> None:
    """In bfloat16, with noise, unrolled, beside a running mean."""
    options = (*SMALL, "--noise", "0.1", "--unroll", "2", "--ema", "0.9", "--precision", "bf16-mixed")
    monkeypatch.setattr(training, "EPOCH", 6)
    trained = ("pde", "train", data, "-o", tmp_path / "whole", *options, "--epochs", "1")
    assert fredholm(*trained) == 0

    step = Trainer._step

    def interrupted(self: Trainer, batches) -> None:
        step(self, batches)
        if self.step == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", interrupted)
        assert fredholm("pde", "train", data, "-o", tmp_path / "halves", *options, "--epochs", "1") != 0
    assert fredholm("pde", "train", data, "-o", tmp_path / "halves", "--resume") == 0
    whole, halves = (load_file(Run.open(tmp_path / name, SurrogatePlan.read).weights_file) for name in NAMES)
    assert all(torch.equal(halves[name], weight) for name, weight in whole.items())


def test_two_processes_train_one_run_and_one_of_them_speaks(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "fredholm.apps.cli", "pde", "train", data, "-o", tmp_path / "run"]
    shared = [*command, *SMALL, "--devices", "2", "--minutes", "0.001"]
    done = subprocess.run(shared, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(tmp_path / "run")
    assert done.stdout.count("one step") == 1
    assert Run.open(tmp_path / "run", SurrogatePlan.read).load_model()
