"""What a network says of a window and its mirror images does not depend on which of them was given."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fredholm.pipelines.mirror import Reflected, mirrored
from fredholm.pipelines.plan import Plan
from fredholm.pipelines.predict import Predictor
from fredholm.pipelines.run import Run
from helpers.orders import ORDERS, in_order
from helpers.segment import PLAN, QUICK, body, data_set, fredholm, names, predict, says, write_scan
from nibabel.orientations import apply_orientation
from torch import Tensor, nn

DIRECTIONS = ("right", "front", "head")
SETS = [subset for count in (1, 2, 3) for subset in itertools.combinations(DIRECTIONS, count)]
CPU = torch.device("cpu")


def lopsided() -> nn.Module:
    """Every one of its weights matters, and none has a counterpart."""
    torch.manual_seed(0)
    return nn.Conv3d(1, 3, 3, padding=1).eval()


def learned(*directions: str) -> Plan:
    return replace(PLAN, mirrored=directions)


def axes_of(directions: Sequence[str]) -> list[int]:
    return [DIRECTIONS.index(name) + 2 for name in directions]


@pytest.mark.parametrize("directions", SETS)
@torch.inference_mode()
def test_it_is_the_mean_probability_of_all_mirror_images(directions: tuple[str, ...]) -> None:
    model, x = lopsided(), torch.randn(2, 1, 5, 6, 7)
    axes = axes_of(directions)
    flips = [flip for count in range(len(axes) + 1) for flip in itertools.combinations(axes, count)]
    expected = torch.stack([model(x.flip(flip)).flip(flip).double().softmax(1) for flip in flips]).mean(0).log()
    torch.testing.assert_close(mirrored(model, [learned(*directions)])(x).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("directions", SETS)
@torch.inference_mode()
def test_the_answer_to_a_mirror_image_is_the_mirror_image_of_the_answer(directions: tuple[str, ...]) -> None:
    model, x = mirrored(lopsided(), [learned(*directions)]), torch.randn(1, 1, 5, 6, 7)
    for axis in axes_of(DIRECTIONS):
        same = torch.allclose(model(x.flip(axis)), model(x).flip(axis), atol=1e-5)
        assert same == (axis in axes_of(directions))


@pytest.mark.parametrize("directions", SETS)
def test_the_network_is_asked_once_for_each_image(directions: tuple[str, ...]) -> None:
    asked = []

    class Noting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            asked.append(x)
            return torch.cat([x, -x], 1)

    x = torch.randn(1, 1, 4, 4, 4)
    mirrored(Noting(), [learned(*directions)])(x)
    assert len(asked) == 2 ** len(directions)
    assert all(not torch.equal(one, other) for one, other in itertools.combinations(asked, 2))


def test_a_window_is_given_back_as_it_was() -> None:
    x = torch.randn(1, 2, 3, 4, 5)
    for axes in ((), (0,), (1, 2), (0, 1, 2)):
        assert torch.equal(Reflected(nn.Identity(), axes)(x), x)


def test_labels_of_a_mirrored_body_are_mirrored() -> None:
    volume, model = body(0, (64, 32, 96))[0], mirrored(lopsided(), [learned(*DIRECTIONS)])
    predictor = Predictor(PLAN, model, CPU, "32-true")
    expected = predictor.label(volume)
    assert len(np.unique(expected)) > 1
    for axis in range(3):
        found = predictor.label(replace(volume, array=np.flip(volume.array, axis).copy()))
        assert np.mean(found == np.flip(expected, axis)) > 0.9999  # but for ties within rounding


def test_prediction_commutes_with_axis_orders_all_the_same() -> None:
    predictor = Predictor(PLAN, mirrored(lopsided(), [learned("front")]), CPU, "32-true")
    volume = body(0)[0]
    expected = predictor.label(volume)
    assert not np.array_equal(expected, Predictor(PLAN, lopsided(), CPU, "32-true").label(volume))
    for order in ORDERS:
        np.testing.assert_array_equal(predictor.label(in_order(volume, order)), apply_orientation(expected, order))


def test_of_several_networks_the_directions_that_all_have_learned_are_taken() -> None:
    plans = [learned("front", "head"), learned("right", "head")]
    assert [one.axes for one in mirrored(lopsided(), plans).models] == [(), (-1,)]
    with pytest.raises(ValueError, match="has not learned mirrored scans"):
        mirrored(lopsided(), [learned("front"), learned("head")])


def test_a_network_that_never_saw_a_mirrored_body_is_not_asked_about_one() -> None:
    with pytest.raises(ValueError, match="leave --mirror away, train with `segment train --mirror front`"):
        mirrored(lopsided(), [PLAN])


# the commands


@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.usefixtures("_small")
def test_a_run_that_learned_mirrored_patches_predicts_with_mirror_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, scan = data_set(tmp_path / "data", 1), write_scan(tmp_path / "scan.nii.gz")
    for name, options in (("plain", []), ("mirrored", ["--mirror", "head", "front"])):
        assert fredholm("segment", "train", data, "-o", tmp_path / name, *QUICK, *options) == 0
    assert Run.open(tmp_path / "plain").plan.mirrored == ()
    assert Run.open(tmp_path / "mirrored").plan.mirrored == ("head", "front")
    assert names(tmp_path / "plain") == names(tmp_path / "mirrored")
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("plain", "mirrored")]
    assert weights[0] != weights[1]
    assert predict(scan, tmp_path / "labels.nii.gz", tmp_path / "mirrored", "--mirror") == 0
    capsys.readouterr()
    code = predict(scan, tmp_path / "other.nii.gz", tmp_path / "plain", "--mirror")
    says(capsys, "has not learned mirrored scans", code=code)
    assert not (tmp_path / "other.nii.gz").exists()


@pytest.mark.usefixtures("_small")
def test_a_folder_that_was_labelled_without_mirror_images_is_labelled_again_with_them(tmp_path: Path) -> None:
    write_scan(tmp_path / "scans/a.nii.gz")
    run = Run.create(tmp_path / "run", learned("front"))
    run.save_weights(lopsided().state_dict())
    made = []
    for options in ((), ("--mirror",), ("--mirror",)):
        assert predict(tmp_path / "scans", tmp_path / "out", run.folder, *options) == 0
        made.append((tmp_path / "out/a.nii.gz").stat().st_mtime_ns)
    assert made[0] < made[1] == made[2]


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fredholm.apps.segment.choices.EPOCH", 3)
    monkeypatch.setattr("fredholm.pipelines.plan.Network.build", lambda _, classes: nn.Conv3d(1, classes, 3, padding=1))
