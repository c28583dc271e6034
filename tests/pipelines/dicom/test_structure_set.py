"""A label map goes into an RT structure set and comes back as it was, with areas right to the voxel."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.dicom.planes import Planes
from fredholm.pipelines.dicom.segmentation import write_segmentation
from fredholm.pipelines.dicom.structure_set import read_structure_set, write_structure_set
from fredholm.pipelines.structures import structure
from helpers.slices import ALGORITHM, GEOMETRIES, NAMES, ct, dciodvfy, label_map, nrrd, renumbered, series
from pydicom import dcmread
from pydicom.dataset import Dataset


def round_trip(path: Path, source: Sequence[Dataset], labels: np.ndarray) -> Dataset:
    numbers = write_structure_set(path, source, labels, NAMES, ALGORITHM)
    back, names = read_structure_set(path, source)
    np.testing.assert_array_equal(back, renumbered(labels, numbers))
    assert names == {number: NAMES[label] for label, number in numbers.items()}
    return dcmread(path)


def points(contour: Dataset) -> np.ndarray:
    return np.array(contour.ContourData, dtype=float).reshape(-1, 3)


def area_mm2(polygon: np.ndarray) -> float:
    return float(np.linalg.norm(np.cross(polygon, np.roll(polygon, -1, axis=0)).sum(axis=0)) / 2)


def shell(slices: int) -> np.ndarray:
    """A thick shell with an island in it, and noise of another structure."""
    _, row, column = np.indices((slices, 40, 44))
    distance = np.hypot(row - 20, column - 22)
    labels = np.where((distance > 8) & (distance < 16), 3, 0)
    labels[distance < 3] = 3
    labels[(distance > 18) & (np.random.default_rng(0).random(labels.shape) < 0.3)] = 7
    return labels


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_what_is_written_comes_back(tmp_path: Path, geometry: dict) -> None:
    source = series(**geometry)
    labels = np.concatenate([label_map()[5:], label_map()[:5]])[: len(source)]
    round_trip(tmp_path / "rt.dcm", source, labels)


def test_areas_are_right_with_holes_islands_and_crumbs(tmp_path: Path) -> None:
    source, labels = series(4, shape=(40, 44)), shell(4)
    found = round_trip(tmp_path / "rt.dcm", source, labels)
    for item, label in zip(found.ROIContourSequence, (3, 7), strict=True):
        by_image = dict.fromkeys((image.SOPInstanceUID for image in source), 0.0)
        for contour in item.ContourSequence:
            by_image[contour.ContourImageSequence[0].ReferencedSOPInstanceUID] += area_mm2(points(contour))
        voxels = np.count_nonzero(labels == label, axis=(1, 2))
        np.testing.assert_allclose(list(by_image.values()), voxels * 0.75 * 0.5, atol=0.01 * 0.75 * 0.5)


def test_each_number_is_short_and_each_contour_lies_on_its_image(tmp_path: Path) -> None:
    source = series(4, shape=(40, 44), orientation=(0.8, 0.6, 0, 0, 0, -1), step=(-1500.123456, 2000.123456, 0.33))
    found = round_trip(tmp_path / "rt.dcm", source, shell(4))
    places = {image.SOPInstanceUID: np.array(image.ImagePositionPatient, dtype=float) for image in source}
    normal = np.cross((0.8, 0.6, 0), (0, 0, -1))
    for item in found.ROIContourSequence:
        for contour in item.ContourSequence:
            words = [str(number) for number in contour.ContourData]
            assert max(map(len, words)) <= 16
            assert contour.NumberOfContourPoints * 3 == len(words)
            away = (points(contour) - places[contour.ContourImageSequence[0].ReferencedSOPInstanceUID]) @ normal
            assert np.abs(away).max() < 1e-3


def test_no_finding_says_what_was_looked_for(tmp_path: Path) -> None:
    source, labels = series(), np.zeros((10, 9, 13), np.uint8)
    assert write_structure_set(tmp_path / "rt.dcm", source, labels, NAMES, ALGORITHM) == {}
    back, names = read_structure_set(tmp_path / "rt.dcm", source)
    assert not back.any()
    assert list(names.values()) == list(NAMES.values())[1:]
    assert dciodvfy(tmp_path / "rt.dcm") == []


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_dciodvfy_has_nothing_to_say(tmp_path: Path, geometry: dict) -> None:
    source = series(**geometry)
    round_trip(tmp_path / "rt.dcm", source, label_map()[:, : source[0].Rows][-len(source) :])
    assert dciodvfy(tmp_path / "rt.dcm") == []


def test_an_roi_is_coded_and_coloured_as_its_structure(tmp_path: Path) -> None:
    source = series()
    found = round_trip(tmp_path / "rt.dcm", source, label_map())
    parts = zip(found.StructureSetROISequence, found.ROIContourSequence, found.RTROIObservationsSequence, strict=True)
    kinds = []
    for at, (roi, contours, observation) in enumerate(parts, 1):
        expected = structure(roi.ROIName)
        assert at == roi.ROINumber == contours.ReferencedROINumber == observation.ReferencedROINumber
        assert tuple(contours.ROIDisplayColor) == expected.rgb
        assert observation.RTROIIdentificationCodeSequence[0].CodeValue == expected.type.value
        kinds.append(observation.RTROIInterpretedType)
    assert kinds == ["ORGAN", "", ""]
    kidney = found.RTROIObservationsSequence[0].RTROIIdentificationCodeSequence[0]
    assert kidney.SegmentedPropertyTypeModifierCodeSequence[0].CodeMeaning == "Left"
    assert found.PatientName == source[0].PatientName
    assert found.StudyInstanceUID == source[0].StudyInstanceUID


def test_real_labels_with_gaps_come_back(tmp_path: Path, medical: Path) -> None:
    folder = medical / "dicom_seg"
    source, labels = ct(folder / "ct-3slice"), nrrd(folder / "liver_spine_gapped_seg.nrrd")
    numbers = write_structure_set(tmp_path / "rt.dcm", source, labels, {1: "liver", 5: "spine"}, ALGORITHM)
    assert numbers == {1: 1, 5: 2}
    back, _ = read_structure_set(tmp_path / "rt.dcm", source)
    np.testing.assert_array_equal(back, nrrd(folder / "liver_spine_seg.nrrd"))


def test_an_enhanced_ct_is_a_source_too(tmp_path: Path, medical: Path) -> None:
    frames = [dcmread(medical / "dicom_seg/23x38x3/multiframe/mf.dcm")]
    labels = nrrd(medical / "dicom_seg/23x38x3/nrrd/label.nrrd")
    labels[0] = 0
    write_structure_set(tmp_path / "rt.dcm", frames, labels, {1: "liver"}, ALGORITHM)
    np.testing.assert_array_equal(read_structure_set(tmp_path / "rt.dcm", frames)[0], labels)
    contours = dcmread(tmp_path / "rt.dcm").ROIContourSequence[0].ContourSequence
    assert {contour.ContourImageSequence[0].ReferencedFrameNumber for contour in contours} == {2, 3}


def test_a_tilted_scan_is_outlined_on_its_own_slices(tmp_path: Path, medical: Path) -> None:
    source = ct(medical / "awkward_dicom/gantry_tilt")
    labels = np.zeros((len(source), source[0].Rows, source[0].Columns), np.uint8)
    labels[1:3, 10:20, 30:50] = 3
    round_trip(tmp_path / "rt.dcm", source, labels)


def changed(path: Path, change: Callable[[Dataset], None]) -> Path:
    dataset = dcmread(path)
    change(dataset)
    dataset.save_as(path)
    return path


def test_contours_of_others_are_read(tmp_path: Path) -> None:
    source, labels = series(4, shape=(40, 44)), np.where(shell(4) == 3, 3, 0)
    hole = np.zeros_like(labels)
    hole[:, 18:22, 32:35] = 3  # in the shell

    def with_holes_of_their_own(dataset: Dataset) -> None:
        write_structure_set(tmp_path / "hole.dcm", source, hole, NAMES, ALGORITHM)
        contours = dataset.ROIContourSequence[0].ContourSequence
        contours.extend(dcmread(tmp_path / "hole.dcm").ROIContourSequence[0].ContourSequence)
        for contour in contours:
            contour.ContourGeometricType = "CLOSEDPLANAR_XOR"
        point = Dataset()
        point.ContourGeometricType, point.NumberOfContourPoints, point.ContourData = "POINT", 1, [0, 0, 999]
        contours.append(point)

    round_trip(tmp_path / "rt.dcm", source, labels)
    back, _ = read_structure_set(changed(tmp_path / "rt.dcm", with_holes_of_their_own), source)
    np.testing.assert_array_equal(back > 0, (labels > 0) & (hole == 0))


def test_overlapping_rois_are_read_apart(tmp_path: Path) -> None:
    source, labels = series(), label_map()
    round_trip(tmp_path / "rt.dcm", source, labels)

    def overlap(dataset: Dataset) -> None:
        first, second, _ = dataset.ROIContourSequence
        second.ContourSequence = first.ContourSequence

    changed(tmp_path / "rt.dcm", overlap)
    with pytest.raises(ValueError, match="ROI 2 overlaps another one on slice 2"):
        read_structure_set(tmp_path / "rt.dcm", source)
    back, names = read_structure_set(tmp_path / "rt.dcm", source, rois=[2])
    np.testing.assert_array_equal(back, 2 * (labels == 3))
    assert names == {2: "liver_tumor"}
    with pytest.raises(ValueError, match=r"has the ROIs \[1, 2, 3\], not \[4\]"):
        read_structure_set(tmp_path / "rt.dcm", source, rois=[4])


def test_a_structure_set_of_another_series_is_refused(tmp_path: Path) -> None:
    round_trip(tmp_path / "rt.dcm", series(), label_map())
    with pytest.raises(ValueError, match="another frame of reference"):
        read_structure_set(tmp_path / "rt.dcm", series())
    other = series(step=(0, 0, 2.6))
    for image in other:
        del image["FrameOfReferenceUID"]
    with pytest.raises(ValueError, match=r"lies 0\.20 mm from the nearest slice"):
        read_structure_set(tmp_path / "rt.dcm", other)


def test_what_is_no_structure_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_structure_set(tmp_path / "absent.dcm", series())
    (tmp_path / "text.dcm").write_text("no DICOM at all")
    with pytest.raises(ValueError, match="is no DICOM file"):
        read_structure_set(tmp_path / "text.dcm", series())
    source = series()
    write_segmentation(tmp_path / "seg.dcm", source, label_map(), NAMES, ALGORITHM)
    with pytest.raises(ValueError, match="is no RTSTRUCT object but SEG"):
        read_structure_set(tmp_path / "seg.dcm", source)


def test_labels_that_do_not_fit_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    for labels, words in ((label_map(9), "integers of shape"), (label_map() + 1, "have no name")):
        with pytest.raises(ValueError, match=words):
            write_structure_set(tmp_path / "rt.dcm", series(), labels, NAMES, ALGORITHM)
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_read_back_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = series()
    where = Planes.to_patient
    monkeypatch.setattr(Planes, "to_patient", lambda planes, at, points: where(planes, at, points + 1))
    with pytest.raises(OSError, match="does not read back as it was written"):
        write_structure_set(tmp_path / "rt.dcm", source, label_map(), NAMES, ALGORITHM)
    assert list(tmp_path.iterdir()) == []
