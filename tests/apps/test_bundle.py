"""What was packed is taken in a run's place, by `segment predict` and by MONAI, and gives the same labels."""

import socket
import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from fredholm.pipelines.nifti import read_labels
from helpers.segment import even_run, fredholm, names, predict, says, write_scan


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return even_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def bundle(run: Path, tmp_path: Path) -> Path:
    assert fredholm("bundle", run, "-o", tmp_path / "bundle", "--license", "CC0") == 0
    return tmp_path / "bundle"


def monai_bundle_run(bundle: Path, scans: Path, out: Path) -> None:
    """In a process of its own, as people do it."""
    command = [sys.executable, "-m", "monai.bundle", "run", "--config_file", "configs/inference.json"]
    options = ["--dataset_dir", str(scans), "--output_dir", str(out)]
    done = subprocess.run([*command, *options], cwd=bundle, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr


def test_a_bundle_labels_without_a_network(  # I2
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("somebody was called")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    assert predict(write_scan(tmp_path / "ct.nii.gz", (6, 5, 4)), tmp_path / "labels.nii.gz", bundle) == 0


@pytest.mark.slow
def test_run_bundle_and_monai_give_the_same_labels(
    run: Path, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # the network's own spacing; sides below the window's, up to one and a half of it, and a multiple of half of it
    for number, shape in enumerate([(24, 20, 28), (64, 32, 40)]):
        write_scan(tmp_path / f"scans/{number}.nii.gz", shape, number)
    ours, packed, theirs = (tmp_path / name for name in ("ours", "packed", "theirs"))
    assert predict(tmp_path / "scans", ours, run) == 0
    capsys.readouterr()
    assert predict(tmp_path / "scans", packed, bundle) == 0
    assert "note: licence of the weights: CC0" in capsys.readouterr().err
    monai_bundle_run(bundle, tmp_path / "scans", theirs)
    for name in names(ours):
        labels = [read_labels(folder / name) for folder in (ours, packed, theirs)]
        assert set(np.unique(labels[0].array)) == {0, 1, 2}
        assert (ours / name).read_bytes() == (packed / name).read_bytes()
        np.testing.assert_array_equal(labels[0].array, labels[2].array)
        np.testing.assert_allclose(nib.load(ours / name).affine, nib.load(theirs / name).affine, atol=1e-6)


def test_a_bundle_that_is_there_is_replaced_only_when_asked(
    run: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bundle / "mine.txt").write_text("")
    capsys.readouterr()
    says(capsys, "is there: --overwrite", code=fredholm("bundle", run, "-o", bundle))
    assert (bundle / "mine.txt").exists()
    assert fredholm("bundle", run, "-o", bundle, "--overwrite") == 0
    assert not (bundle / "mine.txt").exists()
    assert names(bundle.parent) == ["bundle"]


def test_no_other_folder_is_ever_replaced(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("")
    for folder in (tmp_path / "thesis", run):
        before = names(folder)
        says(capsys, "is no bundle", code=fredholm("bundle", run, "-o", folder, "--overwrite"))
        assert names(folder) == before


def test_a_damaged_bundle_labels_nothing(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (bundle / "models" / "model.pt").open("r+b") as file:
        file.seek(5000)
        file.write(b"\0\1\2\3")
    capsys.readouterr()
    scan = write_scan(tmp_path / "ct.nii.gz")
    code = predict(scan, tmp_path / "labels.nii.gz", bundle)
    says(capsys, "is damaged: models/model.pt is not the file that was packed", code=code)
    assert names(tmp_path) == ["bundle", "ct.nii.gz"]


def test_what_cannot_be_packed_leaves_nothing(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = fredholm("bundle", run, "-o", tmp_path / "bundle", "--weights", "best")
    says(capsys, "best.safetensors is missing", code=code)
    (tmp_path / "scores.json").write_text('{"1": "spleen"}')
    code = fredholm("bundle", run, "-o", tmp_path / "bundle", "--scores", tmp_path / "scores.json")
    says(capsys, "expected what segment evaluate --json writes", code=code)
    assert names(tmp_path) == ["scores.json"]
