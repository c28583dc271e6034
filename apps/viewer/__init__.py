"""A page that shows a labelled scan, and a contact sheet for where no such page can run.

The page is one HTML file: the scan and its labels as small NIfTI previews, NiiVue to draw them (see
`niivue.LICENSE.txt`), and the names and volumes of the structures. It asks nothing of any network, and its content
policy forbids it to; it works from a folder as well as from a server. Radiological convention: the patient's right is
on the left. Volumes are those of the full label map, whatever the preview's spacing.
"""

import base64
import gzip
import html
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from string import Template

import nibabel as nib
import numpy as np

from ...pipelines.files import replacing, write_text
from ...pipelines.pictures import contact_figure, overlay_figure, png_bytes
from ...pipelines.resample import resample_image, resample_labels, resampled_shape
from ...pipelines.statistics import Measured, measure
from ...pipelines.structures import structure
from ...pipelines.volume import Volume, canonical
from ..report import Picture, Section, Table, write_report

PREVIEW_VOXELS = 1_500_000  # what a browser without a graphics card shows within two seconds
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; connect-src data:"
)


@dataclass(frozen=True, eq=False)
class LabelledScan:
    """What there is to show.

    Args:
        title: Heading of the pages; it may hold anything, it is escaped.
        scan: Hounsfield units.
        labels: Integers from zero up on the voxels of `scan`, in its axis order.
        names: Of the labels; one without a name is shown by its number.

    Raises:
        ValueError: The labels do not have the shape of the scan.
    """

    title: str
    scan: Volume
    labels: np.ndarray
    names: Mapping[int, str]

    def __post_init__(self) -> None:
        if self.labels.shape != self.scan.shape:
            raise ValueError(f"labels of shape {self.labels.shape} do not fit a scan of shape {self.scan.shape}")

    @cached_property
    def measured(self) -> dict[int, Measured]:
        """What is measured of each label that is there, by label."""
        return measure(self.scan, self.labels)

    @property
    def volumes_ml(self) -> dict[int, float]:
        """Millilitres of each label that is there, by label."""
        return {label: one.volume_ml for label, one in self.measured.items()}

    def name(self, label: int) -> str:
        """Of a label, or its number."""
        return self.names.get(label, str(label))


def write_views(folder: Path, stem: str, case: LabelledScan) -> tuple[Path, Path]:
    """Write the page `stem.html` and the contact sheet `stem_sheet.html`, and return their paths.

    Raises:
        OSError: A file cannot be written.
    """
    page, sheet = folder / f"{stem}.html", folder / f"{stem}_sheet.html"
    write_page(page, case)
    write_contact_sheet(sheet, case)
    return page, sheet


def write_page(path: Path, case: LabelledScan) -> None:
    """Write the page that a browser shows.

    Raises:
        OSError: The file cannot be written.
    """
    scan, labels = _preview(case)
    structures = [_structure(case, label, at, labels) for at, label in enumerate(case.volumes_ml, 1)]
    content = {"scan": _nifti(scan), "labels": _nifti(labels), "structures": structures}
    step = " x ".join(f"{spacing:.1f}" for spacing in scan.spacing_mm)
    parts = {
        name: files(__name__).joinpath(name).read_text("utf-8") for name in ("page.html", "page.js", "niivue.umd.js")
    }
    page = Template(parts["page.html"]).substitute(
        policy=POLICY,
        title=html.escape(case.title),
        caption="Volumes in ml" if structures else "No structure was found.",
        preview=f"A preview of {step} mm; the volumes are those of the full label map.",
        case=json.dumps(content).replace("<", "\\u003c"),  # a name must not end the script
        niivue=parts["niivue.umd.js"],
        script=parts["page.js"],
    )
    write_text(path, page)


def write_contact_sheet(path: Path, case: LabelledScan) -> None:
    """Write axial slices and the volumes as a page without scripts.

    Raises:
        OSError: The file cannot be written.
    """
    scan, labels = canonical(case.scan), canonical(replace(case.scan, array=case.labels))
    sheet = png_bytes(contact_figure(scan.array, labels.array, scan.spacing_mm, case.names))
    rows = [[case.name(label), volume] for label, volume in case.volumes_ml.items()]
    table = Table(["structure", "ml"], rows, "Volumes in millilitres.", digits=1) if rows else "No structure was found."
    picture = Picture(
        sheet, "Axial slices with the labels on top", "From the feet up; the patient's right is on the left."
    )
    write_report(path, case.title, [Section("Slices", [picture]), Section("Volumes", [table])])


def write_preview(path: Path, case: LabelledScan) -> None:
    """Write an axial, a coronal and a sagittal slice with the labels on top, as a PNG file.

    Raises:
        OSError: The file cannot be written.
    """
    scan, labels = canonical(case.scan), canonical(replace(case.scan, array=case.labels))
    picture = png_bytes(overlay_figure(scan.array, labels.array, scan.spacing_mm, case.names))
    with replacing(path) as beside:
        beside.write_bytes(picture)


def _preview(case: LabelledScan) -> tuple[Volume, Volume]:
    """The scan and its labels, numbered from 1 without gaps, in RAS+ axis order and not too fine for a browser."""
    scan = canonical(case.scan)
    numbers = np.zeros(int(case.labels.max()) + 1, np.min_scalar_type(len(case.volumes_ml)))
    numbers[list(case.volumes_ml)] = np.arange(1, len(case.volumes_ml) + 1)
    labels = canonical(replace(case.scan, array=numbers[case.labels]))
    coarse = resample_image(scan, _preview_spacing(scan))
    hu = np.rint(coarse.array.clip(-1024, 3071)).astype(np.int16)
    return replace(coarse, array=hu), replace(coarse, array=resample_labels(labels.array, coarse.shape))


def _preview_spacing(scan: Volume) -> list[float]:
    """Millimetres along each axis with at most `PREVIEW_VOXELS`: cubes where the scan is fine enough, else its own."""
    finest = 0.0
    while True:
        spacing = [max(own, finest) for own in scan.spacing_mm]
        if math.prod(resampled_shape(scan, spacing)) <= PREVIEW_VOXELS:
            return spacing
        finest = max(finest * 1.02, min(scan.spacing_mm))


def _structure(case: LabelledScan, label: int, at: int, preview: Volume) -> dict[str, object]:
    """What the page says of a label that has number `at` in the preview."""
    name = case.name(label)
    place = _place(preview.array == at, preview.affine)
    if place is None:  # too small for the preview
        place = _place(case.labels == label, case.scan.affine)
    return {"name": name, "rgb": structure(name).rgb, "ml": case.volumes_ml[label], "place": place}


def _place(mask: np.ndarray, affine: np.ndarray) -> list[float] | None:
    """The voxel of a mask that is nearest to its middle, in RAS+ mm; None if it is empty."""
    inside = np.argwhere(mask)
    if not len(inside):
        return None
    nearest = inside[np.linalg.norm(inside - inside.mean(axis=0), axis=1).argmin()]
    return (affine[:3, :3] @ nearest + affine[:3, 3]).tolist()


def _nifti(volume: Volume) -> str:
    """A compressed NIfTI file in base64."""
    data = nib.Nifti1Image(volume.array, volume.affine).to_bytes()
    return base64.b64encode(gzip.compress(data, compresslevel=6, mtime=0)).decode("ascii")
