"""`fredholm pde train`: a run is made, goes on, and what is wrong is one line."""

from pathlib import Path

import pytest
import torch
from fredholm.backbones import Interpolation
from fredholm.pipelines.forecast.plan import SurrogatePlan
from fredholm.pipelines.phases import AnchorPhases, anchors_of
from fredholm.pipelines.run import Run
from helpers.segment import fredholm, says
from helpers.well import write_set
from safetensors.torch import load_file

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


def test_a_patch_that_does_not_divide_the_grid_is_one_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = fredholm("pde", "train", data, "-o", tmp_path / "run", *SMALL, "--patch", "4")
    says(capsys, "patch 4 does not divide the grid (8, 6): choose another --patch", code=code)
    assert not (tmp_path / "run").exists()
