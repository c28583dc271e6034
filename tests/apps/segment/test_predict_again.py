"""A folder is done once; what was made of something else, or failed, is not taken for it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import SimpleITK
from fredholm.pipelines.predict import Predictor
from fredholm.pipelines.run import Run
from helpers.dicom import ct_series, save
from helpers.segment import fredholm, names, predict, says, write_scan

pytestmark = pytest.mark.filterwarnings("default::UserWarning")


@pytest.fixture
def labelled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the scans that the network was asked to label; fast, since it answers at random."""
    seen: list[str] = []

    def label(_: Predictor, volume, tick) -> np.ndarray:
        seen.append(volume.path.name if volume.path else "series")
        return np.random.default_rng(len(seen)).integers(0, 3, volume.shape).astype(np.uint8)

    monkeypatch.setattr(Predictor, "label", label)
    return seen


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    for number, name in enumerate("ab"):
        write_scan(tmp_path / f"scans/{name}.nii.gz", (6, 5, 4), number)
    return tmp_path / "scans"


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [Path(line).name for line in capsys.readouterr().out.splitlines()]


def test_a_second_call_does_what_is_missing(
    tmp_path: Path, run: Path, scans: Path, labelled: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert predict(scans, out, run) == 0
    (out / "a.nii.gz").unlink()
    before = (out / "b.nii.gz").read_bytes()
    write_scan(scans / "c.nii.gz", (6, 5, 4), 2)
    capsys.readouterr()
    assert predict(scans, out, run) == 0
    assert labelled == ["a.nii.gz", "b.nii.gz", "a.nii.gz", "c.nii.gz"]
    assert (out / "b.nii.gz").read_bytes() == before
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [str(out / f"{name}.nii.gz") for name in "abc"]
    assert "1 of 3 scans were done before" in captured.err


def test_overwrite_does_it_all_again(tmp_path: Path, run: Path, scans: Path, labelled: list[str]) -> None:
    for options in ((), ("--overwrite",)):
        assert predict(scans, tmp_path / "out", run, *options) == 0
    assert labelled == ["a.nii.gz", "b.nii.gz"] * 2


@pytest.mark.parametrize("change", ["weights", "plan", "scan", "overlap", "precision", "preview"])
def test_what_was_made_of_something_else_is_not_done(
    tmp_path: Path, run: Path, scans: Path, labelled: list[str], change: str
) -> None:
    shutil.copytree(run, tmp_path / "run")
    opened, out = Run.open(tmp_path / "run"), tmp_path / "out"
    assert predict(scans, out, opened.folder) == 0
    options: list[object] = []
    if change == "weights":
        weights = opened.load_model().state_dict()
        opened.save_weights({name: weight * 1.01 for name, weight in weights.items()})
    elif change == "plan":
        (opened.folder / "plan.yaml").write_text((opened.folder / "plan.yaml").read_text() + "notes: [new]\n")
    elif change == "scan":
        write_scan(scans / "a.nii.gz", (6, 5, 4), 7)
    elif change == "preview":
        options = ["--preview"]
    else:
        options = {"overlap": ["--overlap", 0.25], "precision": ["--precision", "bf16-mixed"]}[change]
    assert predict(scans, out, opened.folder, *options) == 0
    assert labelled[2:] == (["a.nii.gz"] if change == "scan" else ["a.nii.gz", "b.nii.gz"])
    assert predict(scans, out, opened.folder, *options) == 0
    assert len(labelled) == (3 if change == "scan" else 4)


def test_voxels_in_a_file_of_their_own_are_part_of_a_scan(
    tmp_path: Path, run: Path, scans: Path, labelled: list[str]
) -> None:
    (tmp_path / "meta").mkdir()
    for number in range(2):
        image = SimpleITK.ReadImage(str(write_scan(tmp_path / "x.nii.gz", (6, 5, 4), number)))
        SimpleITK.WriteImage(image, str(tmp_path / "meta/a.mhd"))
        for _ in range(2):
            assert predict(tmp_path / "meta", tmp_path / "out", run) == 0
        assert len(labelled) == number + 1


def test_a_series_is_done_once(tmp_path: Path, run: Path, labelled: list[str]) -> None:
    save(ct_series(), tmp_path / "series")
    for options in ((), (), ("--output", "both"), ("--output", "both"), ("--output", "dicom-seg"), ()):
        assert predict(tmp_path / "series", tmp_path / "out", run, *options) == 0
    assert len(labelled) == 2  # once for the label map alone, once for both


@pytest.mark.parametrize("harm", ["scan", "network"])
def test_a_failure_leaves_no_earlier_label_map(  # I1
    tmp_path: Path,
    run: Path,
    scans: Path,
    labelled: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    harm: str,
) -> None:
    out, options = tmp_path / "out", ("--preview", "--view", "--statistics", "--overwrite")
    assert predict(scans, out, run, *options) == 0
    if harm == "scan":
        (scans / "a.nii.gz").write_bytes(b"no scan any more")
    else:
        fine = Predictor.label

        def fail(predictor: Predictor, volume, tick) -> np.ndarray:
            if volume.path.name == "a.nii.gz":
                raise ValueError("the network is ill")
            return fine(predictor, volume, tick)

        monkeypatch.setattr(Predictor, "label", fail)
    capsys.readouterr()
    assert predict(scans, out, run, *options) == 1
    assert told(capsys) == ["b.nii.gz"]
    assert [name for name in names(out) if name[0] in "ab"] == ["b.html", "b.nii.gz", "b.png", "b_sheet.html"]
    assert list(json.loads((out / "statistics.json").read_text())) == ["b"]
    assert list(json.loads((out / "predictions.json").read_text())) == ["b.nii.gz"]


@pytest.mark.parametrize("name", ["new", "new/", "deep/er/", "v1.5/"])
def test_a_folder_for_one_scan_is_made(tmp_path: Path, run: Path, scans: Path, labelled: list[str], name: str) -> None:
    arguments = ["segment", "predict", "-i", scans / "a.nii.gz", "-o", f"{tmp_path}/{name}", "--run", run]
    for _ in range(2):
        assert fredholm(*arguments) == 0
    assert names(tmp_path / name) == ["a.nii.gz"]
    assert labelled == ["a.nii.gz"]


def test_one_file_that_was_named_is_written_each_time_and_nothing_beside_it(
    tmp_path: Path, run: Path, scans: Path, labelled: list[str]
) -> None:
    (tmp_path / "out").mkdir()
    for _ in range(2):
        assert predict(scans / "a.nii.gz", tmp_path / "out/labels.nii.gz", run) == 0
    assert len(labelled) == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["labels.nii.gz"]


def test_a_folder_whose_record_is_something_else_is_refused(
    tmp_path: Path, run: Path, scans: Path, labelled: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/predictions.json").write_text('{"mine": 1}')
    says(capsys, "predictions.json", "move it", code=predict(scans, tmp_path / "out", run))
    assert labelled == []
