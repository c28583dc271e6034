"""`fredholm inspect` tells of each kind of run, and what is wrong is one line."""

import json
from pathlib import Path

import pytest
from fredholm.backbones import Interpolation, PointBody
from fredholm.pipelines.plan import Network, Plan, Preparation
from fredholm.pipelines.points.plan import PointPlan
from fredholm.pipelines.run import Run
from helpers.points import NAMES, write_npz
from helpers.segment import fredholm, says, write_scan
from helpers.well import write_run, write_set


def finished(folder: Path, plan, model) -> Path:
    Run.create(folder, plan).save_weights(model.state_dict())
    return folder


@pytest.fixture
def segmenter(tmp_path: Path) -> Path:
    plan = Plan(
        names={0: "background", 1: "ball"},
        preparation=Preparation(spacing_mm=(1.0, 1.0, 1.0), window_hu=(-100.0, 100.0)),
        network=Network(stages="HAAI", feature_size=12, interpolation=Interpolation(anchors=4, from_layer=3)),
        window=(32, 32, 32),
    )
    return finished(tmp_path / "run", plan, plan.network.build(2))


def test_a_segmenter_is_shown_the_middle_of_a_scan(segmenter: Path, tmp_path: Path, capsys) -> None:
    scan = write_scan(tmp_path / "scan.nii.gz", (40, 20, 32))
    shown = ("--data", scan, "--json", tmp_path / "layers.json", "--picture", tmp_path / "a.png")
    assert fredholm("inspect", segmenter, *shown) == 0
    out = capsys.readouterr().out
    assert "entropy/bits" in out
    assert "share of anchor" in out
    layers = json.loads((tmp_path / "layers.json").read_text())
    assert [layer["mixer"] for layer in layers] == [
        kind for kind in ("HyenaND", "WindowAttention", "WindowAttention", "IntegralTransform") for _ in range(2)
    ]
    assert ["alpha" in layer["found"] for layer in layers] == [False] * 2 + [True] * 6
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_without_data_it_tells_alpha(segmenter: Path, capsys) -> None:
    assert fredholm("inspect", segmenter) == 0
    assert "alpha" in capsys.readouterr().out


def test_a_surrogate_is_shown_frames(tmp_path: Path, capsys) -> None:
    run = write_run(tmp_path / "run", write_set(tmp_path / "set"))
    assert fredholm("inspect", run.folder, "--data", tmp_path / "set") == 0
    out = capsys.readouterr().out
    assert "kernel reach" in out
    assert "alpha" not in out


def test_a_classifier_is_shown_clouds(tmp_path: Path, capsys) -> None:
    write_npz(tmp_path / "data.npz", 2)
    plan = PointPlan(names=tuple(NAMES), points=32, network=PointBody(dims=(8, 16), neighbours=4))
    run = finished(tmp_path / "run", plan, plan.build())
    assert fredholm("inspect", run, "--data", tmp_path / "data.npz") == 0
    assert "rank" in capsys.readouterr().out


def test_what_is_wrong_is_one_line(segmenter: Path, tmp_path: Path, capsys) -> None:
    says(capsys, "no run at", code=fredholm("inspect", tmp_path / "none"))
    says(capsys, "ends in .png", code=fredholm("inspect", segmenter, "--picture", "layers.html"))
    says(capsys, "was not validated", code=fredholm("inspect", segmenter, "--weights", "best"))
