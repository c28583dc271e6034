"""What all objects that are derived from a series share: its identity, numbers for labels, who made them, opening."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from pydicom import dcmread
from pydicom.dataset import Dataset
from pydicom.errors import InvalidDicomError
from pydicom.uid import generate_uid

from ..classes import few
from .planes import Planes

TEXT = 64  # characters that a text of type LO holds
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

    @classmethod
    def of(cls, run: Path) -> "Algorithm":
        """That of a run, named like its folder, in this package's version."""
        return cls(run.resolve().name, version("fredholm"))


@contextmanager
def opened(path: Path, modality: str, holds: str) -> Iterator[Dataset]:
    """Read an object, and name the file if it turns out to be damaged while it is looked at.

    Args:
        path: The file.
        modality: What it must be.
        holds: Keyword of the sequence that it must have.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no DICOM file, damaged, or something else.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        dataset = dcmread(path)
        found = dataset.get("Modality")
        if found != modality or holds not in dataset:
            raise ValueError(f"{path}: is no {modality} object but {found or 'of an unknown modality'}")
        yield dataset
    except InvalidDicomError as error:
        raise ValueError(f"{path}: is no DICOM file") from error
    except (OSError, ValueError):
        raise
    except Exception as error:  # pydicom lets through whatever its parsers meet: struct.error, KeyError, EOFError ...
        raise ValueError(f"{path}: is damaged: {type(error).__name__}: {error}") from error


def check_labels(labels: np.ndarray, planes: Planes) -> None:
    """Refuse what is no label map on these slices with a ValueError."""
    expected = (len(planes.positions), *planes.shape)
    if labels.dtype.kind not in "iu" or labels.shape != expected:
        raise ValueError(f"labels are integers of shape {expected}, these are {labels.dtype} of shape {labels.shape}")


def numbered(labels: np.ndarray, names: Mapping[int, str]) -> tuple[dict[int, int], np.ndarray]:
    """Number the labels that are there from 1 without gaps, in their order.

    Args:
        labels: Integers from zero up.
        names: Of the labels that may be there; 0 needs none.

    Returns:
        The number of each label that is there, and the labels so numbered, in the smallest type.

    Raises:
        ValueError: A label has no name.
    """
    values = np.unique(labels)
    unknown = [value for value in values.tolist() if value != 0 and value not in names]
    if unknown:
        raise ValueError(f"label values {few(unknown)} have no name; known are {few(names)}")
    found = [value for value in values.tolist() if value]
    table = np.zeros(int(values[-1]) + 1, np.min_scalar_type(len(found)))
    table[found] = range(1, len(found) + 1)
    return {label: at for at, label in enumerate(found, 1)}, table[labels]


def complete_header(image: Dataset, step_mm: float) -> Dataset:
    """Copy the header of an image and add what an object derived from it must hold, if only as nothing.

    Args:
        image: It is not changed.
        step_mm: Distance between slices, for a slice that does not say how thick it is.
    """
    header = Dataset()
    header.update(image)
    if "file_meta" in vars(image):
        header.file_meta = image.file_meta
    for keyword in EMPTY_IF_ABSENT:
        if keyword not in header:
            put(header, keyword, None)
    if header.PatientSex not in ("M", "F", "O"):
        put(header, "PatientSex", None)
    if "PerFrameFunctionalGroupsSequence" not in header and not header.get("SliceThickness"):
        put(header, "SliceThickness", step_mm)
    if not header.get("FrameOfReferenceUID"):  # the same one for the same series
        put(header, "FrameOfReferenceUID", generate_uid(entropy_srcs=["frame", str(image.SeriesInstanceUID)]))
    return header


def put(header: Dataset, keyword: str, value: object) -> None:
    """Set a value in a copy; set in place it would reach the original, whose elements the copy shares."""
    header.pop(keyword, None)
    setattr(header, keyword, value)


def tracking_uid(image: Dataset, name: str) -> str:
    """The same one for the same structure of the same series, whenever it is labelled."""
    return generate_uid(entropy_srcs=[str(image.get("SeriesInstanceUID")), name])


def long_string(words: str) -> str:
    """The words as a text of type LO can hold them."""
    return words.replace("\\", "/")[:TEXT]
