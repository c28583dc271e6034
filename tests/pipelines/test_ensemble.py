"""Networks that answer as one: the mean of their probabilities, whatever their number and order."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fredholm.pipelines.ensemble import Ensemble, load_together
from fredholm.pipelines.images import read_labels, read_volume
from fredholm.pipelines.plan import Network, Preparation
from fredholm.pipelines.postprocess import Step
from fredholm.pipelines.predict import Predictor
from fredholm.pipelines.run import Run
from helpers.orders import ORDERS, in_order
from helpers.segment import PLAN, body, fredholm, says, write_scan
from nibabel.orientations import apply_orientation
from torch import nn

CPU = torch.device("cpu")


def layer(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Conv3d(1, 3, 3, padding=1).eval()


def label(model: nn.Module, order: np.ndarray = ORDERS[0]) -> np.ndarray:
    with torch.random.fork_rng():
        return Predictor(PLAN, model, CPU, "32-true").label(in_order(body(0)[0], order))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_the_logarithm_of_the_mean_probability(dtype: torch.dtype) -> None:
    models, x = [layer(seed).to(dtype) for seed in range(3)], torch.randn(2, 1, 5, 6, 7, dtype=dtype)
    with torch.inference_mode():
        found = Ensemble(models)(x)
        expected = torch.stack([model(x).double().softmax(1) for model in models]).mean(0).log()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_network_with_itself_gives_its_own_labels(count: int) -> None:
    expected = label(layer(0))
    assert len(np.unique(expected)) > 1
    np.testing.assert_array_equal(label(Ensemble([layer(0)] * count)), expected)


def test_it_commutes_with_all_48_axis_orders() -> None:
    model = Ensemble([layer(0), layer(1)])
    expected = label(model)
    assert not np.array_equal(expected, label(layer(0)))
    for order in ORDERS:
        np.testing.assert_array_equal(label(model, order), apply_orientation(expected, order))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Two finished runs of one plan, with networks of one layer."""
    monkeypatch.setattr(Network, "build", lambda _, classes: nn.Conv3d(1, classes, 3, padding=1))
    made = [Run.create(tmp_path / f"fold_{number}", PLAN) for number in range(2)]
    for number, run in enumerate(made):
        run.save_weights(layer(number).state_dict())
    return made


@pytest.mark.filterwarnings("default::UserWarning")
def test_the_command_takes_several_runs(runs: list[Run], tmp_path: Path) -> None:
    scan = write_scan(tmp_path / "ct.nii.gz")
    folders = [run.folder for run in runs]
    options = ["--precision", "32-true", "--device", "cpu"]
    assert fredholm("segment", "predict", "-i", scan, "-o", tmp_path / "l.nii.gz", "--run", *folders, *options) == 0
    model = load_together(runs, [run.weights_file for run in runs])
    expected = Predictor(PLAN, model, CPU, "32-true").label(read_volume(scan))
    np.testing.assert_array_equal(read_labels(tmp_path / "l.nii.gz").array, expected)


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("names", {0: "background", 1: "liver", 2: "spleen"}),
        ("preparation", Preparation(spacing_mm=(2.0, 1.0, 1.0), window_hu=(-150.0, 250.0))),
        ("window", (64, 32, 32)),
        ("postprocessing", (Step(step="fill holes"),)),
    ],
)
def test_runs_that_disagree_are_refused_on_one_line(
    runs: list[Run], tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, other: object
) -> None:
    runs[1].replan(replace(PLAN, **{key: other}))  # pyright: ignore[reportArgumentType]
    scan = write_scan(tmp_path / "ct.nii.gz")
    folders = [run.folder for run in runs]
    code = fredholm("segment", "predict", "-i", scan, "-o", tmp_path / "l.nii.gz", "--run", *folders)
    says(capsys, *map(str, folders), key, code=code)
