"""The planes that a file holds: one, or one per frame, each with its place and the meaning of its numbers.

A single-frame image says everything at the top of its data set; a multi-frame one in functional groups, one for all
frames and one for each, of which the frame's own wins. Positions are DICOM's: millimetres in LPS+ (x to the patient's
left, y to the back, z to the head), of the centre of a plane's first pixel.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydicom.dataset import Dataset, FileDataset

from .file import UNCOMPRESSED, DamagedFileError, Header, parsing

CT_CLASSES = {
    "1.2.840.10008.5.1.4.1.1.2": "CT",
    "1.2.840.10008.5.1.4.1.1.2.1": "Enhanced CT",
    "1.2.840.10008.5.1.4.1.1.2.2": "Legacy Converted Enhanced CT",
}
GROUPS = {  # of the multi-frame form: where each element lies
    "ImagePositionPatient": "PlanePositionSequence",
    "ImageOrientationPatient": "PlaneOrientationSequence",
    "PixelSpacing": "PixelMeasuresSequence",
    "SliceThickness": "PixelMeasuresSequence",
    "SpacingBetweenSlices": "PixelMeasuresSequence",
    "RescaleSlope": "PixelValueTransformationSequence",
    "RescaleIntercept": "PixelValueTransformationSequence",
    "RescaleType": "PixelValueTransformationSequence",
    "FrameType": "CTImageFrameTypeSequence",
    "TemporalPositionIndex": "FrameContentSequence",
    "FrameAcquisitionNumber": "FrameContentSequence",
    "StackID": "FrameContentSequence",
}
MOMENTS = ("AcquisitionNumber", "TemporalPositionIdentifier", "EchoNumbers", "ConvolutionKernel", "KVP")
FRAME_MOMENTS = ("TemporalPositionIndex", "FrameAcquisitionNumber")


@dataclass(frozen=True)
class Instance:
    """A file and who it is.

    Args:
        path: Where it lies.
        sop_uid: Its SOP instance UID; empty if nothing tells.
        sop_class: Its SOP class UID.
        series_uid: The series it says it belongs to; empty if it does not.
        study_uid: The study.
        frame_of_reference: The patient's coordinate system.
        modality: Such as `CT`.
        series_number: The series' number on the scanner.
        description: The series' description; it may hold anything that a person typed.
        transfer_syntax: UID of how the pixels are kept.
        repairs: What was mended on reading.
    """

    path: Path
    sop_uid: str
    sop_class: str
    series_uid: str
    study_uid: str
    frame_of_reference: str
    modality: str
    series_number: str
    description: str
    transfer_syntax: str
    repairs: tuple[str, ...]


@dataclass(frozen=True)
class Slice:
    """One plane.

    Args:
        instance: Its file.
        frame: Its place in the file, from 0.
        rows: Pixels down.
        columns: Pixels across.
        samples: Numbers per pixel; 1 but for coloured pictures.
        image_type: Such as `("ORIGINAL", "PRIMARY", "AXIAL")`.
        position: Centre of the first pixel, LPS mm; like the next two, fewer numbers or NaN where the file is wrong.
        orientation: Direction cosines along a row, then down a column, LPS.
        pixel_spacing: mm between rows, then between columns.
        thickness_mm: Its thickness, else the distance to its neighbours, as the file says; NaN where it does not.
        rescale: Slope and intercept, which turn stored numbers into HU; None where the file says nothing of either.
        has_lut: Whether a table in the file does that instead.
        unit: Of the result, as the file calls it; empty if it does not.
        padding: First and last stored number that stands for no measurement, or None.
        stack: Which of the stacks of a multi-frame file it belongs to; empty in single-frame files.
        moment: What tells apart two passes over the same place.
    """

    instance: Instance
    frame: int
    rows: int
    columns: int
    samples: int
    image_type: tuple[str, ...]
    position: tuple[float, ...]
    orientation: tuple[float, ...]
    pixel_spacing: tuple[float, ...]
    thickness_mm: float
    rescale: tuple[float, float] | None
    has_lut: bool
    unit: str
    padding: tuple[int, int] | None
    stack: str
    moment: tuple[str, ...]

    @property
    def is_placed(self) -> bool:
        """Whether position, orientation and pixel size are all there, as finite numbers."""
        counts = (len(self.position), len(self.orientation), len(self.pixel_spacing)) == (3, 6, 2)
        finite = all(map(math.isfinite, (*self.position, *self.orientation, *self.pixel_spacing)))
        return counts and finite and min(self.pixel_spacing) > 0


def instance_of(path: Path, header: Header) -> Instance:
    """Who a file is.

    Raises:
        DamagedFileError: An element cannot be read.
    """
    dataset = header.dataset
    with parsing():
        return Instance(
            path=path,
            sop_uid=_text(dataset, "SOPInstanceUID"),
            sop_class=_text(dataset, "SOPClassUID"),
            series_uid=_text(dataset, "SeriesInstanceUID"),
            study_uid=_text(dataset, "StudyInstanceUID"),
            frame_of_reference=_text(dataset, "FrameOfReferenceUID"),
            modality=_text(dataset, "Modality"),
            series_number=_text(dataset, "SeriesNumber"),
            description=_text(dataset, "SeriesDescription"),
            transfer_syntax=str(dataset.file_meta.TransferSyntaxUID),
            repairs=header.repairs,
        )


def slices_of(instance: Instance, header: Header) -> list[Slice]:
    """The planes of an image, in the order of its frames.

    Frames without functional groups have no place of their own: they are told as one slice without a place.

    Raises:
        DamagedFileError: The header contradicts itself, or the pixels are fewer than it says.
    """
    dataset = header.dataset
    with parsing():
        count = _whole(dataset, "NumberOfFrames", 1)
        _check_length(dataset, count, header.pixel_bytes)
        groups = dataset.get("PerFrameFunctionalGroupsSequence")
        if groups is not None and len(groups) != count:
            raise DamagedFileError(f"it has {count} frames and tells the places of {len(groups)}")
        if groups is None and count > 1:
            return [replace(_slice(instance, dataset, 0), position=())]
        return [_slice(instance, dataset, frame) for frame in range(count)]


def _check_length(dataset: FileDataset, count: int, found: int) -> None:
    if not found:
        raise DamagedFileError("it is a CT image without pixels")
    pixels = count * _whole(dataset, "Rows") * _whole(dataset, "Columns") * _whole(dataset, "SamplesPerPixel", 1)
    expected = pixels * _whole(dataset, "BitsAllocated") // 8
    if dataset.file_meta.TransferSyntaxUID in UNCOMPRESSED and found < expected:
        raise DamagedFileError(f"it has {found} bytes of pixels where its header speaks of {expected}")


def _slice(instance: Instance, dataset: Dataset, frame: int) -> Slice:
    def of(name: str) -> Dataset:
        return _group(dataset, frame, name)

    thicknesses = [_numbers(of(name), name, (math.nan,))[0] for name in ("SliceThickness", "SpacingBetweenSlices")]
    names = FRAME_MOMENTS if "PerFrameFunctionalGroupsSequence" in dataset else MOMENTS
    return Slice(
        instance=instance,
        frame=frame,
        rows=_whole(dataset, "Rows"),
        columns=_whole(dataset, "Columns"),
        samples=_whole(dataset, "SamplesPerPixel", 1),
        image_type=_texts(of("FrameType"), "FrameType") or _texts(dataset, "ImageType"),
        position=_numbers(of("ImagePositionPatient"), "ImagePositionPatient"),
        orientation=_numbers(of("ImageOrientationPatient"), "ImageOrientationPatient"),
        pixel_spacing=_numbers(of("PixelSpacing"), "PixelSpacing"),
        thickness_mm=next((mm for mm in thicknesses if 0 < mm < math.inf), math.nan),
        rescale=_rescale(of("RescaleSlope")),
        has_lut="ModalityLUTSequence" in dataset,
        unit=_text(of("RescaleType"), "RescaleType"),
        padding=_padding(dataset),
        stack=_text(of("StackID"), "StackID"),
        moment=tuple(_text(of(name), name) for name in names),
    )


def _group(dataset: Dataset, frame: int, name: str) -> Dataset:
    """The data set that has an element: a frame's own functional group, the shared one, or the top."""
    sequence = GROUPS.get(name)
    own, shared = dataset.get("PerFrameFunctionalGroupsSequence"), dataset.get("SharedFunctionalGroupsSequence")
    for groups in ([own[frame]] if own else []) + ([shared[0]] if shared else []):
        if sequence and groups.get(sequence):
            return groups[sequence][0]
    return dataset if own is None else Dataset()


def _rescale(dataset: Dataset) -> tuple[float, float] | None:
    slope, intercept = _numbers(dataset, "RescaleSlope"), _numbers(dataset, "RescaleIntercept")
    return ((*slope, 1.0)[0], (*intercept, 0.0)[0]) if slope or intercept else None


def _padding(dataset: Dataset) -> tuple[int, int] | None:
    value = _numbers(dataset, "PixelPaddingValue")
    if not value or not math.isfinite(value[0]):
        return None
    limit = _numbers(dataset, "PixelPaddingRangeLimit", value)
    # written with the wrong sign by some: the bits are what counts
    bits = int(_numbers(dataset, "BitsAllocated", (16.0,))[0])
    signed = bool(_numbers(dataset, "PixelRepresentation", (0.0,))[0])
    first, last = sorted(_as_stored(int(number), bits, signed) for number in (value[0], limit[0]))
    return first, last


def _as_stored(number: int, bits: int, signed: bool) -> int:
    number %= 1 << bits
    return number - (1 << bits) if signed and number >= 1 << (bits - 1) else number


def _numbers(dataset: Dataset, name: str, absent: Sequence[float] = ()) -> tuple[float, ...]:
    """The numbers of an element; `absent` if it is missing or empty, NaN if it holds none."""
    try:
        value = dataset.get(name)
        if value is None or value == "" or (not isinstance(value, str | float | int) and len(value) == 0):
            return tuple(absent)
        return tuple(float(one) for one in ([value] if isinstance(value, str | float | int) else value))
    except (TypeError, ValueError, OverflowError):
        return (math.nan,)


def _whole(dataset: Dataset, name: str, absent: int | None = None) -> int:
    """A whole number from 1 up."""
    value = _numbers(dataset, name, () if absent is None else (absent,))
    if len(value) != 1 or not value[0] >= 1:
        raise DamagedFileError(f"its {name} is {dataset.get(name)!r}")
    return int(value[0])


def _text(dataset: Dataset, name: str) -> str:
    return "\\".join(_texts(dataset, name))


def _texts(dataset: Dataset, name: str) -> tuple[str, ...]:
    value = dataset.get(name)
    if value is None:
        return ()
    values = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else value
    return tuple(str(one).strip() for one in values)
