"""`segment predict --crop-run`: a coarse run finds what a fine one labels."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fredholm.pipelines.nifti import read_labels, write_volume
from fredholm.pipelines.plan import Network, Plan
from fredholm.pipelines.predict import Predictor
from fredholm.pipelines.run import Run
from fredholm.pipelines.volume import Volume
from helpers.segment import PLAN, assert_same_geometry, body, predict, says, write_scan
from torch import nn

pytestmark = pytest.mark.filterwarnings("default::UserWarning")


@pytest.fixture(autouse=True)
def _thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Network, "build", lambda _, classes: nn.Conv3d(1, classes, 1))


def run_at(folder: Path, spacing_mm: float, **changes) -> Path:
    """A run that tells air, spleen and liver by their Hounsfield units; the coarse one by the name of its spacing."""
    preparation = replace(PLAN.preparation, spacing_mm=(spacing_mm,) * 3)
    made = Run.create(folder, replace(PLAN, preparation=preparation, **changes))
    bias = torch.tensor([-2.0, 0.0, -2.0])
    made.save_weights({"weight": torch.tensor([-4.0, 0.0, 8.0])[:, None, None, None, None], "bias": bias})
    return folder


@pytest.fixture
def fine(tmp_path: Path) -> Path:
    return run_at(tmp_path / "fine", 1.0)


@pytest.fixture
def coarse(tmp_path: Path) -> Path:
    return run_at(tmp_path / "coarse", 2.0)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, tuple[int, int, int]]]:
    """Spacing of the network and shape of the part, for each time that something is labelled."""
    told = []
    label = Predictor.label

    def noted(self: Predictor, volume: Volume, *more) -> np.ndarray:
        told.append((self.plan.preparation.spacing_mm[0], volume.shape))
        return label(self, volume, *more)

    monkeypatch.setattr(Predictor, "label", noted)
    return told


def test_only_the_box_about_the_structure_is_labelled_and_the_rest_is_background(
    tmp_path: Path, fine: Path, coarse: Path, seen: list
) -> None:
    scan = write_scan(tmp_path / "scan.nii.gz")
    options = ("--crop-run", coarse, "--crop-to", "liver", "--margin-mm", 1)
    assert predict(scan, tmp_path / "labels.nii.gz", fine, *options) == 0
    truth = body(0)[1]
    np.testing.assert_array_equal(read_labels(tmp_path / "labels.nii.gz").array, np.where(truth == 2, 2, 0))
    assert_same_geometry(scan, tmp_path / "labels.nii.gz")
    assert seen[0] == (2.0, truth.shape)
    assert all(np.prod(shape) < truth.size / 5 for _, shape in seen[1:])


def test_a_box_that_would_cut_a_structure_grows_until_it_holds_it(
    tmp_path: Path, fine: Path, coarse: Path, seen: list
) -> None:  # D9
    scan = write_scan(tmp_path / "scan.nii.gz")
    options = ("--crop-run", coarse, "--crop-to", "liver", "--margin-mm", 8)
    assert predict(scan, tmp_path / "labels.nii.gz", fine, *options) == 0
    np.testing.assert_array_equal(read_labels(tmp_path / "labels.nii.gz").array, body(0)[1])
    assert len(seen) > 2


def test_all_its_classes_count_where_none_are_named(tmp_path: Path, fine: Path, coarse: Path) -> None:
    scan = write_scan(tmp_path / "scan.nii.gz")
    assert predict(scan, tmp_path / "labels.nii.gz", fine, "--crop-run", coarse, "--margin-mm", 1) == 0
    np.testing.assert_array_equal(read_labels(tmp_path / "labels.nii.gz").array, body(0)[1])


def test_where_the_first_look_finds_nothing_the_whole_scan_is_labelled_and_it_is_said(
    tmp_path: Path, fine: Path, coarse: Path, seen: list, capsys: pytest.CaptureFixture[str]
) -> None:
    volume, _ = body(0)
    volume.array[8:] = -1000  # one slice less than the structures of 2 mm voxels need, but spleen enough
    volume.array[:, :, 8:] = -1000
    write_volume(tmp_path / "scan.nii.gz", volume)
    options = ("--crop-run", coarse, "--crop-to", "liver")
    assert predict(tmp_path / "scan.nii.gz", tmp_path / "labels.nii.gz", fine, *options) == 0
    assert "scan.nii.gz: the first look finds nothing, so the whole scan is labelled" in capsys.readouterr().err
    assert seen[1] == (1.0, volume.shape)
    assert 1 in read_labels(tmp_path / "labels.nii.gz").array


def test_a_folder_is_labelled_again_where_the_box_is_another(
    tmp_path: Path, fine: Path, coarse: Path, seen: list
) -> None:
    write_scan(tmp_path / "scans/a.nii.gz")
    crop = ("--crop-run", coarse)
    for options, looks in (((), 1), (crop, 2), (crop, 0), ((*crop, "--crop-to", "liver"), 2), ((), 1)):
        seen.clear()
        assert predict(tmp_path / "scans", tmp_path / "out", fine, *options) == 0
        assert len(seen) == looks


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--crop-run", "COARSE", "--crop-to", "kidney"], "has no class 'kidney', it has spleen, liver"),
        (["--crop-run", "COARSE", "--crop-to", "background"], "has no class 'background'"),
        (["--crop-to", "liver"], "--crop-to needs --crop-run"),
        (["--crop-run", "COARSE", "--margin-mm", "-1"], "a margin is 0 mm or more, not -1"),
        (["--crop-run", "NOWHERE"], "no run at"),
        (["--crop-run", "PET"], "is for images of CT, PET"),
    ],
)
def test_a_mistake_is_told_before_the_work(
    tmp_path: Path, fine: Path, coarse: Path, seen: list, capsys: pytest.CaptureFixture[str], options, words: str
) -> None:
    preparation = replace(PLAN.preparation, windows_of_others=((0.0, 9.0),))
    pet = Plan(
        names=PLAN.names, preparation=preparation, network=Network(feature_size=12, channels=2), channels=("CT", "PET")
    )
    folders = {"COARSE": coarse, "PET": Run.create(tmp_path / "pet", pet).folder}
    scan = write_scan(tmp_path / "scan.nii.gz")
    code = predict(scan, tmp_path / "labels.nii.gz", fine, *(folders.get(option, option) for option in options))
    says(capsys, words, code=code)
    assert seen == []
    assert not (tmp_path / "labels.nii.gz").exists()
