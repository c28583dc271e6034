"""From labelled scans to scored label maps, and real scans in any axis order."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from fredholm.pipelines.nifti import read_labels
from fredholm.pipelines.plan import Plan
from fredholm.pipelines.run import Run
from fredholm.pipelines.scores import dice
from fredholm.pipelines.volume import canonical
from helpers.segment import PLAN, QUICK, assert_same_geometry, data_set, fredholm, names, predict
from nibabel.orientations import axcodes2ornt

# warnings are lines on stderr once the command has begun; here they must not be errors
pytestmark = pytest.mark.filterwarnings("default::UserWarning")


def test_two_channels_are_trained_on_and_predicted_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, trained, found = data_set(tmp_path / "data"), tmp_path / "run", tmp_path / "found"
    for number in (0, 1):
        image = data / f"images/case_{number}.nii.gz"
        shutil.copy(image, data / f"images/case_{number}_0001.nii.gz")
        image.rename(data / f"images/case_{number}_0000.nii.gz")
    (data / "images").rename(data / "imagesTr"), (data / "labels").rename(data / "labelsTr")
    description = {"channel_names": {"0": "CT", "1": "PET"}, "labels": {"spleen": 1, "liver": 2}}
    (data / "dataset.json").write_text(json.dumps(description))
    assert fredholm("segment", "train", data, "-o", trained, *QUICK) == 0
    plan = Plan.read(trained / "plan.yaml")
    assert (plan.channels, plan.network.channels, len(plan.preparation.windows)) == (("CT", "PET"), 2, 2)
    assert predict(data / "imagesTr", found, trained) == 0
    assert names(found) == ["case_0.nii.gz", "case_1.nii.gz"]
    assert predict(data / "imagesTr/case_1_0000.nii.gz", tmp_path / "one.nii.gz", trained) == 0
    alone, together = (read_labels(path).array for path in (tmp_path / "one.nii.gz", found / "case_1.nii.gz"))
    np.testing.assert_array_equal(alone, together)
    (data / "imagesTr/case_1_0001.nii.gz").unlink()
    capsys.readouterr()
    assert predict(data / "imagesTr", found, trained) == 1
    assert "case case_1: expected 2 channels, _0000 to _0001" in capsys.readouterr().err


def test_from_labelled_scans_to_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, trained = data_set(tmp_path / "data"), tmp_path / "run"
    assert fredholm("segment", "train", data, "-o", trained, *QUICK, "--validation", "case_1") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["Dice", "case_1"]
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["spleen", "liver", "mean"]
    assert out.splitlines()[-1] == str(trained)
    assert "1 cases to train on, 1 held out, 2 classes; spacing 1 x 1 x 1 mm" in err
    assert names(trained) == ["best.safetensors", "log.csv", "plan.yaml", "state", "weights.safetensors"]
    plan = Plan.read(trained / "plan.yaml")
    assert plan.names == PLAN.names
    assert plan.data == {"folder": "data", "training": ["case_0"], "validation": ["case_1"]}
    assert plan.recipe is not None
    assert plan.recipe.steps == 3
    (row,) = Run.open(trained).read_log()
    assert (row["step"], row["loss"] > 0) == (2, True)

    assert fredholm("segment", "predict", "-i", data / "images", "-o", tmp_path / "found", "--run", trained) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(tmp_path / "found" / f"case_{number}.nii.gz") for number in (0, 1)]
    assert "fredholm:" not in err
    assert names(tmp_path / "found") == ["case_0.nii.gz", "case_1.nii.gz"]

    command = ("segment", "evaluate", tmp_path / "found", data / "labels", "--names", data / "names.json")
    assert fredholm(*command, "--json", tmp_path / "scores.json") == 0
    out, err = capsys.readouterr()
    assert err.strip() == ""
    assert re.split(r"  +", out.splitlines()[0]) == ["mean of 2 cases", "Dice", "NSD 2 mm", "HD95 mm", "diff ml"]
    scores = json.loads((tmp_path / "scores.json").read_text())
    for name in ("case_0", "case_1"):
        found, truth = (
            read_labels(folder / f"{name}.nii.gz").array for folder in (tmp_path / "found", data / "labels")
        )
        row = dice(found, truth, [1, 2])
        assert scores["dice"]["cases"][name] == {"spleen": pytest.approx(row[1]), "liver": pytest.approx(row[2])}
    assert scores["dice"]["casewise"] == pytest.approx(np.mean(list(scores["dice"]["mean_per_case"].values())))


@pytest.fixture(scope="module")
def coarse_run(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same network at 12 mm, where one window holds a body."""
    folder = tmp_path_factory.mktemp("coarse") / "run"
    shutil.copytree(run, folder)
    Run.open(folder).replan(replace(PLAN, preparation=replace(PLAN.preparation, spacing_mm=(12.0, 12.0, 12.0))))
    return folder


def test_a_real_scan_and_the_same_in_another_axis_order(medical: Path, tmp_path: Path, coarse_run: Path) -> None:
    given = medical / "torso" / "ct.nii.gz"
    image = nib.load(given)
    moves = axcodes2ornt(("P", "S", "R"))
    nib.save(image.as_reoriented(moves), tmp_path / "turned.nii.gz")  # pyright: ignore[reportAttributeAccessIssue]
    maps = []
    for name, scan in {"straight": given, "turned": tmp_path / "turned.nii.gz"}.items():
        assert predict(scan, tmp_path / f"{name}_labels.nii.gz", coarse_run) == 0
        assert_same_geometry(scan, tmp_path / f"{name}_labels.nii.gz")
        maps.append(canonical(read_labels(tmp_path / f"{name}_labels.nii.gz")))
    assert len(np.unique(maps[0].array)) > 1
    np.testing.assert_array_equal(maps[1].array, maps[0].array)
    np.testing.assert_allclose(maps[1].affine, maps[0].affine, rtol=0, atol=1e-4)


def test_awkward_files_are_labelled_or_refused_on_one_line(
    medical: Path, tmp_path: Path, coarse_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(medical / "awkward_nifti", tmp_path / "labels", coarse_run) == 1
    out, err = capsys.readouterr()
    labelled = ["AICHAmc", "CT_pitch", "anatomical", "resampled_anat_moved", "with_extension"]
    assert [Path(line).name.split(".")[0] for line in out.splitlines()] == labelled
    refused = [line for line in err.splitlines() if line.startswith("fredholm: ") and "warning" not in line]
    assert [line.split(":")[1].strip() for line in refused[:2]] == ["example_nifti2.nii.gz", "functional.nii"]
    assert refused[2:] == [f"fredholm: 2 of 7 scans failed, the others are in {tmp_path / 'labels'}"]
    for path in (tmp_path / "labels").glob("*.nii*"):  # predictions.json lies beside them
        assert_same_geometry(medical / "awkward_nifti" / path.name, path)
