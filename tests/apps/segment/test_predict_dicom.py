"""DICOM in, label maps and DICOM out: the labels are those of the same scan in any other format."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from fredholm.pipelines.dicom import find_series, read_series
from fredholm.pipelines.dicom.frames import from_frames
from fredholm.pipelines.dicom.segments import read_segmentation
from fredholm.pipelines.dicom.source import source_headers
from fredholm.pipelines.dicom.structure_set import read_structure_set
from fredholm.pipelines.nifti import read_labels, write_volume
from fredholm.pipelines.plan import Network, Plan, Preparation
from fredholm.pipelines.run import Run
from helpers.dicom import AFFINE, ct_series, enhanced, save
from helpers.segment import body, names, predict, says, write_scan

pytestmark = pytest.mark.filterwarnings("default::UserWarning")

SHAPE = (24, 20, 28)


def series_of(folder: Path, affine: np.ndarray = AFFINE, **tags: object) -> str:
    """A scan in DICOM files; its UID."""
    slices = ct_series(affine, SHAPE, hu=body(0, SHAPE)[0].array, rescale=((1.0, -1024.0),), **tags)
    save(slices, folder)
    return str(slices[0].SeriesInstanceUID)


def labels_in(path: Path, folder: Path) -> np.ndarray:
    """The labels of a SEG, whose segments are the plan's two structures, on the volume of its series."""
    series = find_series(folder).only()
    source = source_headers(series)
    found = read_segmentation(path, source)
    numbers = {number: {"spleen": 1, "liver": 2}[segment.label] for number, segment in found.segments.items()}
    labels = np.array([0, *(numbers[at] for at in sorted(numbers))], np.uint8)[found.labels]
    return from_frames(labels, series, source)


def test_labels_are_those_of_the_same_scan_as_nifti(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uid, out = series_of(tmp_path / "scan"), tmp_path / "out"
    write_volume(tmp_path / "ct.nii.gz", read_series(find_series(tmp_path / "scan").only()))
    assert predict(tmp_path / "scan", out, run, "--output", "both") == 0
    assert capsys.readouterr().out.splitlines() == [str(out / f"{uid}.nii.gz"), str(out / f"{uid}.dcm")]
    assert predict(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz", run) == 0
    expected, found = read_labels(tmp_path / "labels.nii.gz"), read_labels(out / f"{uid}.nii.gz")
    assert set(np.unique(expected.array)) == {0, 1, 2}
    np.testing.assert_array_equal(found.array, expected.array)
    np.testing.assert_allclose(found.affine, expected.affine, atol=1e-5)
    np.testing.assert_array_equal(labels_in(out / f"{uid}.dcm", tmp_path / "scan"), expected.array)


def test_sarcoma_dicom_gets_the_labels_of_sarcoma_nifti_exactly(tmp_path: Path, medical: Path) -> None:
    """Real scan, resampled for the network and back, by weights that cut the scan into many pieces."""
    plan = Plan(
        names={0: "background", 1: "spleen", 2: "liver"},
        preparation=Preparation(spacing_mm=(6.0, 6.0, 6.0), window_hu=(-150.0, 250.0)),
        network=Network(feature_size=12),
        window=(32, 32, 32),
    )
    made = Run.create(tmp_path / "run", plan)
    made.save_weights(plan.network.build(3).state_dict())
    image = medical / "sarcoma_dicom/image"
    fast = ("--overlap", "0")
    assert predict(image, tmp_path / "out", made.folder, "--output", "both", *fast) == 0
    nifti = medical / "sarcoma/imagesTr/sts_019.nii.gz"
    assert predict(nifti, tmp_path / "labels.nii.gz", made.folder, *fast) == 0
    (segmentation,) = (tmp_path / "out").glob("*.dcm")
    (label_map,) = (tmp_path / "out").glob("*.nii.gz")
    expected, found = nib.load(tmp_path / "labels.nii.gz"), nib.load(label_map)
    np.testing.assert_allclose(found.affine, expected.affine, atol=1e-3)
    labels = np.asarray(expected.dataobj)
    assert min(np.bincount(labels.ravel(), minlength=3)) > 1000
    np.testing.assert_array_equal(np.asarray(found.dataobj), labels)
    np.testing.assert_array_equal(labels_in(segmentation, image), labels)


def test_what_is_written_is_what_was_asked_for(tmp_path: Path, run: Path) -> None:
    uid, scan = series_of(tmp_path / "scan"), tmp_path / "scan"
    asked: dict[tuple[str, ...], str] = {
        (): ".nii.gz",
        ("--output", "nifti"): ".nii.gz",
        ("--output", "dicom-seg"): ".dcm",
        ("--output", "dicom-seg", "--segmentation", "labelmap"): ".dcm",
        ("--output", "rtstruct"): "_rtstruct.dcm",
    }
    for number, (options, ending) in enumerate(asked.items()):
        out = tmp_path / str(number)
        assert predict(scan, out, run, *options) == 0
        assert names(out) == [uid + ending]
    expected = read_labels(tmp_path / f"1/{uid}.nii.gz").array
    for number in (2, 3):
        np.testing.assert_array_equal(labels_in(tmp_path / f"{number}/{uid}.dcm", scan), expected)
    series = find_series(scan).only()
    source = source_headers(series)
    rois, called = read_structure_set(tmp_path / f"4/{uid}_rtstruct.dcm", source)
    assert called == {1: "spleen", 2: "liver"}
    np.testing.assert_array_equal(from_frames(rois, series, source), expected)
    for name in ("labels.nii.gz", "labels.nrrd", "labels.dcm"):
        assert predict(scan, tmp_path / name, run) == 0
    np.testing.assert_array_equal(read_labels(tmp_path / "labels.nii.gz").array, expected)
    np.testing.assert_array_equal(labels_in(tmp_path / "labels.dcm", scan), expected)


def test_a_tilted_gantry_is_set_upright_for_the_label_map_and_kept_for_the_segmentation(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lean = AFFINE.copy()
    lean[1, 2] = 0.6  # mm along the columns from slice to slice, 13 degrees
    uid, out = series_of(tmp_path / "scan", lean), tmp_path / "out"
    assert predict(tmp_path / "scan", out, run, "--output", "both", "--statistics", "--view") == 0
    assert "tilted by 13.5 degrees" in " ".join(capsys.readouterr().err.split())
    label_map = nib.load(out / f"{uid}.nii.gz")
    axes = label_map.affine[:3, :3]
    np.testing.assert_allclose(axes.T @ axes, np.diag(np.linalg.norm(axes, axis=0) ** 2), atol=1e-6)
    upright, taken = np.asarray(label_map.dataobj), labels_in(out / f"{uid}.dcm", tmp_path / "scan")
    assert set(np.unique(taken)) == {0, 1, 2}
    index = np.argwhere(np.ones(SHAPE, bool))
    there = np.rint((index @ lean[:3, :3].T + lean[:3, 3] - label_map.affine[:3, 3]) @ np.linalg.inv(axes).T)
    np.testing.assert_array_equal(taken.ravel(), upright[tuple(there.astype(int).T)])


def test_every_series_of_a_folder_is_labelled_and_what_cannot_be_is_told(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scans, out = tmp_path / "scans", tmp_path / "out"
    uids = sorted(series_of(scans / name) for name in "ab")
    gap = ct_series()
    save([*gap[:2], *gap[3:]], scans / "gap")
    save(ct_series(SOPClassUID="1.2.840.10008.5.1.4.1.1.4", Modality="MR"), scans / "mr")
    whole = save(ct_series(), scans / "cut")[0]
    for path in (scans / "cut").iterdir():
        path.write_bytes(whole.read_bytes()[:-9])
    assert predict(scans, out, run) == 1
    told, err = capsys.readouterr()
    assert sorted(told.splitlines()) == [str(out / f"{uid}.nii.gz") for uid in uids]
    assert names(out) == [f"{uid}.nii.gz" for uid in uids]
    err = " ".join(err.split())
    for words in ("MISSING_SLICES: 1 missing", "MR Image Storage: NOT_CT", "it is truncated", "1 of 3 scans failed"):
        assert words in err
    assert predict(scans, tmp_path / "one", run, "--series", uids[1]) == 0
    assert names(tmp_path / "one") == [f"{uids[1]}.nii.gz"]
    capsys.readouterr()
    says(capsys, "MISSING_SLICES", code=predict(scans, tmp_path / "labels.dcm", run))
    says(capsys, "no series 1.2.3", code=predict(scans, out, run, "--series", "1.2.3"))
    assert not (tmp_path / "labels.dcm").exists()


def test_two_series_do_not_go_into_one_file(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uids = [series_of(tmp_path / "scans" / name) for name in "ab"]
    says(capsys, "AMBIGUOUS", *uids, code=predict(tmp_path / "scans", tmp_path / "labels.dcm", run))
    assert predict(tmp_path / "scans", tmp_path / "labels.dcm", run, "--series", uids[0]) == 0


def test_series_without_uids_and_with_hostile_ones_stay_in_the_folder(tmp_path: Path, run: Path) -> None:
    series_of(tmp_path / "scans/a", SeriesInstanceUID="")
    series_of(tmp_path / "scans/b", SeriesInstanceUID="../../x")
    assert predict(tmp_path / "scans", tmp_path / "out", run) == 0
    assert names(tmp_path / "out") == [".._.._x.nii.gz", "series.nii.gz"]
    assert names(tmp_path) == ["out", "scans"]


def test_an_enhanced_image_is_a_series(tmp_path: Path, run: Path) -> None:
    slices = ct_series(AFFINE, SHAPE, hu=body(0, SHAPE)[0].array, rescale=((1.0, -1024.0),))
    save(slices, tmp_path / "single")
    save([enhanced(slices)], tmp_path / "multi")
    for name in ("single", "multi"):
        assert predict(tmp_path / name, tmp_path / f"{name}.dcm", run) == 0
    found = [labels_in(tmp_path / f"{name}.dcm", tmp_path / name) for name in ("single", "multi")]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("scan", ["--output", "dicom-seg"], "would overwrite"),
        ("labels.nii.gz", ["--output", "dicom-seg"], "needs a name that ends in .dcm"),
        ("labels.dcm", ["--output", "nifti"], "needs a name that ends in .nii.gz"),
        ("labels.dcm", ["--output", "both"], "needs a folder"),
        ("absent/labels.dcm", [], "no such folder"),
    ],
)
def test_a_place_that_does_not_fit_is_refused(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], target: str, options: list[str], words: str
) -> None:
    slices = ct_series(shape=(4, 4, 3))
    save(slices, tmp_path / "scan", names=[f"{slices[0].SeriesInstanceUID}.dcm", "b.dcm", "c.dcm"])
    before = {path: path.read_bytes() for path in (tmp_path / "scan").iterdir()}
    says(capsys, words, code=predict(tmp_path / "scan", tmp_path / target, run, *options))
    assert {path: path.read_bytes() for path in (tmp_path / "scan").iterdir()} == before
    assert names(tmp_path) == ["scan"]


def test_options_for_dicom_are_refused_for_images(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scan = write_scan(tmp_path / "ct.nii.gz")
    says(capsys, "are for DICOM series", code=predict(scan, tmp_path / "x.dcm", run, "--output", "dicom-seg"))
