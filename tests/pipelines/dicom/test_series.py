"""Which files make a series, in which order and where; and what is refused, by which name and number."""

from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.dicom import Code, SeriesError, find_series, read_series
from helpers.dicom import AFFINE, SHAPE, SLOPE, ct_series, place_hu, save


def refused(code: Code, *words: str, folder: Path, name: str | None = None) -> None:
    with pytest.raises(SeriesError) as caught:
        find_series(folder).only(name)
    assert caught.value.code == code
    assert str(caught.value).startswith(f"{code}: ")
    for word in words:
        assert word in str(caught.value)


def heights(*places: float) -> list:
    """A slice at each z, in mm."""
    datasets = ct_series(shape=(4, 4, len(places)))
    for dataset, z in zip(datasets, places, strict=True):
        dataset.ImagePositionPatient = [0, 0, z]
    return datasets


def test_a_series_has_its_shape_its_affine_and_its_files_in_order(tmp_path: Path) -> None:
    paths = save(ct_series(), tmp_path)
    series = find_series(tmp_path).only()
    assert series.shape == SHAPE
    assert series.paths == tuple(paths)
    assert series.repairs == ()
    np.testing.assert_allclose(series.affine, AFFINE, atol=1e-9)
    volume = read_series(series)
    assert volume.array.dtype == np.float32
    np.testing.assert_array_equal(volume.affine, series.affine)
    np.testing.assert_allclose(volume.array, place_hu(AFFINE, SHAPE), atol=0.51 * SLOPE)


def test_files_may_be_given_in_any_order(tmp_path: Path) -> None:
    paths = save(ct_series(), tmp_path)
    assert find_series([paths[i] for i in (3, 0, 4, 2, 1)]).only().paths == tuple(paths)


@pytest.mark.parametrize(
    ("places", "code", "words"),
    [
        ((0, 2, 4, 8), Code.MISSING_SLICES, ["1 missing beside 4", "after (0, 0, 4) mm", "8.dcm", "4 mm where 2 mm"]),
        ((0, 2, 8, 10, 14), Code.MISSING_SLICES, ["3 missing beside 5", "after (0, 0, 2) mm"]),
        ((0, 2, 3, 5.5), Code.UNEVEN_SPACING, ["2 of 3 gaps", "after (0, 0, 2) mm"]),
        ((0, 2, 4, 7), Code.UNEVEN_SPACING, ["1 of 3 gaps", "3 mm"]),
        ((0, 2, 2, 4), Code.DUPLICATE_POSITION, ["1 of 4", "(0, 0, 2)"]),
        ((0, 0), Code.DUPLICATE_POSITION, ["1 of 2"]),
        ([k * (2 + 0.01 * k) for k in range(30)], Code.UNEVEN_SPACING, []),
    ],
)  # B4, B6
def test_an_irregular_stack_is_refused_with_its_place_and_number(
    tmp_path: Path, places: list[float], code: Code, words: list[str]
) -> None:
    save(heights(*places), tmp_path, [f"{2 * k + 4}.dcm" for k in range(len(places))])
    refused(code, *words, folder=tmp_path)


def test_two_passes_over_the_same_places_are_two_candidates_if_something_tells_them_apart(tmp_path: Path) -> None:
    datasets = ct_series()
    for again in ct_series(SeriesInstanceUID=datasets[0].SeriesInstanceUID, AcquisitionNumber=2):
        datasets.append(again)
    save(datasets, tmp_path)
    found = find_series(tmp_path)
    uid = datasets[0].SeriesInstanceUID
    assert [(one.name, one.slices) for one in found.candidates] == [(f"{uid}#1", 5), (f"{uid}#2", 5)]
    refused(Code.AMBIGUOUS, f"{uid}#1", f"{uid}#2", folder=tmp_path)
    refused(Code.AMBIGUOUS, folder=tmp_path, name=uid)
    assert len(found.only(f"{uid}#2").slices) == 5


def test_the_same_instance_twice_counts_once_and_is_told(tmp_path: Path) -> None:
    datasets = ct_series()
    save(datasets, tmp_path / "a")
    save(datasets[1:3], tmp_path / "b")
    series = find_series(tmp_path).only()
    assert len(series.slices) == 5
    assert series.repairs == ("2 slices left out, their SOP UID repeats",)


def test_one_slice_keeps_its_thickness(tmp_path: Path) -> None:  # B11
    save(ct_series(shape=(4, 3, 1), SliceThickness=5), tmp_path)
    series = find_series(tmp_path).only()
    np.testing.assert_allclose(series.spacing_mm, (0.8, 0.9, 5))
    assert series.repairs == ("1 slice: its thickness, 5 mm, is taken as the spacing",)


def test_one_slice_of_unknown_thickness_is_refused(tmp_path: Path) -> None:
    save(ct_series(shape=(4, 3, 1), SliceThickness=None), tmp_path)
    refused(Code.TOO_FEW_SLICES, folder=tmp_path)


@pytest.mark.parametrize("name", ["ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"])
def test_a_slice_without_a_place_is_refused(tmp_path: Path, name: str) -> None:
    datasets = ct_series()
    delattr(datasets[2], name)
    save(datasets, tmp_path)
    refused(Code.NO_GEOMETRY, "1 of 5 slices", folder=tmp_path)


def test_an_object_that_is_no_image_does_not_disturb_the_series_it_claims(tmp_path: Path) -> None:  # B8
    datasets = ct_series(shape=(4, 4, 63))
    stray = datasets.pop(40)
    stray.SOPClassUID = "1.2.840.10008.5.1.4.1.1.88.11"  # a structured report
    for name in ("ImagePositionPatient", "ImageOrientationPatient", "PixelData", "Rows", "Columns"):
        delattr(stray, name)
    for dataset, z in zip(datasets, range(62), strict=True):
        dataset.ImagePositionPatient = [0, 0, z]
    save([*datasets, stray], tmp_path)
    series = find_series(tmp_path).only()
    assert len(series.slices) == 62
    assert series.slices[0].instance.sop_uid == datasets[0].SOPInstanceUID


@pytest.mark.parametrize("kept", [0.99, 0.5, 0.2])
def test_a_truncated_file_is_never_left_out_in_silence(tmp_path: Path, kept: float) -> None:
    path = save(ct_series(), tmp_path)[-1]
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    refused(Code.DAMAGED_FILE, path.name, folder=tmp_path)


# real files


@pytest.mark.parametrize(
    ("folder", "shape", "spacing", "tilt"),
    [
        ("torso_dicom", (512, 512, 20), (0.9765625, 0.9765625, 2.0), 0.0),  # SliceThickness says 3
        ("sarcoma_dicom", (136, 134, 47), (0.976562, 0.976562, 3.27), 0.0),
        ("awkward_dicom/localizers_and_slices", (16, 16, 5), (0.488281, 0.488281, 2.5), 0.0),
        ("awkward_dicom/oblique", (100, 50, 3), (2.5, 3.5, 4.5), 0.0),
        ("awkward_dicom/gantry_tilt", (512, 512, 4), (0.41796875, 0.41796875, 5.0), 14.0),
        ("orientation_phantom/dicom", (32, 48, 64), (2.0, 2.0, 2.0), 0.0),
    ],
)
def test_a_real_series_is_placed(
    medical: Path, folder: str, shape: tuple[int, ...], spacing: tuple[float, ...], tilt: float
) -> None:
    series = find_series(medical / folder).only()
    assert series.shape == shape
    np.testing.assert_allclose(series.spacing_mm, spacing, atol=1e-4)
    assert series.tilt_degrees == pytest.approx(tilt, abs=1e-3)


def test_empty_uids_of_a_real_series_are_repaired_and_told(medical: Path) -> None:
    repairs = find_series(medical / "torso_dicom").only().repairs
    assert len(repairs) == 3
    assert repairs[1] == "empty SOPInstanceUID taken from the file meta (20 of 20 files)"


def test_a_real_gap_is_named(medical: Path) -> None:
    folder = medical / "awkward_dicom/missing_slice"
    refused(Code.MISSING_SLICES, "1 missing beside 4", "IM-0001-0009-0001.dcm", "10 mm where 5 mm", folder=folder)
