"""A small series as it arrives, without a network."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from fredholm.pipelines.gateway.arrival import Arrival
from fredholm.pipelines.gateway.completeness import Arrivals
from fredholm.pipelines.gateway.journal import Journal
from fredholm.pipelines.gateway.spool import Limits, Spool
from pydicom import Dataset, dcmread
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_dataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, ImplicitVRLittleEndian

LIMITS = Limits(object_bytes=1 << 20, free_bytes=1)
SECRETS = ("Doe^Jane", "19700101", "Elm Street 5", "PAT-4711")


def uid(*numbers: int) -> str:
    return "1.2.826.0.1.3680043.10.1561." + ".".join(map(str, numbers))


def ct(series: int, number: int, side: int = 8) -> Dataset:
    """A CT slice at `number` mm with a patient's name, birth date, address and number in it."""
    slice_ = Dataset()
    slice_.SOPClassUID, slice_.SOPInstanceUID = CTImageStorage, uid(series, number)
    slice_.StudyInstanceUID, slice_.SeriesInstanceUID = uid(9000 + series), uid(series)
    slice_.FrameOfReferenceUID = uid(8000 + series)
    slice_.PatientName, slice_.PatientBirthDate, slice_.PatientAddress, slice_.PatientID = SECRETS
    slice_.PatientSex = slice_.AccessionNumber = slice_.StudyID = slice_.StudyDate = slice_.StudyTime = ""
    slice_.ReferringPhysicianName = slice_.Manufacturer = slice_.PositionReferenceIndicator = ""
    slice_.Modality, slice_.SeriesNumber, slice_.InstanceNumber = "CT", 1, number
    slice_.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    slice_.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    slice_.ImagePositionPatient, slice_.PixelSpacing = [0, 0, number], [1, 1]
    slice_.SliceThickness, slice_.KVP, slice_.AcquisitionNumber = 1, 120, 1
    slice_.Rows = slice_.Columns = side
    slice_.SamplesPerPixel, slice_.PhotometricInterpretation = 1, "MONOCHROME2"
    slice_.BitsAllocated, slice_.BitsStored, slice_.HighBit, slice_.PixelRepresentation = 16, 16, 15, 1
    slice_.RescaleSlope, slice_.RescaleIntercept, slice_.RescaleType = 1, 0, "HU"
    slice_.PixelData = np.full((side, side), number, np.int16).tobytes()
    slice_["PixelData"].VR = "OW"
    return slice_


def encoded(dataset: Dataset, syntax: str = ExplicitVRLittleEndian) -> bytes:
    file = DicomBytesIO()
    file.is_little_endian, file.is_implicit_VR = True, syntax == ImplicitVRLittleEndian
    write_dataset(file, dataset)
    return file.getvalue()


def arrival(dataset: Dataset, syntax: str = ExplicitVRLittleEndian) -> Arrival:
    return Arrival.read(dataset.SOPClassUID, dataset.SOPInstanceUID, syntax, encoded(dataset, syntax))


def spool(folder: Path, limits: Limits = LIMITS, ready_bytes: int = 0) -> Spool:
    _spools.append(Spool(folder / "spool", limits, ready_bytes))
    return _spools[-1]


_spools: list[Spool] = []


def close_spools() -> None:
    """As the end of the process would."""
    while _spools:
        _spools.pop().close()


def bring(spool: Spool, series: int, numbers: Iterable[int], *, association: str = "a", now: float = 0.0) -> None:
    for number in numbers:
        spool.keep(arrival(ct(series, number)), association, now)


def brought(spool: Spool, series: int, numbers: Iterable[int], *, now: float = 0.0) -> None:
    bring(spool, series, numbers, now=now)
    Arrivals(spool).released("a")


def without_gaps(folder: Path) -> None:
    """A check of the slices' places, as strict as these tests need."""
    numbers = sorted(int(dcmread(path).InstanceNumber) for path in folder.iterdir())
    if np.any(np.diff(numbers) != 1):
        raise ValueError(f"MISSING_SLICES: {numbers}")


def kept(spool: Spool) -> list[str]:
    """The objects that are on the disk, whatever the index says."""
    return sorted(on_disk(spool.root))


def on_disk(root: Path) -> dict[str, Dataset]:
    """The objects of a spool, in files of their own or in journals."""
    found = {path.stem: stored(path) for path in (root / "series").rglob("*.dcm")}
    with TemporaryDirectory() as folder:
        for path in (root / "journal").glob("*.journal"):
            with path.open("rb", buffering=0) as file:
                journal = Journal(path, file)
                for number, record in enumerate(journal.records()):
                    if journal.copy(record, Path(folder, f"{path.stem}{number}")):
                        found[record.uid] = stored(Path(folder, f"{path.stem}{number}"))
    return found


def stored(path: Path) -> Dataset:
    return dcmread(BytesIO(path.read_bytes()))
