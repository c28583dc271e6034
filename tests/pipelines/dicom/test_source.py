"""A series goes to the writers of other objects with every UID, and each label on the plane that it came from."""

from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.dicom import find_series, read_series
from fredholm.pipelines.dicom.derived import Algorithm
from fredholm.pipelines.dicom.frames import to_frames
from fredholm.pipelines.dicom.segmentation import write_segmentation
from fredholm.pipelines.dicom.segments import read_segmentation
from fredholm.pipelines.dicom.source import source_headers
from helpers.dicom import SHAPE, ct_series, enhanced, save
from pydicom.pixels import pixel_array


def test_headers_have_every_uid_and_the_order_of_the_slices(tmp_path: Path) -> None:
    datasets = ct_series(SeriesInstanceUID="", StudyInstanceUID="")
    save(datasets, tmp_path)
    series = find_series(tmp_path).only()
    headers, again = source_headers(series), source_headers(series)
    assert [one.SOPInstanceUID for one in headers] == [one.SOPInstanceUID for one in datasets]
    for name in ("SeriesInstanceUID", "StudyInstanceUID"):
        (uid,) = {one[name].value for one in [*headers, *again]}
        assert uid.is_valid
    assert "PixelData" not in headers[0]


@pytest.mark.parametrize("frames", [(0, 1, 2, 3, 4), (3, 0, 4, 1, 2)])
def test_labels_lie_on_the_frames_that_they_came_from(tmp_path: Path, frames: tuple[int, ...]) -> None:
    slices = ct_series()
    (path,) = save([enhanced([slices[k] for k in frames])], tmp_path)
    series = find_series(tmp_path).only()
    volume = read_series(series)
    found = to_frames(np.rint(volume.array * 10).astype(np.int16), series, source_headers(series))
    np.testing.assert_array_equal(found, pixel_array(path))


@pytest.mark.parametrize("multi_frame", [False, True])
def test_a_segmentation_goes_there_and_back(tmp_path: Path, multi_frame: bool) -> None:
    slices = ct_series()
    save([enhanced(slices[::-1])] if multi_frame else slices, tmp_path / "ct")
    series = find_series(tmp_path / "ct").only()
    labels = np.random.default_rng(0).integers(0, 3, SHAPE).astype(np.uint8)
    headers = source_headers(series)
    planes = to_frames(labels, series, headers)
    write_segmentation(tmp_path / "seg.dcm", headers, planes, {1: "liver", 2: "spleen"}, Algorithm("test", "0"))
    np.testing.assert_array_equal(read_segmentation(tmp_path / "seg.dcm", headers).labels, planes)
    np.testing.assert_array_equal(planes[:: -1 if multi_frame else 1].T, labels)
