"""CT series made for tests: their Hounsfield units tell where each voxel lies in the patient."""

import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import UID, CTImageStorage, EnhancedCTImageStorage, ExplicitVRLittleEndian, generate_uid

HU_PER_MM = np.array([1.0, 0.7, -1.3])  # along RAS+ x, y, z: no permutation or flip leaves it as it is
SLOPE = 0.1
AFFINE = np.array([[-0.8, 0, 0, 10], [0, -0.9, 0, 20], [0, 0, 2.5, -30], [0, 0, 0, 1]])  # (column, row, slice) to RAS+
SHAPE = (7, 6, 5)  # columns, rows, slices
FRAME = generate_uid(entropy_srcs=["frame of reference"])


def _unwarned(function: Callable) -> Callable:
    """Let tests write what no scanner should."""

    @functools.wraps(function)
    def silent(*args: object, **tags: object) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **tags)

    return silent


def place_hu(affine: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """HU that a volume of this place must have, `(column, row, slice)`."""
    indices = np.moveaxis(np.indices(tuple(shape)), 0, -1)
    return (indices @ affine[:3, :3].T + affine[:3, 3]) @ HU_PER_MM


def ct_series(
    affine: np.ndarray = AFFINE,
    shape: Sequence[int] = SHAPE,
    hu: np.ndarray | None = None,
    rescale: Sequence[tuple[float, float]] = ((SLOPE, 0.0),),
    **tags: object,
) -> list[Dataset]:
    """Single-frame CT images, one per slice of `shape`, in the order of the last axis.

    Args:
        affine: `(4, 4)`, `(column, row, slice)` to RAS+ mm; its first two axes must be perpendicular.
        shape: Columns, rows, slices.
        hu: What the slices hold, `(column, row, slice)`; their place, as `place_hu` says it, if None.
        rescale: Slope and intercept of each slice, in turn.
        tags: Elements by keyword, the same in all slices; None takes one away.
    """
    hu = place_hu(affine, shape) if hu is None else hu
    common = {name: generate_uid() for name in ("StudyInstanceUID", "SeriesInstanceUID")}
    common |= {"FrameOfReferenceUID": FRAME} | tags
    return [_slice(affine, shape, hu[..., k], k, rescale[k % len(rescale)], common) for k in range(shape[2])]


@_unwarned
def save(datasets: Sequence[Dataset], folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Write data sets to files, by default in an order and under names that tell nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, dataset in enumerate(datasets):
        path = folder / (names[number] if names else f"{str(dataset.SOPInstanceUID)[-12:]}.dcm")
        path.parent.mkdir(parents=True, exist_ok=True)
        dataset.save_as(path, enforce_file_format=True)
        paths.append(path)
    return paths


def enhanced(slices: Sequence[Dataset]) -> Dataset:
    """The same planes as frames of one Enhanced CT image, in the order given."""
    first = slices[0]
    dataset = _image(EnhancedCTImageStorage, (first.Columns, first.Rows))
    for name in ("StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID"):
        setattr(dataset, name, first[name].value)
    dataset.ImageType = ["ORIGINAL", "PRIMARY", "VOLUME", "NONE"]
    dataset.NumberOfFrames = len(slices)
    dataset.PixelData = b"".join(one.PixelData for one in slices)
    del dataset.SliceThickness, dataset.AcquisitionNumber, dataset.KVP
    shared = {
        "PixelMeasuresSequence": _item(first, "PixelSpacing", "SliceThickness"),
        "PlaneOrientationSequence": _item(first, "ImageOrientationPatient"),
        "CTImageFrameTypeSequence": _with(Dataset(), FrameType=["ORIGINAL", "PRIMARY", "VOLUME", "NONE"]),
    }
    dataset.SharedFunctionalGroupsSequence = [_grouped(shared)]
    dataset.PerFrameFunctionalGroupsSequence = [_grouped(_own_groups(one, k)) for k, one in enumerate(slices)]
    return dataset


def _own_groups(one: Dataset, k: int) -> dict[str, Dataset]:
    return {
        "PlanePositionSequence": _item(one, "ImagePositionPatient"),
        "PixelValueTransformationSequence": _item(one, "RescaleSlope", "RescaleIntercept", "RescaleType"),
        "FrameContentSequence": _with(Dataset(), StackID="1", InStackPositionNumber=k + 1),
    }


def _item(source: Dataset, *names: str) -> Dataset:
    return _with(Dataset(), **{name: source[name].value for name in names})


def _grouped(groups: dict[str, Dataset]) -> Dataset:
    return _with(Dataset(), **{name: [item] for name, item in groups.items()})


def _slice(
    affine: np.ndarray,
    shape: Sequence[int],
    hu: np.ndarray,
    k: int,
    rescale: tuple[float, float],
    tags: dict[str, object],
) -> Dataset:
    lps = np.diag((-1.0, -1.0, 1.0, 1.0)) @ affine
    dataset = _image(CTImageStorage, shape)
    dataset.InstanceNumber = k + 1
    dataset.ImagePositionPatient = decimals(lps[:3, 3] + k * lps[:3, 2])
    dataset.ImageOrientationPatient = decimals((lps[:3, :2] / np.linalg.norm(lps[:3, :2], axis=0)).T.ravel())
    dataset.PixelSpacing = decimals(np.linalg.norm(lps[:3, 1::-1], axis=0))
    dataset.RescaleSlope, dataset.RescaleIntercept = decimals(rescale)
    dataset.RescaleType = "HU"
    dataset.PixelData = _stored(hu, rescale).tobytes()
    return _with(dataset, **tags)


def _image(sop_class: UID, shape: Sequence[int]) -> Dataset:
    """What any CT image must say."""
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.SOPClassUID = sop_class
    dataset.SOPInstanceUID = generate_uid()
    dataset.PatientName, dataset.PatientID = "Test^Patient", "T1"
    dataset.PatientBirthDate, dataset.PatientSex = "19700101", "O"
    dataset.StudyDate = dataset.SeriesDate = dataset.ContentDate = "20250102"
    dataset.StudyTime = dataset.SeriesTime = dataset.ContentTime = "030405"
    dataset.AccessionNumber = dataset.ReferringPhysicianName = dataset.StudyID = ""
    dataset.Modality, dataset.Manufacturer = "CT", "fredholm tests"
    dataset.SeriesNumber, dataset.AcquisitionNumber = 3, 1
    dataset.SeriesDescription = "synthetic"
    dataset.PatientPosition, dataset.PositionReferenceIndicator = "HFS", ""
    dataset.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    dataset.SliceThickness, dataset.KVP, dataset.BodyPartExamined = 1.0, 120, "CHEST"
    dataset.Columns, dataset.Rows = shape[0], shape[1]
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 16, 16, 15, 1
    return dataset


def _stored(hu: np.ndarray, rescale: tuple[float, float]) -> np.ndarray:
    """`(column, row)` HU as stored numbers, `(row, column)`."""
    slope, intercept = rescale
    return np.rint((hu.T - intercept) / slope).astype("<i2")


def decimals(numbers: Sequence[float] | np.ndarray) -> list[str]:
    """As DICOM keeps them: at most 16 characters each."""
    return [f"{round(float(number), 12):.10g}" for number in numbers]


@_unwarned
def _with(dataset: Dataset, **tags: object) -> Dataset:
    for name, value in tags.items():
        if value is None:
            dataset.pop(name, None)
        else:
            setattr(dataset, name, value)
    return dataset
