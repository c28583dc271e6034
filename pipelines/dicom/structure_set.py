"""DICOM RT structure sets: label maps out as contours, and back.

A label map is `(slices, rows, columns)`, on the slices of `source` (see `planes`). Contours run along the sides of the
voxels (see `contours`), so that areas are exact and the label map comes back as it was; each lies on its own slice,
tilted or not. ROIs are numbered from 1 without gaps, in the order of the labels that are there. **No finding** is an
object too: an ROI without contours for each structure that was looked for.

What is written is read back and compared voxel by voxel before it takes its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from pydicom.config import disable_value_validation
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.tag import Tag
from pydicom.uid import ImplicitVRLittleEndian, RTStructureSetStorage, generate_uid
from scipy.ndimage import find_objects

from ..files import replacing
from ..structures import ANATOMY, SIDES, Code, Structure, structure
from .contours import inside, outlines
from .derived import EMPTY_IF_ABSENT, Algorithm, check_labels, complete_header, long_string, numbered, opened
from .planes import Planes, same_frame_of_reference

CONTOUR_DATA = Tag("ContourData")


@disable_value_validation()
def write_structure_set(
    path: Path, source: Sequence[Dataset], labels: np.ndarray, names: Mapping[int, str], algorithm: Algorithm
) -> dict[int, int]:
    """Write a label map as a DICOM RT structure set.

    Args:
        path: The file to write; its folder must exist.
        source: The images that were labelled, with or without their pixels.
        labels: `(slices, rows, columns)`, integers from zero up.
        names: The structures that were looked for, by label; 0 is background and may be missing.
        algorithm: What made them.

    Returns:
        The ROI number of each label that is there; empty if nothing was found.

    Raises:
        ValueError: The labels do not lie on the images, or have a value without a name.
        OSError: The file cannot be written, or does not read back as it was written.
    """
    planes = Planes.of(source)
    check_labels(labels, planes)
    names = {label: name for label, name in names.items() if label != 0}
    numbers, stored = numbered(labels, names)
    described = [structure(names[label]) for label in numbers or names]
    image = complete_header(source[0], planes.step_mm)
    dataset = _head(image, source, algorithm)
    dataset.StructureSetROISequence = [_roi(at, what, image, algorithm) for at, what in enumerate(described, 1)]
    references, boxes = _references(source), find_objects(stored, max_label=len(described))
    dataset.ROIContourSequence = [
        _contours(at, what, stored, box, planes, references)
        for at, (what, box) in enumerate(zip(described, boxes, strict=True), 1)
    ]
    dataset.RTROIObservationsSequence = [_observation(at, what) for at, what in enumerate(described, 1)]
    with replacing(path) as beside:
        dataset.save_as(beside, enforce_file_format=True)
        try:
            back, _ = read_structure_set(beside, source)
        except ValueError as error:
            raise OSError(f"{path}: does not read back as it was written, so it is not kept: {error}") from error
        if not np.array_equal(back, stored):
            wrong = np.count_nonzero(back != stored)
            raise OSError(f"{path}: does not read back as it was written, so it is not kept: {wrong} voxels differ")
    return numbers


@disable_value_validation()
def read_structure_set(
    path: Path, source: Sequence[Dataset], *, rois: Sequence[int] | None = None
) -> tuple[np.ndarray, dict[int, str]]:
    """Read a DICOM RT structure set onto the slices of a series, whoever wrote it.

    A voxel belongs to an ROI if its centre lies inside of an odd number of the ROI's contours, so that holes may be
    keyholes or contours of their own. What is no area (points, open lines) is passed over.

    Args:
        path: The file.
        source: The images of the series, with or without their pixels.
        rois: The ROI numbers wanted; all if None.

    Returns:
        `(slices, rows, columns)`, uint8 or uint16, whose values are ROI numbers, and the names of the ROIs.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no structure set, its contours do not lie on the slices of `source`, it has not the ROIs asked
            for, or two of them overlap.
    """
    with opened(path, "RTSTRUCT", "StructureSetROISequence") as dataset:
        planes = Planes.of(source)
        names = {int(item.ROINumber): str(item.get("ROIName", "")) for item in dataset.StructureSetROISequence}
        wanted = list(names) if rois is None else list(rois)
        if not set(wanted) <= set(names):
            raise ValueError(f"{path}: has the ROIs {sorted(names)}, not {sorted(set(wanted) - set(names))}")
        if not all(same_frame_of_reference(frame, source[0]) for frame in _frames(dataset)):
            raise ValueError(f"{path}: has another frame of reference than the series")
        labels = np.zeros((len(planes.positions), *planes.shape), np.min_scalar_type(max(wanted, default=0)))
        for item in dataset.get("ROIContourSequence", []):
            number = int(item.ReferencedROINumber)
            for at, polygons in _by_slice(item, planes).items() if number in wanted else ():
                rows, columns, mask = _filled(polygons, planes.shape)
                there = labels[at, rows, columns]
                if there[mask].any():
                    raise ValueError(f"{path}: ROI {number} overlaps another one on slice {at}, so ask for fewer ROIs")
                there[mask] = number
        return labels, {number: names[number] for number in wanted}


def _head(image: Dataset, source: Sequence[Dataset], algorithm: Algorithm) -> Dataset:
    """All of the object but its ROIs."""
    now = datetime.now()
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian  # with explicit VRs a contour is at most 64 KiB long
    dataset.SpecificCharacterSet = "ISO_IR 192"
    for keyword in (*EMPTY_IF_ABSENT, "StudyInstanceUID", "FrameOfReferenceUID"):
        setattr(dataset, keyword, image[keyword].value)
    dataset.SOPClassUID, dataset.SOPInstanceUID = RTStructureSetStorage, generate_uid(prefix=None)
    dataset.Modality, dataset.SeriesInstanceUID = "RTSTRUCT", generate_uid(prefix=None)
    dataset.SeriesNumber = 2000 + int(image.get("SeriesNumber") or 0)
    dataset.SeriesDescription = long_string(f"{algorithm.name}: contours")
    dataset.OperatorsName = dataset.PositionReferenceIndicator = None
    dataset.Manufacturer = dataset.ManufacturerModelName = "fredholm"
    dataset.SoftwareVersions = long_string(algorithm.version)
    dataset.InstanceNumber, dataset.ApprovalStatus = 1, "UNAPPROVED"
    dataset.StructureSetLabel = "fredholm"
    dataset.StructureSetDate = dataset.InstanceCreationDate = f"{now:%Y%m%d}"
    dataset.StructureSetTime = dataset.InstanceCreationTime = f"{now:%H%M%S}"
    series = _item(SeriesInstanceUID=image.SeriesInstanceUID, ContourImageSequence=list(_references(source)))
    study = _item(
        ReferencedSOPClassUID="1.2.840.10008.3.1.2.3.1",  # Detached Study Management, as the standard still wants
        ReferencedSOPInstanceUID=image.StudyInstanceUID,
        RTReferencedSeriesSequence=[series],
    )
    frame = _item(FrameOfReferenceUID=image.FrameOfReferenceUID, RTReferencedStudySequence=[study])
    dataset.ReferencedFrameOfReferenceSequence = [frame]
    return dataset


def _references(source: Sequence[Dataset]) -> list[Dataset]:
    """The image of each slice."""
    references = []
    for image in source:
        frames = int(image.get("NumberOfFrames") or 1) if "PerFrameFunctionalGroupsSequence" in image else None
        for number in range(1, (frames or 1) + 1):
            reference = _item(ReferencedSOPClassUID=image.SOPClassUID, ReferencedSOPInstanceUID=image.SOPInstanceUID)
            if frames:
                reference.ReferencedFrameNumber = number
            references.append(reference)
    return references


def _roi(number: int, what: Structure, image: Dataset, algorithm: Algorithm) -> Dataset:
    return _item(
        ROINumber=number,
        ReferencedFrameOfReferenceUID=image.FrameOfReferenceUID,
        ROIName=long_string(what.name),
        ROIGenerationAlgorithm="AUTOMATIC",
        ROIGenerationDescription=long_string(f"{algorithm.name} {algorithm.version}"),
    )


def _contours(
    number: int,
    what: Structure,
    labels: np.ndarray,
    box: tuple[slice, ...] | None,
    planes: Planes,
    references: Sequence[Dataset],
) -> Dataset:
    """The contours of an ROI, all of whose voxels lie in `box`."""
    item = _item(ReferencedROINumber=number, ROIDisplayColor=list(what.rgb))
    if box is None:
        return item
    slices, rows, columns = box
    corner = np.array([columns.start, rows.start])
    item.ContourSequence = [
        _contour(planes.to_patient(at, polygon + corner), references[at])
        for at in range(slices.start, slices.stop)
        for polygon in outlines(labels[at, rows, columns] == number)
    ]
    return item


def _contour(points: np.ndarray, image: Dataset) -> Dataset:
    contour = _item(
        ContourImageSequence=[image], ContourGeometricType="CLOSED_PLANAR", NumberOfContourPoints=len(points)
    )
    contour[CONTOUR_DATA] = _decimals(points)
    return contour


def _observation(number: int, what: Structure) -> Dataset:
    kind = _concept(what.type)
    if what.side:
        kind.SegmentedPropertyTypeModifierCodeSequence = [_concept(SIDES[what.side])]
    return _item(
        ObservationNumber=number,
        ReferencedROINumber=number,
        RTROIIdentificationCodeSequence=[kind],
        RTROIInterpretedType="ORGAN" if what.category == ANATOMY else "",
        ROIInterpreter=None,
    )


def _concept(code: Code) -> Dataset:
    return _item(CodeValue=code.value, CodingSchemeDesignator=code.scheme, CodeMeaning=code.meaning)


def _item(**values: object) -> Dataset:
    item = Dataset()
    for keyword, value in values.items():
        setattr(item, keyword, value)
    return item


def _decimals(points: np.ndarray) -> RawDataElement:
    """Contour data in tenths of a micrometre; as text at once, since numbers one by one take minutes."""
    text = "\\".join(f"{value:.4f}" for value in points.ravel().tolist()).encode("ascii")
    text += b" " * (len(text) % 2)
    return RawDataElement(CONTOUR_DATA, "DS", len(text), text, 0, True, True)


def _frames(dataset: Dataset) -> Iterator[Dataset]:
    yield from dataset.get("ReferencedFrameOfReferenceSequence", [])


def _by_slice(item: Dataset, planes: Planes) -> dict[int, list[np.ndarray]]:
    """The areas of an ROI by the slice that they lie on."""
    found: dict[int, list[np.ndarray]] = {}
    for contour in item.get("ContourSequence", []):
        if str(contour.get("ContourGeometricType")).startswith("CLOSED"):
            data = contour.get_item(CONTOUR_DATA).value
            numbers = data.decode("ascii").split("\\") if isinstance(data, bytes) else data
            at, points = planes.to_slice(np.array(numbers, dtype=np.float64).reshape(-1, 3))
            found.setdefault(at, []).append(points)
    return found


def _filled(polygons: Sequence[np.ndarray], shape: tuple[int, int]) -> tuple[slice, slice, np.ndarray]:
    """The rows and the columns that polygons span, and which voxels of those lie inside."""
    points = np.concatenate(polygons)
    low = np.floor(points.min(axis=0)).astype(int).clip(0)
    high = (np.ceil(points.max(axis=0)).astype(int) + 1).clip(low, (shape[1], shape[0]))
    mask = inside([polygon - low for polygon in polygons], (high[1] - low[1], high[0] - low[0]))
    return slice(low[1], high[1]), slice(low[0], high[0]), mask
