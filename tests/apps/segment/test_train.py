"""Training through the command, and every mistake on one line."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fredholm.apps import console
from fredholm.pipelines.nifti import write_labels
from fredholm.pipelines.plan import Network, Plan
from fredholm.pipelines.run import Run
from fredholm.pipelines.training import Trainer
from fredholm.pipelines.volume import Volume
from helpers.segment import QUICK, body, data_set, fredholm, names, says, write_scan
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

# warnings are lines on stderr once the command has begun; here they must not be errors
pytestmark = pytest.mark.filterwarnings("default::UserWarning")


def test_without_validation_only_the_folder_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_set(tmp_path / "data", 1)
    assert fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK, "--seed", "4", "--stages", "HHHH") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'run'}\n"
    plan = Plan.read(tmp_path / "run" / "plan.yaml")
    assert plan.network == Network(stages="HHHH", feature_size=12)
    assert plan.recipe is not None
    assert (plan.recipe.seed, plan.recipe.precision) == (4, "32-true")


@pytest.mark.usefixtures("small")
def test_minutes_are_turned_into_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [option for option in QUICK if option not in ("--epochs", "1")]
    data = data_set(tmp_path / "data", 1)
    assert fredholm("segment", "train", data, "-o", tmp_path / "run", *options, "--minutes", "1e-9") == 0
    recipe = Plan.read(tmp_path / "run" / "plan.yaml").recipe
    assert recipe is not None
    assert (recipe.steps, recipe.minutes) == (9, 1e-9)
    assert "s a step: 9 steps in 1e-09 minutes" in capsys.readouterr().err


def test_minutes_and_epochs_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("segment", "train", tmp_path, "-o", tmp_path / "run", "--minutes", "1", "--epochs", "1")
    says(capsys, "--minutes and --epochs exclude each other", code=fredholm(*command))


@pytest.mark.usefixtures("small")
def test_a_fold_is_held_out_stated_and_taken_again_from_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_set(tmp_path / "data", 3)
    for run, option in (("one", ["--fold", "2/3"]), ("two", ["--split", tmp_path / "one" / "plan.yaml"])):
        assert fredholm("segment", "train", data, "-o", tmp_path / run, *QUICK, *option) == 0
        assert "held out: case_1\n" in capsys.readouterr().err
        stated = Plan.read(tmp_path / run / "plan.yaml").data
        assert (stated["training"], stated["validation"]) == (["case_0", "case_2"], ["case_1"])


@pytest.mark.usefixtures("small")
def test_ctrl_c_saves_the_state_and_resume_goes_on_as_if_there_had_been_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_set(tmp_path / "data", 1)
    command = ("segment", "train", data, "-o")
    assert fredholm(*command, tmp_path / "whole", *QUICK) == 0
    step = console.Bar.step

    def stop(self: console.Bar, number: int, *more) -> None:
        step(self, number, *more)
        if number == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(console.Bar, "step", stop)
        capsys.readouterr()
        code = fredholm(*command, tmp_path / "halves", *QUICK)
        says(capsys, "stopped; what was finished is kept", code=code, expected=130)
    assert names(tmp_path / "halves") == ["plan.yaml", "state"]
    assert fredholm(*command, tmp_path / "halves", "--resume") == 0
    assert "going on at step 2 of 3" in capsys.readouterr().err
    whole, halves = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "halves"))
    assert whole == halves


@pytest.mark.usefixtures("small")
def test_a_finished_run_that_is_resumed_says_so_and_keeps_its_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # E5
    data, trained = data_set(tmp_path / "data", 1), tmp_path / "run"
    assert fredholm("segment", "train", data, "-o", trained, *QUICK) == 0
    weights, log = (trained / "weights.safetensors").read_bytes(), Run.open(trained).read_log()
    capsys.readouterr()
    assert fredholm("segment", "train", data, "-o", trained, "--resume") == 0
    assert "the run is finished already" in capsys.readouterr().err
    assert (trained / "weights.safetensors").read_bytes() == weights
    assert Run.open(trained).read_log() == log


@pytest.mark.usefixtures("small")
def test_a_finished_run_may_be_given_more_epochs(tmp_path: Path) -> None:  # E5
    data, trained = data_set(tmp_path / "data", 1), tmp_path / "run"
    assert fredholm("segment", "train", data, "-o", trained, *QUICK) == 0
    assert fredholm("segment", "train", data, "-o", trained, "--resume", "--epochs", "2") == 0
    assert Run.open(trained).load_state()["step"] == 6


@pytest.mark.usefixtures("small")
def test_trainings_with_and_without_a_cache_are_equal_bit_for_bit(tmp_path: Path) -> None:
    data, weights = data_set(tmp_path / "data", 2), []
    for name, options in (
        ("none", []),
        ("new", ["--cache", tmp_path / "cache"]),
        ("kept", ["--cache", tmp_path / "cache"]),
    ):
        assert fredholm("segment", "train", data, "-o", tmp_path / name, *QUICK, *options) == 0
        weights.append((tmp_path / name / "weights.safetensors").read_bytes())
    assert weights[0] == weights[1] == weights[2]
    assert len(names(tmp_path / "cache")) == 4  # a look and a case of each


@pytest.mark.usefixtures("small")
def test_a_fast_run_has_voxels_eight_times_as_large(tmp_path: Path) -> None:
    data = data_set(tmp_path / "data", 1)
    assert fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK, "--fast") == 0
    assert Run.open(tmp_path / "run").plan.preparation.spacing_mm == (2.0, 2.0, 2.0)


@pytest.mark.usefixtures("small")
def test_curves_are_those_of_the_log_and_go_on_with_it(tmp_path: Path) -> None:
    data, trained = data_set(tmp_path / "data", 1), tmp_path / "run"
    command = ("segment", "train", data, "-o", trained, "--tensorboard")
    assert fredholm(*command, *QUICK) == 0
    assert fredholm(*command, "--resume", "--epochs", "4") == 0
    events = EventAccumulator(str(trained / "tensorboard")).Reload()
    logged = {int(row["step"]): row["loss"] for row in Run.open(trained).read_log()}
    assert {event.step: event.value for event in events.Scalars("loss")} == pytest.approx(logged, rel=1e-5)


def test_without_tensorboard_the_line_that_installs_it_is_told_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fredholm.pipelines.tensorboard", "torch.utils.tensorboard"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    code = fredholm("segment", "train", tmp_path / "nowhere", "-o", tmp_path / "run", "--tensorboard")
    says(capsys, "needs tensorboard: pip install 'fredholm[tensorboard]'", code=code)


def test_a_new_run_does_not_fall_upon_an_old_one(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "weights.safetensors").read_bytes()
    code = fredholm("segment", "train", data_set(tmp_path / "data", 1), "-o", run, *QUICK)
    says(capsys, f"{run} already holds a run: --resume goes on with it", code=code)
    assert (run / "weights.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--stages", "HHXA"], "unknown letter 'X'; known are A (WindowAttention), H (Hyena)"),
        (["--stages", "HH"], "expected four stages"),
        (["--feature-size", "13"], "multiple of 12, got 13"),
        (["--validation", "case_7"], "no case 'case_7'"),
        (["--validation", "case_0"], "every case is held out"),
        (["--fold", "2/2"], "1 patients cannot be dealt out to 2 folds"),
        (["--fold", "2"], "a fold is k/n"),
        (["--split", "nowhere.json"], "no such file: nowhere.json"),
        (["--validation", "--fold", "1/2"], "--validation excludes --split and --fold"),
        (["--spacing", "1", "0", "1"], "a spacing is three positive numbers of mm"),
        (["--fast", "--spacing", "1", "1", "1"], "--fast and --spacing exclude each other"),
        (["--device", "gpu"], "unknown device 'gpu'"),
        (["--resume"], "no run at"),
    ],
)
def test_a_wish_that_cannot_be_met_leaves_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    data = data_set(tmp_path / "data", 1)
    code = fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK, *options)
    says(capsys, words, code=code)
    assert not (tmp_path / "run").exists()


def test_a_window_that_does_not_fit_the_network_leaves_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_set(tmp_path / "data", 1, shape=(45, 34, 33))
    code = fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK, "--window", "40", "32", "32")
    says(capsys, "a multiple of 32", code=code)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--epochs", "0"],
        ["--epochs", "-1"],
        ["--accumulate", "0"],
        ["--batch", "0"],
        ["--ema", "2"],
        ["--window-hu", "250", "-150"],
    ],
)
def test_a_number_that_makes_no_sense_is_refused_before_a_run_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setattr(Trainer, "_step", lambda self, _: setattr(self, "step", self.step + 1))
    code = fredholm("segment", "train", data_set(tmp_path / "data", 1), "-o", tmp_path / "run", *QUICK, *options)
    says(capsys, code=code)
    assert not (tmp_path / "run").exists()


def test_a_data_set_without_labels_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_scan(tmp_path / "data/images/a.nii.gz")
    code = fredholm("segment", "train", tmp_path / "data", "-o", tmp_path / "run", *QUICK)
    says(capsys, "has images (1) but no label maps", code=code)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("make", [False, True])
def test_a_folder_without_images_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], make: bool) -> None:
    if make:
        (tmp_path / "data").mkdir()
    code = fredholm("segment", "train", tmp_path / "data", "-o", tmp_path / "run", *QUICK)
    says(capsys, "no images in" if make else "no such folder", str(tmp_path / "data"), code=code)


def test_a_label_map_on_another_grid_is_refused_with_both_shapes_and_affines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_set(tmp_path / "data", 1)
    other = Volume(np.ones((24, 20, 27), np.uint8), np.diag((1.5, 1.0, 1.0, 1.0)))
    write_labels(data / "labels/case_0.nii.gz", other.array, like=other)
    code = fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK)
    says(capsys, "case case_0: not on one grid", "(24, 20, 28)", "(24, 20, 27)", "-318", "1.5", code=code)
    assert not (tmp_path / "run").exists()


def test_a_label_without_a_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_set(tmp_path / "data", 1)
    (data / "names.json").write_text('{"1": "spleen"}')
    code = fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK)
    says(capsys, "case case_0: label values 2 have no name; known are 0, 1", code=code)


def test_a_label_map_without_any_label_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_set(tmp_path / "data", 1)
    write_labels(data / "labels/case_0.nii.gz", np.zeros((24, 20, 28), np.uint8), like=body(0)[0])
    code = fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK)
    says(capsys, "every label map is empty", code=code)


@pytest.mark.usefixtures("small")
def test_resuming_without_a_state_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, trained = data_set(tmp_path / "data", 1), tmp_path / "run"
    assert fredholm("segment", "train", data, "-o", trained, *QUICK) == 0
    shutil.rmtree(trained / "state")
    capsys.readouterr()
    says(capsys, "state/last.pt is missing", code=fredholm("segment", "train", data, "-o", trained, "--resume"))


def test_resuming_a_converted_run_is_refused(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = fredholm("segment", "train", data_set(tmp_path / "data", 1), "-o", run, "--resume")
    says(capsys, "recipe", code=code)


# predict


def test_two_processes_train_one_run_and_one_of_them_speaks(tmp_path: Path) -> None:
    data = data_set(tmp_path / "data", 4)
    command = [sys.executable, "-W", "ignore", "-m", "fredholm.apps.cli", "segment", "train", str(data)]
    options = ["-o", str(tmp_path / "run"), "--devices", "2", "--device", "cpu", "--minutes", "0.01"]
    held_out = ["--validation", "case_1", "case_2", "case_3"]
    small = ["--feature-size", "12", "--window", "32", "32", "32"]
    done = subprocess.run([*command, *options, *held_out, *small], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(tmp_path / "run")
    assert done.stdout.count("mean of classes") == 1
    assert done.stderr.count("cases to train on") == 1
    assert names(tmp_path / "run") == ["best.safetensors", "log.csv", "plan.yaml", "state", "weights.safetensors"]
