"""A damaged object is read or refused on one line, whatever is wrong with it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.dicom.segmentation import write_segmentation
from fredholm.pipelines.dicom.segments import read_segmentation
from fredholm.pipelines.dicom.structure_set import read_structure_set, write_structure_set
from helpers.slices import ALGORITHM, NAMES, label_map, series
from pydicom import dcmread

PREAMBLE = 132  # bytes before the first element
OBJECTS: dict[str, tuple[Callable, Callable, dict]] = {
    "binary": (write_segmentation, read_segmentation, {"kind": "binary"}),
    "labelmap": (write_segmentation, read_segmentation, {"kind": "labelmap"}),
    "contours": (write_structure_set, read_structure_set, {}),
}


@pytest.mark.parametrize("what", OBJECTS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # pydicom tells of much that it meets
def test_mutated_and_truncated_files_raise_nothing_else(tmp_path: Path, what: str) -> None:
    write, read, options = OBJECTS[what]
    path, source, rng = tmp_path / "file.dcm", series(), np.random.default_rng(0)
    write(path, source, label_map(), NAMES, ALGORITHM, **options)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    refused = 0
    for number in range(100):
        bytes_ = whole.copy()
        bytes_[rng.integers(PREAMBLE, min(len(whole), 6000), 4)] = rng.integers(0, 256, 4)
        path.write_bytes(bytes_[: rng.integers(1, len(whole)) if number % 4 == 0 else len(whole)].tobytes())
        try:
            read(path, source)
        except (OSError, ValueError):
            refused += 1
    assert 10 < refused < 100


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        (["SegmentSequence"], "is no SEG object"),
        (["SharedFunctionalGroupsSequence"], "has no ImageOrientationPatient"),
        (["PerFrameFunctionalGroupsSequence"], "where it lies is not known"),
        (["PixelData"], "is damaged: AttributeError"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, keywords: Sequence[str], words: str) -> None:
    path, source = tmp_path / "seg.dcm", series()
    write_segmentation(path, source, label_map(), NAMES, ALGORITHM)
    dataset = dcmread(path)
    for keyword in keywords:
        delattr(dataset, keyword)
    dataset.save_as(path)
    with pytest.raises(ValueError, match=words):
        read_segmentation(path, source)
