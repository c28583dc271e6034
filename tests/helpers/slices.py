"""Series without pixels in any geometry, label maps for them, and what a validator says of an object."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
from fredholm.pipelines.dicom.derived import Algorithm
from pydicom import dcmread
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

NAMES = {0: "background", 3: "kidney_left", 4: "spleen", 7: "liver_tumor", 9: "kidney_cyst_left"}
ALGORITHM = Algorithm("run 7", "0.1.0")
AXIAL, CORONAL, OBLIQUE = (1, 0, 0, 0, 1, 0), (1, 0, 0, 0, 0, -1), (0.8, 0.6, 0, 0, 0, -1)
GEOMETRIES = {
    "axial": {},
    "upside down": {"step": (0, 0, -2.5)},
    "feet first": {"orientation": (-1, 0, 0, 0, 1, 0)},
    "coronal": {"orientation": CORONAL, "step": (0, 2.5, 0)},
    "oblique": {"orientation": OBLIQUE, "step": (-1.5, 2, 0)},
    "tilted gantry": {"step": (0, 0.67, 2.5)},
    "one slice": {"slices": 1},
}


def series(
    slices: int = 10, shape=(9, 13), orientation=AXIAL, step=(0.0, 0.0, 2.5), spacing=(0.75, 0.5), **others: object
) -> list[Dataset]:
    """Headers of CT slices; `step` is the way from one to the next, sheared if the gantry was tilted."""
    study, number, frame = (generate_uid() for _ in range(3))
    images = []
    for at in range(slices):
        image = Dataset()
        image.file_meta = FileMetaDataset()
        image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        image.SOPClassUID, image.SOPInstanceUID = CTImageStorage, generate_uid()
        image.StudyInstanceUID, image.SeriesInstanceUID, image.FrameOfReferenceUID = study, number, frame
        image.Modality, image.PatientName, image.PatientID = "CT", "Doe^Jane", "1"
        image.PatientBirthDate, image.PatientSex, image.AccessionNumber = "19700101", "F", ""
        image.StudyID, image.StudyDate, image.StudyTime, image.SeriesNumber = "1", "20200101", "120000", 2
        image.ReferringPhysicianName, image.InstanceNumber, image.PositionReferenceIndicator = "", at + 1, ""
        image.Rows, image.Columns = shape
        image.PixelSpacing, image.SliceThickness = list(spacing), 2.5
        image.ImageOrientationPatient = list(orientation)
        image.ImagePositionPatient = [round(-40 + at * part, 6) for part in step]
        for keyword, value in others.items():
            setattr(image, keyword, value)
        images.append(image)
    return images


def label_map(slices: int = 10, shape=(9, 13)) -> np.ndarray:
    labels = np.random.default_rng(0).choice([0, 3, 7, 9], (slices, *shape), p=[0.7, 0.1, 0.1, 0.1])
    labels[:2] = 0
    return labels


def renumbered(labels: np.ndarray, numbers: dict[int, int]) -> np.ndarray:
    return sum((number * (labels == label) for label, number in numbers.items()), np.zeros_like(labels))


def ct(folder: Path) -> list[Dataset]:
    images = [dcmread(path, stop_before_pixels=True) for path in folder.rglob("*.dcm")]
    return sorted(images, key=lambda image: image.ImagePositionPatient[2])


def nrrd(path: Path) -> np.ndarray:
    return sitk.GetArrayFromImage(sitk.ReadImage(str(path)))


def dciodvfy(path: Path) -> list[str]:
    """What the validator says of a file, without the name of what it takes it for."""
    if shutil.which("dciodvfy") is None:
        pytest.skip("no dciodvfy on this machine (Debian's package dicom3tools)")
    found = subprocess.run(["dciodvfy", str(path)], capture_output=True, text=True, check=False)
    lines = [line for line in (found.stdout + found.stderr).splitlines() if line.strip()]
    assert lines[-1] in ("Segmentation", "RTStructureSet")
    return lines[:-1]
