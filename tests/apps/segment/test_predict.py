"""Label maps on their scans' grids, and every mistake on one line."""

import errno
import gzip
import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import SimpleITK
from fredholm.pipelines import images
from fredholm.pipelines.nifti import read_labels, read_volume, write_volume
from fredholm.pipelines.predict import Predictor
from fredholm.pipelines.run import Run
from fredholm.pipelines.structures import structure
from fredholm.pipelines.volume import Volume
from helpers.segment import (
    AFFINE,
    PLAN,
    assert_same_geometry,
    body,
    names,
    predict,
    says,
    write_scan,
)
from matplotlib.image import imread
from nibabel.orientations import apply_orientation, axcodes2ornt, inv_ornt_aff

# warnings are lines on stderr once the command has begun; here they must not be errors
pytestmark = pytest.mark.filterwarnings("default::UserWarning")


def labels_of(run: Path, path: Path) -> np.ndarray:
    return Predictor.of(Run.open(run), device="cpu", precision="32-true").label(read_volume(path))


def test_one_scan_gives_one_file_and_its_name_on_stdout(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scan, target = write_scan(tmp_path / "ct.nii.gz"), tmp_path / "labels.nii.gz"
    assert predict(scan, target, run) == 0
    out, err = capsys.readouterr()
    assert out == f"{target}\n"
    assert "fredholm:" not in err
    assert names(tmp_path) == ["ct.nii.gz", "labels.nii.gz"]
    found = read_labels(target).array
    np.testing.assert_array_equal(found, labels_of(run, scan))
    assert set(np.unique(found)) == {0, 1, 2}
    assert nib.load(target).get_data_dtype() == np.uint8  # pyright: ignore[reportAttributeAccessIssue]


def test_the_peak_of_memory_is_told_before_and_a_scan_that_does_not_fit_is_refused(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scan, target = write_scan(tmp_path / "ct.nii.gz"), tmp_path / "labels.nii.gz"
    assert predict(scan, target, run) == 0
    assert "ct.nii.gz: peak memory about " in capsys.readouterr().err
    target.unlink()
    monkeypatch.setattr("fredholm.pipelines.predict.available_bytes", lambda: 1_000_000)
    says(capsys, "labelling a scan of 24 x 20 x 28 voxels takes about", "free some", code=predict(scan, target, run))
    assert names(tmp_path) == ["ct.nii.gz"]


@pytest.mark.parametrize("ending", [".nrrd", ".mha", ".mhd"])
def test_other_formats_go_in_and_out_and_give_the_same_labels(tmp_path: Path, run: Path, ending: str) -> None:
    nifti = write_scan(tmp_path / "ct.nii.gz")
    (tmp_path / "scans").mkdir()
    scan = tmp_path / f"scans/ct{ending}"
    SimpleITK.WriteImage(SimpleITK.ReadImage(str(nifti)), str(scan))
    assert predict(tmp_path / "scans", tmp_path / "labels", run) == 0
    assert predict(scan, tmp_path / "labels.nii.gz", run) == 0
    expected = labels_of(run, nifti)
    for labels in (images.read_labels(tmp_path / f"labels/ct{ending}"), read_labels(tmp_path / "labels.nii.gz")):
        np.testing.assert_array_equal(labels.array, expected)
        np.testing.assert_array_equal(labels.affine, AFFINE)


def test_a_page_and_a_contact_sheet_come_beside_the_label_map_when_asked_for(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "labels.nii.gz"
    assert predict(write_scan(tmp_path / "ct.nii.gz"), target, run, "--view") == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert names(tmp_path) == ["ct.nii.gz", "labels.html", "labels.nii.gz", "labels_sheet.html"]
    for page in ("labels.html", "labels_sheet.html"):
        assert all(word in (tmp_path / page).read_text() for word in ("<h1>ct.nii.gz</h1>", "spleen", "liver"))


def test_statistics_of_a_folder_are_one_table_that_grows_case_by_case(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, name in enumerate("ac"):
        write_scan(tmp_path / f"scans/{name}.nii.gz", number=number)
    (tmp_path / "scans/b.nii.gz").write_bytes(b"no scan at all")
    assert predict(tmp_path / "scans", tmp_path / "labels", run, "--statistics") == 1
    assert names(tmp_path / "labels") == ["a.nii.gz", "c.nii.gz", "statistics.csv", "statistics.json"]
    found = json.loads((tmp_path / "labels/statistics.json").read_text())
    assert list(found) == ["a", "c"]
    for case, structures in found.items():
        scan, labels = read_volume(tmp_path / f"scans/{case}.nii.gz"), read_labels(tmp_path / f"labels/{case}.nii.gz")
        for label, name in ((1, "spleen"), (2, "liver")):
            mask = labels.array == label
            assert structures[name]["volume_ml"] == pytest.approx(mask.sum() / 1000)
            assert structures[name]["mean_hu"] == pytest.approx(scan.array[mask].mean(dtype=float))
            assert structures[name]["touches_border"] == (mask.sum() > mask[1:-1, 1:-1, 1:-1].sum())
    assert len((tmp_path / "labels/statistics.csv").read_text().splitlines()) == 1 + 2 * 2


def test_a_picture_and_statistics_come_beside_one_label_map(tmp_path: Path, run: Path) -> None:
    scan, target = write_scan(tmp_path / "ct.nii.gz"), tmp_path / "labels.nii.gz"
    assert predict(scan, target, run, "--preview", "--statistics") == 0
    more = ["labels.png", "labels_statistics.csv", "labels_statistics.json"]
    assert names(tmp_path) == ["ct.nii.gz", "labels.nii.gz", *more]
    picture = (imread(tmp_path / "labels.png")[..., :3] * 255).round().astype(int)
    for name in ("spleen", "liver"):  # the legend at least shows the colour pure
        assert (picture == structure(name).rgb).all(-1).sum() > 50


def test_what_would_overwrite_another_scans_files_is_told_before_the_work(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.nii", "a.nii.gz"):
        write_scan(tmp_path / "scans" / name)
    says(capsys, "2 scans are called a", code=predict(tmp_path / "scans", tmp_path / "labels", run, "--statistics"))
    (tmp_path / "scans/a.nii").unlink()
    (tmp_path / "labels/statistics.json").write_text('{"1": "spleen"}')
    says(capsys, "something else", code=predict(tmp_path / "scans", tmp_path / "labels", run, "--statistics"))
    assert names(tmp_path / "labels") == ["statistics.json"]


def test_into_a_folder_that_is_there_goes_a_file_of_the_scans_name(tmp_path: Path, run: Path) -> None:
    scan = write_scan(tmp_path / "ct.nii")
    (tmp_path / "labels").mkdir()
    assert predict(scan, tmp_path / "labels", run) == 0
    assert names(tmp_path / "labels") == ["ct.nii"]


def oriented(kind: type, codes: tuple[int, int], order: str) -> nib.Nifti1Image:
    """The body of number 0 in some order of axes, with a scanner's header."""
    moves = axcodes2ornt(tuple(order))
    header = kind()
    shape = tuple(np.array((24, 20, 28))[np.argsort(moves[:, 0])])
    array = apply_orientation(body(0)[0].array, np.argsort(moves[:, 0])[:, None] * [1, 0] + [0, 1]).astype(np.int16)
    affine = np.eye(4) @ inv_ornt_aff(moves, array.shape)
    affine[:3, 3] = (0.0, -318.0, 0.0)
    header.set_data_shape(shape)
    header.set_data_dtype(np.int16)
    header.set_qform(affine, codes[1])
    header.set_sform(affine if codes[0] else None, codes[0])
    header.set_xyzt_units("mm", "sec")
    image = (nib.Nifti2Image if kind is nib.Nifti2Header else nib.Nifti1Image)(array, None, header)
    image.header.set_slope_inter(0.5, -10)
    return image


def test_the_label_maps_header_is_the_scans_bit_for_bit(tmp_path: Path, run: Path) -> None:  # A13
    kinds, codes, orders = (nib.Nifti1Header, nib.Nifti2Header), ((2, 1), (0, 1), (4, 0), (1, 3)), ("LPS", "RAS", "ASL")
    (tmp_path / "scans").mkdir()
    for number, one in enumerate(itertools.product(kinds, codes, orders)):
        oriented(*one).to_filename(tmp_path / f"scans/{number}.nii.gz")
    assert predict(tmp_path / "scans", tmp_path / "labels", run) == 0
    for name in names(tmp_path / "scans"):
        assert_same_geometry(tmp_path / "scans" / name, tmp_path / "labels" / name)
        found = nib.load(tmp_path / "labels" / name)
        assert (found.dataobj.slope, found.dataobj.inter) == (1, 0)  # pyright: ignore[reportAttributeAccessIssue]
        assert set(np.unique(found.dataobj)) <= {0, 1, 2}  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("shape", [(5, 4, 3), (1, 1, 1), (33, 9, 2)])
def test_a_scan_smaller_than_the_window_works(tmp_path: Path, run: Path, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    write_volume(tmp_path / "ct.nii.gz", Volume(rng.uniform(-1000, 1000, shape).round(), AFFINE))
    assert predict(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz", run) == 0
    assert read_labels(tmp_path / "labels.nii.gz").shape == shape


def test_a_folder_of_scans_loads_the_network_once_and_looks_at_scans_only(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b.nii.gz", "a.nii", ".hidden.nii.gz"):
        write_scan(tmp_path / "scans" / name)
    (tmp_path / "scans/._a.nii").write_bytes(b"macOS leaves these about")
    (tmp_path / "scans/readme.txt").write_text("words")
    (tmp_path / "scans/C.NII.GZ").write_bytes((tmp_path / "scans/b.nii.gz").read_bytes())
    loads = []
    load = Run.load_model
    monkeypatch.setattr(Run, "load_model", lambda *given: (loads.append(1), load(*given))[1])
    assert predict(tmp_path / "scans", tmp_path / "deep/labels", run) == 0
    assert names(tmp_path / "deep/labels") == ["C.NII.GZ", "a.nii", "b.nii.gz"]
    assert capsys.readouterr().out.splitlines() == [
        str(tmp_path / "deep/labels" / name) for name in ("C.NII.GZ", "a.nii", "b.nii.gz")
    ]
    assert loads == [1]


def test_a_failing_scan_does_not_stop_the_others(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scans = tmp_path / "scans"
    for name in ("a", "d"):
        write_scan(scans / f"{name}.nii.gz")
    (scans / "b.nii.gz").write_bytes(b"no scan at all" * 100)
    (scans / "c.nii.gz").write_bytes((scans / "a.nii.gz").read_bytes()[:200])
    assert predict(scans, tmp_path / "labels", run) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(tmp_path / f"labels/{name}.nii.gz") for name in ("a", "d")]
    said = [line for line in err.splitlines() if line.startswith("fredholm: ")]
    assert len(said) == 3
    assert "b.nii.gz" in said[0]
    assert "is not a NIfTI file" in said[0]
    assert "c.nii.gz" in said[1]
    assert "truncated or damaged" in said[1]
    assert said[2] == f"fredholm: 2 of 4 scans failed, the others are in {tmp_path / 'labels'}"
    assert names(tmp_path / "labels") == ["a.nii.gz", "d.nii.gz"]


@pytest.mark.parametrize("kind", ["text", "truncated", "truncated late", "empty", "four axes", "no orientation"])
def test_what_is_no_scan_is_refused_on_one_line_and_leaves_nothing(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    scan = write_scan(tmp_path / "ct.nii.gz")
    content = scan.read_bytes()
    image = nib.load(scan)
    if kind == "four axes":
        nib.save(nib.Nifti1Image(np.zeros((4, 4, 4, 2), np.int16), np.eye(4)), scan)
    elif kind == "no orientation":
        image.header["sform_code"] = image.header["qform_code"] = 0  # pyright: ignore[reportIndexIssue]
        scan.write_bytes(gzip.compress(image.header.binaryblock + bytes(4) + gzip.decompress(content)[352:]))  # pyright: ignore[reportAttributeAccessIssue]
    else:
        scan.write_bytes(
            {"text": b"words " * 99, "truncated": content[:300], "truncated late": content[:-5], "empty": b""}[kind]
        )
    words = {
        "text": "is not a NIfTI file",
        "truncated": "truncated or damaged",
        "truncated late": "truncated or damaged",
        "empty": "is empty",
        "four axes": "one volume of three axes is expected",
        "no orientation": "orientation unknown",
    }[kind]
    says(capsys, str(scan), words, code=predict(scan, tmp_path / "labels.nii.gz", run))
    assert names(tmp_path) == ["ct.nii.gz"]


def test_a_file_of_unknown_orientation_is_labelled_when_one_is_assumed(tmp_path: Path, run: Path) -> None:  # A4
    array = body(0)[0].array.astype(np.int16)
    image = nib.Nifti1Image(array, None)
    image.header.set_zooms((1, 1, 1))
    image.header["sform_code"] = image.header["qform_code"] = 0
    image.to_filename(tmp_path / "ct.nii.gz")
    assert predict(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz", run, "--assume", "LPS") == 0
    assert_same_geometry(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz")


def test_a_warning_is_a_line_on_stderr(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = body(0)[0].array.astype(np.float32)
    array[0, 0, 0] = np.nan
    nib.save(nib.Nifti1Image(array, AFFINE), tmp_path / "ct.nii.gz")
    assert predict(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz", run) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'labels.nii.gz'}\n"
    (line,) = [line for line in err.splitlines() if line.startswith("fredholm: ")]
    assert line.startswith("fredholm: warning: ")
    assert "1 voxels are not finite" in line


def test_the_plans_notes_are_told(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, tmp_path / "run")
    Run.open(tmp_path / "run").replan(replace(PLAN, notes=("made of straw.",)))
    assert predict(write_scan(tmp_path / "ct.nii.gz"), tmp_path / "labels.nii.gz", tmp_path / "run") == 0
    assert "note: made of straw." in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("lacking", ["plan.yaml", "weights.safetensors", "all"])
def test_a_run_that_lacks_a_file_names_it(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], lacking: str
) -> None:
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run") if lacking == "all" else (tmp_path / "run" / lacking).unlink()
    code = predict(write_scan(tmp_path / "ct.nii.gz"), tmp_path / "labels.nii.gz", tmp_path / "run")
    says(capsys, "no such folder" if lacking == "all" else f"{lacking} is missing", str(tmp_path / "run"), code=code)
    assert not (tmp_path / "labels.nii.gz").exists()


def test_the_output_is_never_the_input(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scan = write_scan(tmp_path / "scans/ct.nii.gz")
    before = scan.read_bytes()
    (tmp_path / "link.nii.gz").symlink_to(scan)
    for target in (scan, scan.parent, tmp_path / "scans/../scans/ct.nii.gz", tmp_path / "link.nii.gz"):
        says(capsys, "would overwrite the scan", code=predict(scan, target, run))
    for target in (scan.parent, tmp_path / "scans/../scans"):
        says(capsys, "would overwrite the scans", code=predict(scan.parent, target, run))
    assert scan.read_bytes() == before
    assert names(tmp_path / "scans") == ["ct.nii.gz"]


@pytest.mark.parametrize("make", [False, True])
def test_an_input_without_a_scan_is_refused(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], make: bool
) -> None:
    if make:
        (tmp_path / "scans").mkdir()
    code = predict(tmp_path / "scans", tmp_path / "labels", run)
    says(capsys, "no image" if make else "no such file", str(tmp_path / "scans"), code=code)
    assert not (tmp_path / "labels").exists()


@pytest.mark.parametrize("earlier", [None, b"an earlier label map"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken disk"), ValueError("no"), KeyboardInterrupt()])
def test_an_error_while_writing_leaves_no_half_file(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, earlier: bytes | None
) -> None:
    scan, target = write_scan(tmp_path / "ct.nii.gz"), tmp_path / "labels.nii.gz"
    if earlier is not None:
        target.write_bytes(earlier)

    def half(_: object, stream) -> None:
        stream.write(b"half")
        raise error

    monkeypatch.setattr(nib.Nifti1Image, "to_stream", half)
    stopped = isinstance(error, KeyboardInterrupt)
    assert predict(scan, target, run) == (130 if stopped else 1)
    # after a failure an earlier label map would be taken for this one (I1); who stops it knows
    assert names(tmp_path) == ["ct.nii.gz", *(["labels.nii.gz"] if earlier and stopped else [])]
    assert not target.exists() or target.read_bytes() == earlier


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_a_full_disk_leaves_no_half_file(
    tmp_path: Path, run: Path, small_disk: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    # uncompressed the label map is larger than the disk; compressed only what else lies there makes it so
    shape = (64, 64, 40)
    scan = write_scan(tmp_path / "ct.nii.gz", shape, affine=np.diag((0.25, 0.25, 0.25, 1.0)))
    (small_disk / "other").write_bytes(bytes(128 * 1024 - 4096 if ending == ".nii.gz" else 4096))
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Predictor, "label", lambda *_: rng.integers(0, 3, shape).astype(np.uint8))
        code = predict(scan, small_disk / f"labels{ending}", run)
    says(capsys, "No space left on device", code=code)
    assert names(small_disk) == ["other"]


def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/proc/self").is_dir():
        pytest.skip("no /proc here, the one folder in which not even root may write")
    says(capsys, code=predict(write_scan(tmp_path / "ct.nii.gz"), Path("/proc/labels.nii.gz"), run))


@pytest.mark.parametrize("target", ["labels.png", "absent/labels.nii.gz"])
def test_an_output_that_cannot_be_written_is_told_before_the_work(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    worked = []
    label = Predictor.label
    monkeypatch.setattr(Predictor, "label", lambda *args: (worked.append(1), label(*args))[1])
    assert predict(write_scan(tmp_path / "ct.nii.gz"), tmp_path / target, run) == 1
    assert worked == []


@pytest.mark.parametrize("target", ["labels.png", "absent/labels.nii.gz"])
def test_an_output_that_cannot_be_written_is_told(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    code = predict(write_scan(tmp_path / "ct.nii.gz"), tmp_path / target, run)
    says(capsys, "no such folder" if "absent" in target else "ends in .nii.gz, .nii", code=code)
    assert names(tmp_path) == ["ct.nii.gz"]


def test_ctrl_c_keeps_the_label_maps_that_are_finished(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        write_scan(tmp_path / f"scans/{name}.nii.gz")
    label = Predictor.label

    def stop(self: Predictor, volume: Volume, tick) -> np.ndarray:
        if volume.path is not None and volume.path.name == "b.nii.gz":
            raise KeyboardInterrupt
        return label(self, volume, tick)

    monkeypatch.setattr(Predictor, "label", stop)
    assert predict(tmp_path / "scans", tmp_path / "labels", run) == 130
    assert names(tmp_path / "labels") == ["a.nii.gz"]
    assert capsys.readouterr().out == f"{tmp_path / 'labels/a.nii.gz'}\n"


# evaluate
