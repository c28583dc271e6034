"""DICOM segmentations read onto the slices of a series, whoever wrote them.

Each frame is put onto the slice that lies where it lies; `source` stands for the images of the series (see `planes`).
Codes of SNOMED's retired kind (SRT) are given as they are written today.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from highdicom.color import CIELabColor
from pydicom.config import disable_value_validation
from pydicom.dataset import Dataset
from pydicom.pixels import iter_pixels
from pydicom.sr._snomed_dict import mapping as snomed

from ..structures import Code
from .derived import opened
from .planes import Planes, functional_groups, same_frame_of_reference

SRT: dict[str, str] = snomed["SRT"]


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
    with opened(path, "SEG", "SegmentSequence") as dataset:
        described = {int(item.SegmentNumber): item for item in dataset.SegmentSequence}
        described.pop(0, None)  # the background of a label map
        wanted = list(described) if segments is None else list(segments)
        if not set(wanted) <= set(described):
            raise ValueError(
                f"{path}: has the segments {sorted(described)}, not {sorted(set(wanted) - set(described))}"
            )
        labels = _label_map(path, dataset, _slices(path, dataset, source), wanted)
        return Segmentation(labels, {number: _segment(described[number]) for number in wanted})


@disable_value_validation()
def read_probabilities(path: Path, source: Sequence[Dataset]) -> np.ndarray:
    """Read a fractional DICOM SEG whole, `(slices, rows, columns, segments)` float32 from 0 to 1.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no fractional segmentation, or does not lie on the slices of `source`.
    """
    with opened(path, "SEG", "SegmentSequence") as dataset:
        if dataset.SegmentationType != "FRACTIONAL":
            raise ValueError(f"{path}: is a {dataset.SegmentationType} segmentation, which holds no probabilities")
        wanted = [int(item.SegmentNumber) for item in dataset.SegmentSequence]
        planes = _slices(path, dataset, source)
        shares = np.zeros((len(planes.positions), *planes.shape, len(wanted)), np.float32)
        for at, number, values in _frames(path, dataset, planes, wanted):
            shares[at, ..., wanted.index(number or 0)] = values / np.float32(dataset.MaximumFractionalValue)
        return shares


def _slices(path: Path, dataset: Dataset, source: Sequence[Dataset]) -> Planes:
    """The slices of the series, on which the frames of a segmentation must lie."""
    planes = Planes.of(source)
    if not same_frame_of_reference(dataset, source[0]):
        raise ValueError(f"{path}: has another frame of reference than the series")
    if not Planes.of([dataset]).fits(planes):
        raise ValueError(f"{path}: has frames of another direction, voxel size or shape than the slices of the series")
    return planes


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


def _frames(
    path: Path, dataset: Dataset, planes: Planes, wanted: Sequence[int]
) -> Iterator[tuple[int, int | None, np.ndarray]]:
    """Slice, segment (None in a label map, which holds them all) and values of each frame of the segments wanted."""
    places = Planes.of([dataset]).positions
    numbers = [_segment_number(groups) for groups in functional_groups([dataset])]
    kept = [at for at, number in enumerate(numbers) if number is None or number in wanted]
    for at, values in zip(kept, _pixels(dataset, kept), strict=True):
        yield planes.find(places[at]), numbers[at], values


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
