"""DICOM segmentations: label maps out, from the very images that were labelled, and back.

A label map is `(slices, rows, columns)`, on the slices of `source` (see `planes`) as they are: nothing is resampled or
turned, so the masks of a tilted gantry or of an uneven series lie on its native slices.

Segments are numbered from 1 without gaps, in the order of the labels that are there; `write_segmentation` returns which
label became which segment. Frames without a voxel are left out, and are zero when read. **No finding** is an object
too: each structure that was looked for is a segment with one empty frame, that of the first slice.

What is written is read back and compared voxel by voxel before it takes its place: a file is there whole and right, or
not at all.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import highdicom as hd
import numpy as np
from highdicom.color import CIELabColor
from highdicom.sr import CodedConcept
from pydicom.config import disable_value_validation
from pydicom.dataset import Dataset
from pydicom.sr.codedict import codes
from pydicom.uid import ExplicitVRLittleEndian, RLELossless, generate_uid

from ..files import replacing
from ..structures import SIDES, Code, Structure, structure
from .derived import Algorithm, check_labels, complete_header, long_string, numbered, put, tracking_uid
from .planes import Planes
from .segments import read_probabilities, read_segmentation

Kind = Literal["binary", "labelmap", "fractional"]
STEPS = 255  # of a probability, from 0 to 1


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
    numbers, stored = _numbered_levels(labels, names) if labels.ndim == 4 else numbered(labels, names)
    described = [structure(names[label]) for label in numbers or names]
    images = [complete_header(image, planes.step_mm) for image in source]
    name = images[0].PatientName
    for image in images:
        put(image, "PatientName", None)  # highdicom warns of names such as STS_019
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
        series_description=long_string(f"{algorithm.name}: segmentation"),
        instance_number=1,
        manufacturer="fredholm",
        manufacturer_model_name="fredholm",
        software_versions=long_string(algorithm.version),
        device_serial_number="none",
        content_label="SEGMENTATION",
        specific_character_set="ISO_IR 192",
    )
    dataset.ContentCreatorName = None  # nobody; but it must be there
    dataset.PatientName = name
    if kind != "binary":  # bits cannot be compressed; and GDCM's encoder, the first choice, aborts on small frames
        dataset.compress(RLELossless, encoding_plugin="pydicom", generate_instance_uid=False)
    with replacing(path) as beside:
        dataset.save_as(beside)
        try:
            _confirm(beside, source, stored)
        except ValueError as error:
            raise OSError(f"{path}: does not read back as it was written, so it is not kept: {error}") from error
    return numbers


def _check(labels: np.ndarray, planes: Planes, names: Mapping[int, str], kind: Kind) -> None:
    if not np.issubdtype(labels.dtype, np.floating):
        check_labels(labels, planes)
    elif kind != "fractional" or labels.shape != (len(planes.positions), *planes.shape, len(names)):
        raise ValueError(f"probabilities of shape {labels.shape} are no {kind} labels of {len(names)} structures")
    elif not (labels.min() >= 0 and labels.max() <= 1):
        raise ValueError(f"probabilities lie from 0 to 1, these from {labels.min()} to {labels.max()}")


def _numbered_levels(shares: np.ndarray, names: Mapping[int, str]) -> tuple[dict[int, int], np.ndarray]:
    """As `numbered`, for probabilities: a structure is there if one of them is half a step or more."""
    levels = np.rint(shares * STEPS).astype(np.uint8)
    there = [at for at in range(len(names)) if levels[..., at].any()]
    found = [list(names)[at] for at in there]
    return {label: at for at, label in enumerate(found, 1)}, levels[..., there or range(len(names))] / STEPS


def _description(number: int, what: Structure, algorithm: Algorithm, image: Dataset) -> hd.seg.SegmentDescription:
    made_by = hd.AlgorithmIdentificationSequence(
        name=long_string(algorithm.name),
        family=codes.DCM.ArtificialIntelligence,
        version=long_string(algorithm.version),
    )
    description = hd.seg.SegmentDescription(
        segment_number=number,
        segment_label=long_string(what.name),
        segmented_property_category=_concept(what.category),
        segmented_property_type=_concept(what.type),
        algorithm_type=hd.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
        algorithm_identification=made_by,
        tracking_id=what.name,
        tracking_uid=tracking_uid(image, what.name),
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


def _confirm(path: Path, source: Sequence[Dataset], stored: np.ndarray) -> None:
    """Refuse a file that does not hold these labels, or levels, on its first slices and nothing on the others."""
    if stored.ndim == 4:
        found, expected = read_probabilities(path, source), stored.astype(np.float32)
    else:
        found, expected = read_segmentation(path, source).labels, stored
    wrong = np.count_nonzero(found[: len(stored)] != expected) + np.count_nonzero(found[len(stored) :])
    if wrong:
        raise ValueError(f"{wrong} voxels differ")
