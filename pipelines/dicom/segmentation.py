"""DICOM segmentations: label maps out, from the very images that were labelled, and back.

A label map is `(slices, rows, columns)`, on the slices of `source` (see `planes`) as they are: nothing is resampled or
turned, so the masks of a tilted gantry or of an uneven series lie on its native slices.

Segments are numbered from 1 without gaps, in the order of the labels that are there; `write_segmentation` returns which
label became which segment. Frames without a voxel are left out, and are zero when read. **No finding** is an object
too: each structure that was looked for is a segment with one empty frame, that of the first slice.

What is written is read back and compared voxel by voxel before it takes its place: a file is there whole and right, or
not at all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import highdicom as hd
import numpy as np
from highdicom.color import CIELabColor
from highdicom.sr import CodedConcept
from pydicom import dcmread
from pydicom.config import disable_value_validation
from pydicom.dataset import Dataset
from pydicom.errors import InvalidDicomError
from pydicom.pixels import iter_pixels
from pydicom.sr._snomed_dict import mapping as snomed
from pydicom.sr.codedict import codes
from pydicom.uid import ExplicitVRLittleEndian, RLELossless, generate_uid

from ..classes import few
from ..files import replacing
from ..structures import SIDES, Code, Structure, structure
from .planes import Planes, functional_groups

Kind = Literal["binary", "labelmap", "fractional"]
STEPS = 255  # of a probability, from 0 to 1
SRT: dict[str, str] = snomed["SRT"]
NAME = 64  # characters that fit a segment's label
# what an object must hold, if only as nothing, and real images sometimes lack
EMPTY_IF_ABSENT = (
    *("PatientID", "PatientName", "PatientBirthDate", "PatientSex", "StudyID", "StudyDate", "StudyTime"),
    *("AccessionNumber", "ReferringPhysicianName"),
)


@dataclass(frozen=True)
class Algorithm:
    """What made the labels: a name such as that of the run, and a version."""

    name: str
    version: str


@dataclass(frozen=True)
class Segment:
    """What an object says of a segment."""

    label: str
    category: Code
    type: Code
    side: Code | None
    region: Code | None
    rgb: tuple[int, int, int] | None
    tracking_id: str | None
    tracking_uid: str | None


@dataclass(frozen=True, eq=False)
class Segmentation:
    """A label map `(slices, rows, columns)`, uint8 or uint16, whose values are the keys of `segments`."""

    labels: np.ndarray
    segments: dict[int, Segment]


@disable_value_validation()  # real headers hold values that are too long; they are taken as they are
def write_segmentation(
    path: Path,
    source: Sequence[Dataset],
    labels: np.ndarray,
    names: Mapping[int, str],
    algorithm: Algorithm,
    *,
    kind: Kind = "binary",
) -> dict[int, int]:
    """Write a label map as DICOM SEG.

    Args:
        path: The file to write; its folder must exist.
        source: The images that were labelled, with or without their pixels.
        labels: `(slices, rows, columns)`, integers from zero up. For `"fractional"` also probabilities
            `(slices, rows, columns, structures)` from 0 to 1, a structure for each of `names` in their order.
        names: The structures that were looked for, by label; 0 is background and may be missing.
        algorithm: What made them.
        kind: `"binary"`, a frame of bits for each slice and structure, which every program reads; `"labelmap"`, one
            frame a slice, small and fast and known to few; or `"fractional"`, probabilities in steps of 1/255.

    Returns:
        The segment number of each label that is there; empty if nothing was found.

    Raises:
        ValueError: The labels do not lie on the images, or have a value without a name.
        OSError: The file cannot be written, or does not read back as it was written.
    """
    planes = Planes.of(source)
    names = {label: name for label, name in names.items() if label != 0}
    _check(labels, planes, names, kind)
    numbers, stored = _numbered(labels, names)
    described = [structure(names[label]) for label in numbers or names]
    images = [_complete(image, planes.step_mm) for image in source]
    positions = planes.positions.tolist()
    if not numbers:
        stored, positions = stored[:1], positions[:1]
    dataset = hd.seg.Segmentation(
        source_images=images,
        pixel_array=stored.copy() if kind == "fractional" else stored,  # highdicom may scale it in place
        segmentation_type=kind.upper(),
        segment_descriptions=[_description(at, each, algorithm, images[0]) for at, each in enumerate(described, 1)],
        plane_positions=[hd.PlanePositionSequence("PATIENT", position) for position in positions],
        omit_empty_frames=bool(numbers),
        transfer_syntax_uid=ExplicitVRLittleEndian,
        max_fractional_value=STEPS,
        series_instance_uid=generate_uid(prefix=None),
        sop_instance_uid=generate_uid(prefix=None),
        series_number=1000 + int(images[0].get("SeriesNumber") or 0),
        series_description=_text(f"{algorithm.name}: segmentation"),
        instance_number=1,
        manufacturer="fredholm",
        manufacturer_model_name="fredholm",
        software_versions=_text(algorithm.version),
        device_serial_number="none",
        content_label="SEGMENTATION",
        specific_character_set="ISO_IR 192",
    )
    dataset.ContentCreatorName = None  # nobody; but it must be there
    dataset.PatientName = source[0].get("PatientName")  # as it is: highdicom warns of names such as STS_019
    if kind != "binary":  # bits cannot be compressed; and GDCM's encoder, the first choice, aborts on small frames
        dataset.compress(RLELossless, encoding_plugin="pydicom", generate_instance_uid=False)
    with replacing(path) as beside:
        dataset.save_as(beside)
        try:
            _confirm(beside, planes, stored)
        except ValueError as error:
            raise OSError(f"{path}: does not read back as it was written, so it is not kept: {error}") from error
    return numbers


@disable_value_validation()
def read_segmentation(path: Path, source: Sequence[Dataset], *, segments: Sequence[int] | None = None) -> Segmentation:
    """Read a DICOM SEG onto the slices of a series, whoever wrote it.

    Args:
        path: A file of any of the three kinds; a voxel of a fractional one counts from a half up.
        source: The images of the series, with or without their pixels.
        segments: The segments wanted; all if None.

    Returns:
        As many slices as the series has, zero where the file has no frame.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no segmentation, does not lie on the slices of `source`, has not the segments asked for, or
            two of them overlap.
    """
    dataset = _opened(path)
    described = {int(item.SegmentNumber): item for item in dataset.SegmentSequence}
    described.pop(0, None)  # the background of a label map
    wanted = list(described) if segments is None else list(segments)
    if not set(wanted) <= set(described):
        raise ValueError(f"{path}: has the segments {sorted(described)}, not {sorted(set(wanted) - set(described))}")
    frames = {image.get("FrameOfReferenceUID") for image in (dataset, source[0])} - {None, ""}
    if len(frames) > 1:
        raise ValueError(f"{path}: has another frame of reference than the series")
    labels = _label_map(path, dataset, Planes.of(source), wanted)
    return Segmentation(labels, {number: _segment(described[number]) for number in wanted})


def _check(labels: np.ndarray, planes: Planes, names: Mapping[int, str], kind: Kind) -> None:
    expected = (len(planes.positions), *planes.shape)
    if np.issubdtype(labels.dtype, np.floating):
        if kind != "fractional" or labels.shape != (*expected, len(names)):
            raise ValueError(f"probabilities of shape {labels.shape} are no {kind} labels of {len(names)} structures")
        if not (labels.min() >= 0 and labels.max() <= 1):
            raise ValueError(f"probabilities lie from 0 to 1, these from {labels.min()} to {labels.max()}")
    elif labels.dtype.kind not in "iu" or labels.shape != expected:
        raise ValueError(f"labels are integers of shape {expected}, these are {labels.dtype} of shape {labels.shape}")


def _numbered(labels: np.ndarray, names: Mapping[int, str]) -> tuple[dict[int, int], np.ndarray]:
    """The segment number of each label that is there, and the labels so numbered."""
    if labels.ndim == 4:
        levels = np.rint(labels * STEPS).astype(np.uint8)
        there = [at for at in range(len(names)) if levels[..., at].any()]
        found = [list(names)[at] for at in there]
        return {label: at for at, label in enumerate(found, 1)}, levels[..., there or range(len(names))] / STEPS
    values = np.unique(labels)
    unknown = [value for value in values.tolist() if value != 0 and value not in names]
    if unknown:
        raise ValueError(f"label values {few(unknown)} have no name; known are {few(names)}")
    found = [value for value in values.tolist() if value]
    table = np.zeros(int(values[-1]) + 1, np.min_scalar_type(len(found)))
    table[found] = range(1, len(found) + 1)
    return {label: at for at, label in enumerate(found, 1)}, table[labels]


def _complete(image: Dataset, step_mm: float) -> Dataset:
    """The header of an image, with nothing missing that an object derived from it must hold."""
    header = Dataset()
    header.update(image)
    if "file_meta" in vars(image):
        header.file_meta = image.file_meta
    header.pop("PatientName", None)
    for keyword in EMPTY_IF_ABSENT:
        if keyword not in header:
            setattr(header, keyword, None)
    if header.PatientSex not in ("M", "F", "O"):
        del header.PatientSex  # and not set, which would reach the image itself
        header.PatientSex = None
    if "PerFrameFunctionalGroupsSequence" not in header and not header.get("SliceThickness"):
        header.pop("SliceThickness", None)
        header.SliceThickness = step_mm
    if not header.get("FrameOfReferenceUID"):  # the same one for the same series
        header.pop("FrameOfReferenceUID", None)
        header.FrameOfReferenceUID = generate_uid(entropy_srcs=["frame of reference", str(image.SeriesInstanceUID)])
    return header


def _description(number: int, what: Structure, algorithm: Algorithm, image: Dataset) -> hd.seg.SegmentDescription:
    made_by = hd.AlgorithmIdentificationSequence(
        name=_text(algorithm.name), family=codes.DCM.ArtificialIntelligence, version=_text(algorithm.version)
    )
    description = hd.seg.SegmentDescription(
        segment_number=number,
        segment_label=_text(what.name),
        segmented_property_category=_concept(what.category),
        segmented_property_type=_concept(what.type),
        algorithm_type=hd.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
        algorithm_identification=made_by,
        tracking_id=what.name,
        # the same structure of the same series, whenever it is labelled
        tracking_uid=generate_uid(entropy_srcs=[str(image.get("SeriesInstanceUID")), what.name]),
        anatomic_regions=[_concept(what.region)] if what.region else None,
        display_color=CIELabColor.from_rgb(*what.rgb),
    )
    if what.side:
        side = [_concept(SIDES[what.side])]
        if what.region:
            description.AnatomicRegionSequence[0].AnatomicRegionModifierSequence = side
        else:
            description.SegmentedPropertyTypeCodeSequence[0].SegmentedPropertyTypeModifierCodeSequence = side
    return description


def _concept(code: Code) -> CodedConcept:
    return CodedConcept(code.value, "SCT", code.meaning)


def _text(words: str) -> str:
    """What a text of DICOM's type LO can hold."""
    return words.replace("\\", "/")[:NAME]


def _confirm(path: Path, planes: Planes, stored: np.ndarray) -> None:
    """Refuse a file that does not hold these labels, or levels, on its first slices and nothing on the others."""
    dataset = _opened(path)
    if stored.ndim == 4:
        found, expected = _levels(path, dataset, planes), np.rint(stored * STEPS)
    else:
        found, expected = _label_map(path, dataset, planes, range(1, len(dataset.SegmentSequence) + 1)), stored
    wrong = np.count_nonzero(found[: len(stored)] != expected) + np.count_nonzero(found[len(stored) :])
    if wrong:
        raise ValueError(f"{wrong} voxels differ")


def _opened(path: Path) -> Dataset:
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        dataset = dcmread(path)
    except InvalidDicomError as error:
        raise ValueError(f"{path}: is no DICOM file") from error
    if dataset.get("Modality") != "SEG" or "SegmentSequence" not in dataset:
        raise ValueError(f"{path}: is no segmentation but {dataset.get('Modality', 'nothing that says its modality')}")
    return dataset


def _label_map(path: Path, dataset: Dataset, planes: Planes, wanted: Sequence[int]) -> np.ndarray:
    labels = np.zeros((len(planes.positions), *planes.shape), np.min_scalar_type(max(wanted, default=0)))
    half = (dataset.get("MaximumFractionalValue", 1) + 1) // 2
    for at, number, values in _frames(path, dataset, planes, wanted):
        if number is None:  # what is not wanted may be background, padding or another segment
            labels[at] = np.where(np.isin(values, wanted), values, 0)
            continue
        mask, filled = values >= half, np.count_nonzero(labels[at])
        np.copyto(labels[at], number, where=mask, casting="unsafe")
        if np.count_nonzero(labels[at]) < filled + np.count_nonzero(mask):
            raise ValueError(f"{path}: segment {number} overlaps another one on slice {at}, so ask for fewer segments")
    return labels


def _levels(path: Path, dataset: Dataset, planes: Planes) -> np.ndarray:
    """Stored values of a fractional object, `(slices, rows, columns, segments)`."""
    wanted = range(1, len(dataset.SegmentSequence) + 1)
    levels = np.zeros((len(planes.positions), *planes.shape, len(wanted)), np.uint8)
    for at, number, values in _frames(path, dataset, planes, wanted):
        assert number is not None
        levels[at, ..., number - 1] = values
    return levels


def _frames(
    path: Path, dataset: Dataset, planes: Planes, wanted: Sequence[int]
) -> Iterator[tuple[int, int | None, np.ndarray]]:
    """Slice, segment (None in a label map, which holds them all) and values of each frame of the segments wanted."""
    grid = Planes.of([dataset])
    if not grid.fits(planes):
        raise ValueError(
            f"{path}: its frames have another direction, voxel size or shape than the slices of the series"
        )
    numbers = [_segment_number(groups) for groups in functional_groups([dataset])]
    kept = [at for at, number in enumerate(numbers) if number is None or number in wanted]
    for at, values in zip(kept, _pixels(dataset, kept), strict=True):
        yield planes.find(grid.positions[at]), numbers[at], values


def _pixels(dataset: Dataset, frames: Sequence[int]) -> Iterator[np.ndarray]:
    if dataset.BitsAllocated > 1 or dataset.file_meta.TransferSyntaxUID.is_encapsulated:
        yield from iter_pixels(dataset, indices=frames)
        return
    packed = np.frombuffer(dataset.PixelData, np.uint8)
    size = dataset.Rows * dataset.Columns
    for at in frames:  # a frame may begin within a byte, which pydicom 3.0 gets wrong
        first, skipped = divmod(at * size, 8)
        bits = np.unpackbits(packed[first : first + (skipped + size + 7) // 8], bitorder="little")
        yield bits[skipped : skipped + size].reshape(dataset.Rows, dataset.Columns)


def _segment_number(groups: tuple[Dataset, ...]) -> int | None:
    for group in groups:
        if "SegmentIdentificationSequence" in group:
            return int(group.SegmentIdentificationSequence[0].ReferencedSegmentNumber)
    return None


def _segment(item: Dataset) -> Segment:
    kind = item.SegmentedPropertyTypeCodeSequence[0]
    region = (item.get("AnatomicRegionSequence") or [Dataset()])[0]
    colour = item.get("RecommendedDisplayCIELabValue")
    return Segment(
        label=item.SegmentLabel,
        category=_code(item.SegmentedPropertyCategoryCodeSequence[0]),
        type=_code(kind),
        side=_code_in(kind, "SegmentedPropertyTypeModifierCodeSequence")
        or _code_in(region, "AnatomicRegionModifierSequence"),
        region=_code_in(item, "AnatomicRegionSequence"),
        rgb=CIELabColor.from_dicom_value(list(colour)).to_rgb(clip=True) if colour else None,
        tracking_id=item.get("TrackingID"),
        tracking_uid=item.get("TrackingUID"),
    )


def _code_in(item: Dataset, sequence: str) -> Code | None:
    found = item.get(sequence)
    return _code(found[0]) if found else None


def _code(item: Dataset) -> Code:
    """A code as it stands, but SNOMED's retired ones (SRT) as they are written today."""
    value = item.get("CodeValue") or item.get("LongCodeValue") or item.get("URNCodeValue") or ""
    if item.get("CodingSchemeDesignator") == "SRT" and value in SRT:
        return Code(SRT[value], item.CodeMeaning)
    return Code(value, item.CodeMeaning, item.get("CodingSchemeDesignator", ""))
