"""From a folder of DICOM files to objects on its slices and back, in whatever order the files keep them."""

from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.dicom import Series, find_series
from fredholm.pipelines.dicom.frames import from_frames, to_frames
from fredholm.pipelines.dicom.planes import Planes
from fredholm.pipelines.dicom.segmentation import write_segmentation
from fredholm.pipelines.dicom.segments import read_segmentation
from fredholm.pipelines.dicom.source import source_headers
from fredholm.pipelines.dicom.structure_set import read_structure_set, write_structure_set
from fredholm.pipelines.nifti import read_labels
from helpers.dicom import ct_series, save
from helpers.slices import ALGORITHM, dciodvfy

NAMES = {3: "liver", 7: "kidney_left"}


def labels_of(series: Series) -> np.ndarray:
    return np.random.default_rng(0).choice([0, 3, 7], series.shape)


def assert_round_trip(series: Series, labels: np.ndarray, folder: Path) -> None:
    source = source_headers(series)
    frames = to_frames(labels, series, source)
    np.testing.assert_array_equal(from_frames(frames, series, source), labels)
    numbers = write_segmentation(folder / "seg.dcm", source, frames, NAMES, ALGORITHM)
    assert write_structure_set(folder / "rt.dcm", source, frames, NAMES, ALGORITHM) == numbers
    expected = sum((number * (labels == label) for label, number in numbers.items()), np.zeros_like(labels))
    for back in (
        read_segmentation(folder / "seg.dcm", source).labels,
        read_structure_set(folder / "rt.dcm", source)[0],
    ):
        np.testing.assert_array_equal(from_frames(back, series, source), expected)


def test_each_voxel_lies_where_the_series_says(tmp_path: Path) -> None:
    save(ct_series(StudyID="1"), tmp_path / "scan")
    series = find_series(tmp_path / "scan").only()
    labels, source = labels_of(series), source_headers(series)
    frames, planes = to_frames(labels, series, source), Planes.of(source)
    for at, row, column in np.argwhere(frames):
        place = planes.to_patient(at, np.array([[column, row]]))[0] * (-1, -1, 1)
        i, j, k = np.rint(np.linalg.solve(series.affine, [*place, 1])[:3]).astype(int)
        assert labels[i, j, k] == frames[at, row, column]
    assert_round_trip(series, labels, tmp_path)
    assert dciodvfy(tmp_path / "seg.dcm") == dciodvfy(tmp_path / "rt.dcm") == []


@pytest.mark.parametrize("folder", ["dicom_seg/23x38x3/multiframe", "awkward_dicom/gantry_tilt", "sarcoma_dicom/image"])
def test_real_series_go_round(tmp_path: Path, medical: Path, folder: str) -> None:
    series = find_series(medical / folder).only()
    labels = np.zeros(series.shape, np.uint8)
    labels[5:9, 3:7, 1:] = 3
    labels[1:3, 3:5, -1] = 7
    assert_round_trip(series, labels, tmp_path)


def test_a_series_without_uids_gets_a_segmentation(tmp_path: Path, medical: Path) -> None:
    series = find_series(medical / "torso_dicom").only()
    truth = read_labels(medical / "torso_dicom.labels.nii.gz")
    labels = np.zeros(series.shape, np.uint8)
    labels[100:200, 200:260, 5:15] = 3
    assert truth.shape == labels.shape
    assert_round_trip(series, labels, tmp_path)


def test_labels_of_another_shape_are_refused(tmp_path: Path) -> None:
    save(ct_series(), tmp_path)
    series = find_series(tmp_path).only()
    with pytest.raises(ValueError, match=r"\(6, 7, 5\) are not on the series, which has shape \(7, 6, 5\)"):
        to_frames(labels_of(series).swapaxes(0, 1), series, source_headers(series))
