"""A label map goes into DICOM SEG and comes back as it was; others read it, and we read theirs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import highdicom as hd
import nibabel as nib
import numpy as np
import pytest
from fredholm.pipelines.dicom.derived import EMPTY_IF_ABSENT, Algorithm
from fredholm.pipelines.dicom.planes import Planes
from fredholm.pipelines.dicom.segmentation import Kind, write_segmentation
from fredholm.pipelines.dicom.segments import Segmentation, read_probabilities, read_segmentation
from fredholm.pipelines.structures import SIDES, structure
from helpers.slices import ALGORITHM, GEOMETRIES, NAMES, OBLIQUE, ct, dciodvfy, label_map, nrrd, renumbered, series
from pydicom import dcmread
from pydicom.dataset import Dataset

KINDS: list[Kind] = ["binary", "labelmap", "fractional"]


def round_trip(path: Path, source: Sequence[Dataset], labels: np.ndarray, kind: Kind = "binary") -> Segmentation:
    numbers = write_segmentation(path, source, labels, NAMES, ALGORITHM, kind=kind)
    back = read_segmentation(path, source)
    np.testing.assert_array_equal(back.labels, renumbered(labels, numbers))
    return back


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_what_is_written_comes_back(tmp_path: Path, geometry: dict, kind: Kind) -> None:
    source = series(**geometry)
    labels = np.concatenate([label_map()[5:], label_map()[:5]])[: len(source)]
    round_trip(tmp_path / "seg.dcm", source, labels, kind)
    found = Planes.of([dcmread(tmp_path / "seg.dcm")])
    assert {tuple(place) for place in found.positions} <= {tuple(place) for place in Planes.of(source).positions}


def test_uneven_slices_keep_their_places(tmp_path: Path) -> None:
    source = series(4)
    source[3].ImagePositionPatient = [-40, -40, 77]
    round_trip(tmp_path / "seg.dcm", source, label_map()[2:6])


@pytest.mark.parametrize("kind", KINDS)
def test_slices_without_a_finding_come_back_too(tmp_path: Path, kind: Kind) -> None:  # B9
    labels = np.zeros((10, 9, 13), np.uint8)
    labels[4:7, 2:5, 3:9] = 3
    back = round_trip(tmp_path / "seg.dcm", series(), labels, kind)
    assert back.labels.shape == (10, 9, 13)
    assert np.flatnonzero(back.labels.any(axis=(1, 2))).tolist() == [4, 5, 6]


@pytest.mark.parametrize("kind", KINDS)
def test_no_finding_says_what_was_looked_for(tmp_path: Path, kind: Kind) -> None:  # B9
    source, labels = series(), np.zeros((10, 9, 13), np.uint8)
    assert write_segmentation(tmp_path / "seg.dcm", source, labels, NAMES, ALGORITHM, kind=kind) == {}
    back = read_segmentation(tmp_path / "seg.dcm", source)
    np.testing.assert_array_equal(back.labels, labels)
    assert [segment.label for segment in back.segments.values()] == list(NAMES.values())[1:]
    if kind == "fractional":
        zeros = np.zeros((10, 9, 13, 4))
        assert write_segmentation(tmp_path / "seg.dcm", source, zeros, NAMES, ALGORITHM, kind=kind) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_numbered_without_gaps(tmp_path: Path, kind: Kind) -> None:
    source = series()
    numbers = write_segmentation(tmp_path / "seg.dcm", source, label_map(), NAMES, ALGORITHM, kind=kind)
    assert numbers == {3: 1, 7: 2, 9: 3}
    segments = read_segmentation(tmp_path / "seg.dcm", source).segments
    assert {number: segment.label for number, segment in segments.items()} == {n: NAMES[v] for v, n in numbers.items()}


def test_probabilities_keep_their_steps(tmp_path: Path) -> None:
    source = series()
    shares = np.random.default_rng(0).random((10, 9, 13, 4))
    shares[..., 1] = 0.001  # less than half a step: nothing
    numbers = write_segmentation(tmp_path / "seg.dcm", source, shares, NAMES, ALGORITHM, kind="fractional")
    assert numbers == {3: 1, 7: 2, 9: 3}
    steps = np.rint(shares[..., [0, 2, 3]] * 255)
    np.testing.assert_array_equal(read_probabilities(tmp_path / "seg.dcm", source), (steps / 255).astype(np.float32))
    for number, at in {1: 0, 2: 2, 3: 3}.items():
        back = read_segmentation(tmp_path / "seg.dcm", source, segments=[number])
        np.testing.assert_array_equal(back.labels > 0, np.rint(shares[..., at] * 255) >= 128)


def test_a_segment_is_coded_and_coloured_as_its_structure(tmp_path: Path) -> None:
    source = series()
    segments = round_trip(tmp_path / "seg.dcm", source, label_map()).segments.values()
    for segment in segments:
        expected = structure(segment.label)
        assert (segment.category, segment.type, segment.region) == (expected.category, expected.type, expected.region)
        assert segment.side == (SIDES[expected.side] if expected.side else None)
        assert segment.rgb is not None
        np.testing.assert_allclose(segment.rgb, expected.rgb, atol=1)  # through CIELab and back
        assert segment.tracking_id == segment.label
    again = round_trip(tmp_path / "again.dcm", source, label_map()).segments.values()
    other = round_trip(tmp_path / "other.dcm", series(), label_map()).segments.values()
    uids = [[segment.tracking_uid for segment in each] for each in (segments, again, other)]
    assert uids[0] == uids[1]
    assert len({*uids[0], *uids[2]}) == 6


def test_the_object_belongs_to_its_series_and_says_what_made_it(tmp_path: Path) -> None:
    source = series()
    round_trip(tmp_path / "seg.dcm", source, label_map())
    found = dcmread(tmp_path / "seg.dcm")
    for keyword in (
        "StudyInstanceUID",
        "FrameOfReferenceUID",
        "PatientID",
        "PatientName",
        "PatientBirthDate",
        "StudyID",
    ):
        assert found[keyword].value == source[0][keyword].value
    referenced = found.ReferencedSeriesSequence[0]
    assert referenced.SeriesInstanceUID == source[0].SeriesInstanceUID
    images = [item.ReferencedSOPInstanceUID for item in referenced.ReferencedInstanceSequence]
    assert images == [image.SOPInstanceUID for image in source]
    made_by = found.SegmentSequence[0].SegmentationAlgorithmIdentificationSequence[0]
    assert (made_by.AlgorithmName, made_by.AlgorithmVersion) == ("run 7", "0.1.0")
    assert made_by.AlgorithmFamilyCodeSequence[0].CodeMeaning == "Artificial Intelligence"


@pytest.mark.parametrize("name", ["肝臓 'links' \\ <b>", "x" * 100])
def test_any_name_can_be_written(tmp_path: Path, name: str) -> None:
    labels = np.ones((10, 9, 13), np.uint8)
    write_segmentation(tmp_path / "seg.dcm", series(), labels, {1: name}, Algorithm(name, name), kind="binary")
    (segment,) = read_segmentation(tmp_path / "seg.dcm", series_of(tmp_path / "seg.dcm")).segments.values()
    assert segment.label == name.replace("\\", "/")[:64]


def series_of(path: Path) -> list[Dataset]:
    """A segmentation lies on its own slices."""
    return [dcmread(path, stop_before_pixels=True)]


@pytest.mark.parametrize(
    "header",
    [
        {"PatientName": "STS_019", "PatientID": "", "StudyID": "longer than sixteen letters", "PatientSex": "unknown"},
        {"PatientName": "", "PatientBirthDate": "", "SeriesNumber": None},
        {"PatientName": "やまだ^たろう", "SpecificCharacterSet": "ISO_IR 192"},
    ],
)
@pytest.mark.filterwarnings("ignore:.*VR:UserWarning")  # when it is made here
def test_headers_as_they_come_are_carried_over(tmp_path: Path, header: dict) -> None:
    source = series(**header)
    round_trip(tmp_path / "seg.dcm", source, label_map())
    assert dcmread(tmp_path / "seg.dcm").PatientName == source[0].PatientName


def test_headers_may_lack_what_only_a_written_object_must_hold(tmp_path: Path) -> None:
    source = series()
    for image in source:
        for keyword in (
            *EMPTY_IF_ABSENT,
            "SeriesNumber",
            "PositionReferenceIndicator",
            "FrameOfReferenceUID",
        ):
            del image[keyword]
    round_trip(tmp_path / "seg.dcm", source, label_map())
    assert "PatientID" not in source[0]


def refused(words: str, labels: np.ndarray, tmp_path: Path, kind: Kind = "binary", names=NAMES) -> None:
    with pytest.raises(ValueError, match=words):
        write_segmentation(tmp_path / "seg.dcm", series(), labels, names, ALGORITHM, kind=kind)
    assert list(tmp_path.iterdir()) == []


def test_labels_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    refused(r"shape \(10, 9, 13\), these are int64 of shape \(9, 9, 13\)", label_map(9), tmp_path)
    refused("label values 7, 9 have no name; known are 3", label_map(), tmp_path, names={3: "spleen"})
    refused("have no name", -label_map(), tmp_path)
    refused("are no binary labels", np.zeros((10, 9, 13, 4)), tmp_path)
    refused("of 4 structures", np.zeros((10, 9, 13, 3)), tmp_path, "fractional")
    refused("from 0 to 1, these from 0.0 to 1.5", np.full((10, 9, 13, 4), [0, 0, 1.5, 1]), tmp_path, "fractional")
    refused("from 0 to 1, these from nan", np.full((10, 9, 13, 4), np.nan), tmp_path, "fractional")


@pytest.mark.parametrize("missing", ["ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"])
def test_a_slice_without_a_place_is_refused(tmp_path: Path, missing: str) -> None:
    source = series()
    del source[4][missing]
    with pytest.raises(ValueError, match=f"has no {missing}"):
        write_segmentation(tmp_path / "seg.dcm", source, label_map(), NAMES, ALGORITHM)


def test_slices_of_two_kinds_are_refused(tmp_path: Path) -> None:
    source = series()
    source[6].PixelSpacing = [0.75, 0.6]
    with pytest.raises(ValueError, match="slice 7 has another direction, spacing or size than slice 1"):
        write_segmentation(tmp_path / "seg.dcm", source, label_map(), NAMES, ALGORITHM)


def test_what_does_not_read_back_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, source = tmp_path / "seg.dcm", series()
    round_trip(path, source, label_map())
    before = path.read_bytes()
    save_as = Dataset.save_as

    def spoil_and_save(dataset: Dataset, file: Path) -> None:
        dataset.PixelData = bytes([dataset.PixelData[0] ^ 1]) + dataset.PixelData[1:]
        save_as(dataset, file)

    monkeypatch.setattr(hd.seg.Segmentation, "save_as", spoil_and_save)
    with pytest.raises(OSError, match="does not read back as it was written"):
        write_segmentation(path, source, label_map(), NAMES, ALGORITHM)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_segmentation_of_another_series_is_refused(tmp_path: Path) -> None:
    round_trip(tmp_path / "seg.dcm", series(), label_map())
    for other, words in {
        "voxels": (series(spacing=(0.75, 0.6)), "another direction, voxel size or shape"),
        "shape": (series(shape=(9, 14)), "another direction, voxel size or shape"),
        "places": (series(step=(0, 0, 2.4)), r"lies 0\.90 mm from the nearest slice"),
    }.values():
        for image in other:
            del image["FrameOfReferenceUID"]
        with pytest.raises(ValueError, match=words):
            read_segmentation(tmp_path / "seg.dcm", other)
    with pytest.raises(ValueError, match="another frame of reference"):
        read_segmentation(tmp_path / "seg.dcm", series())


def test_what_is_no_segmentation_is_refused(tmp_path: Path, medical: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_segmentation(tmp_path / "absent.dcm", series())
    (tmp_path / "text.dcm").write_text("no DICOM at all")
    with pytest.raises(ValueError, match="is no DICOM file"):
        read_segmentation(tmp_path / "text.dcm", series())
    with pytest.raises(ValueError, match="is no SEG object but CT"):
        read_segmentation(medical / "dicom_seg/ct-3slice/01.dcm", series())


def test_only_a_fractional_segmentation_holds_probabilities(tmp_path: Path) -> None:
    source = series()
    round_trip(tmp_path / "seg.dcm", source, label_map())
    with pytest.raises(ValueError, match="is a BINARY segmentation, which holds no probabilities"):
        read_probabilities(tmp_path / "seg.dcm", source)


@pytest.mark.parametrize("finding", [True, False])
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize("kind", ["binary", "fractional"])  # dciodvfy does not know label maps yet
def test_dciodvfy_has_nothing_to_say(tmp_path: Path, kind: Kind, geometry: dict, finding: bool) -> None:
    source = series(**geometry)
    labels = np.concatenate([label_map()[5:], label_map()[:5]])[: len(source)] * finding
    write_segmentation(tmp_path / "seg.dcm", source, labels, NAMES, ALGORITHM, kind=kind)
    assert dciodvfy(tmp_path / "seg.dcm") == []


@pytest.mark.parametrize("kind", ["binary", "labelmap"])
def test_dcmqi_agrees_voxel_by_voxel(tmp_path: Path, kind: Kind) -> None:
    program = shutil.which("segimage2itkimage", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("dcmqi is not installed")
    source, labels = series(orientation=OBLIQUE, step=(-1.5, 2, 0)), label_map()
    numbers = write_segmentation(tmp_path / "seg.dcm", source, labels, NAMES, ALGORITHM, kind=kind)
    command = [
        program,
        "--inputDICOM",
        tmp_path / "seg.dcm",
        "--outputDirectory",
        tmp_path,
        "-t",
        "nii",
        "--mergeSegments",
    ]
    subprocess.run(command, check=True, capture_output=True)
    image = nib.load(tmp_path / "1.nii.gz")
    theirs = np.asarray(image.dataobj)  # pyright: ignore[reportAttributeAccessIssue]
    planes, ours = Planes.of(source), renumbered(labels, numbers)
    assert np.count_nonzero(theirs) == np.count_nonzero(ours)
    for at, row, column in np.argwhere(ours):
        place = planes.to_patient(at, np.array([[column, row]]))[0] * (-1, -1, 1)
        i, j, k = np.rint(np.linalg.solve(image.affine, [*place, 1])[:3]).astype(int)  # pyright: ignore
        assert theirs[i, j, k] == ours[at, row, column]


@pytest.mark.parametrize(
    ("images", "file", "truth"),
    [
        ("ct-3slice", "liver.dcm", "liver_seg.nrrd"),
        ("24x38x3/image", "24x38x3/seg/label.seg", "24x38x3/nrrd/label.nrrd"),
        ("23x38x3/image", "23x38x3/seg/label.seg", "23x38x3/nrrd/label.nrrd"),
        ("24x38x3/image", "sparse-labelmap-noppv.dcm", "sparse_labelmap_noppv_seg.nrrd"),
        ("24x38x3/image", "sparse-labelmap-ppv5.dcm", "sparse_labelmap_ppv5_seg.nrrd"),
    ],
)
def test_dcmqis_objects_are_read(medical: Path, images: str, file: str, truth: str) -> None:
    folder = medical / "dicom_seg"
    back = read_segmentation(folder / file, ct(folder / images))
    expected = nrrd(folder / truth)
    expected[expected == 5] = 0  # padding: where the file has no frame
    np.testing.assert_array_equal(back.labels, expected)
    (segment,) = back.segments.values()
    assert (segment.label, segment.type) == ("Liver", structure("liver").type)


def test_overlapping_segments_are_read_apart(medical: Path) -> None:
    folder = medical / "dicom_seg"
    source, file = ct(folder / "ct-3slice"), folder / "partial_overlaps.dcm"
    with pytest.raises(ValueError, match="segment 2 overlaps another one on slice 1"):
        read_segmentation(file, source)
    for name, segments in {
        "partial_overlaps-1": [1, 4, 5],
        "partial_overlaps-2": [2],
        "partial_overlaps-3": [3],
    }.items():
        back = read_segmentation(file, source, segments=segments)
        np.testing.assert_array_equal(back.labels, nrrd(folder / f"{name}.nrrd"))
        assert list(back.segments) == segments
    with pytest.raises(ValueError, match=r"has the segments \[1, 2, 3, 4, 5\], not \[6\]"):
        read_segmentation(file, source, segments=[1, 6])


@pytest.mark.parametrize("kind", KINDS)
def test_gapped_labels_of_a_real_scan_go_round(tmp_path: Path, medical: Path, kind: Kind) -> None:
    folder = medical / "dicom_seg"
    source, labels = ct(folder / "ct-3slice"), nrrd(folder / "liver_spine_gapped_seg.nrrd")
    numbers = write_segmentation(tmp_path / "seg.dcm", source, labels, {1: "liver", 5: "spine"}, ALGORITHM, kind=kind)
    assert numbers == {1: 1, 5: 2}
    np.testing.assert_array_equal(
        read_segmentation(tmp_path / "seg.dcm", source).labels, nrrd(folder / "liver_spine_seg.nrrd")
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_enhanced_ct_is_a_source_too(tmp_path: Path, medical: Path, kind: Kind) -> None:
    folder = medical / "dicom_seg/23x38x3"
    frames = [dcmread(folder / "multiframe/mf.dcm")]
    labels = np.stack([nrrd(folder / "nrrd/label.nrrd")[ct_slice(frames, at)] for at in range(3)])
    numbers = write_segmentation(tmp_path / "seg.dcm", frames, labels, {1: "liver"}, ALGORITHM, kind=kind)
    np.testing.assert_array_equal(read_segmentation(tmp_path / "seg.dcm", frames).labels, labels)
    assert numbers == {1: 1}
    assert write_segmentation(tmp_path / "none.dcm", frames, 0 * labels, {1: "liver"}, ALGORITHM, kind=kind) == {}


def ct_slice(frames: list[Dataset], at: int) -> int:
    """The slice of the NRRD file, which goes from the feet up, that a frame shows."""
    return int(np.argsort(np.argsort(Planes.of(frames).positions[:, 2]))[at])


def test_a_tilted_scan_is_labelled_on_its_own_slices(tmp_path: Path, medical: Path) -> None:
    source = ct(medical / "awkward_dicom/gantry_tilt")
    labels = np.zeros((len(source), source[0].Rows, source[0].Columns), np.uint8)
    labels[1:3, 10:20, 30:50] = 3
    round_trip(tmp_path / "seg.dcm", source, labels)
