"""The demo goes from nothing to a report, and twice in one folder."""

import functools
import math
import re
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from fredholm.apps import demo
from fredholm.apps.cli import main
from fredholm.apps.demo import Demo
from fredholm.pipelines.nifti import read_labels
from fredholm.pipelines.phantom import LABELS, write_phantom
from fredholm.pipelines.plan import Network
from fredholm.pipelines.run import Run


def check(folder: Path, out: str, case: str) -> None:
    lines = out.splitlines()
    assert lines[-1] == str(folder / "report.html")
    assert re.split(r"  +", lines[0]) == [case, "Dice", "NSD 5 mm", "HD95 mm"]
    assert [line.split()[0] for line in lines[2:-2]] == list(LABELS[1:])
    for line in lines[2:-1]:
        *shares, distance = line.split()[-3:]
        assert all(word == "-" or 0 <= float(word) <= 1 for word in shares)
        assert distance == "-" or float(distance) >= 0
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert report.count("data:image/png;base64,") == 2
    assert "://" not in report
    truth, labels = folder / f"data/labelsTs/{case}.nii.gz", folder / f"{case}_labels.nii.gz"
    np.testing.assert_array_equal(nib.load(labels).affine, nib.load(truth).affine)  # pyright: ignore[reportAttributeAccessIssue]
    assert read_labels(labels).shape == read_labels(truth).shape
    assert read_labels(labels).array.max() < len(LABELS)
    plan = Run.open(folder / "run").plan
    assert plan.recipe is not None
    assert [row["step"] for row in Run.open(folder / "run").read_log()][-1] == plan.recipe.steps - 1
    assert not list(folder.rglob(".*"))


def two_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """One to learn from and one to be tested on, where more would only take time."""
    monkeypatch.setattr(demo, "write_phantom", functools.partial(write_phantom, bodies=2))


@pytest.mark.slow
def test_the_demo_trains_labels_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path / "demo"), "--minutes", "0.02"]) == 0
    out, err = capsys.readouterr()
    check(tmp_path / "demo", out, "body_06")
    assert "making six bodies to learn from and one to be tested on" in err
    assert "What to type for your own scans" in err
    run = Run.open(tmp_path / "demo/run")
    losses = [row["loss"] for row in run.read_log() if "loss" in row]
    assert all(math.isfinite(loss) for loss in losses)
    assert run.plan.names == dict(enumerate(LABELS))


def test_the_demo_may_be_made_anew_in_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_bodies(monkeypatch)
    monkeypatch.setattr(Network, "build", lambda _, classes: torch.nn.Conv3d(1, classes, 3, padding=1))
    monkeypatch.setattr(demo, "SPACING_MM", (12.0, 12.0, 12.0))
    monkeypatch.setattr(demo, "WINDOW", (32, 32, 32))
    for _ in range(2):
        assert main(["demo", "-o", str(tmp_path / "demo"), "--minutes", "0.001"]) == 0
        check(tmp_path / "demo", capsys.readouterr().out, "body_01")


def test_an_unknown_stage_is_told_on_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_bodies(monkeypatch)
    assert main(["demo", "-o", str(tmp_path / "demo"), "--minutes", "0.001", "--stages", "HHXA"]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fredholm: ")]
    assert "unknown letter 'X'" in line


def test_what_the_demo_says_of_its_time_is_about_its_minutes() -> None:
    assert Demo().minutes <= 5
    assert "five minutes" in str(Demo.__doc__)
