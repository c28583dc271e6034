"""What `predict` labels, image files or DICOM series: each is read, and its labels written, in its own way."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from ...pipelines.images import check_target, files_of, images_in, read_channels, stem, write_labels
from ...pipelines.layouts import channels_of, grouped
from ...pipelines.run import Run
from ...pipelines.volume import Volume
from ..extras import extra

Label = Callable[[Volume], np.ndarray]
Output = Literal["nifti", "dicom-seg", "both", "rtstruct"]


class Scan(Protocol):
    """Something to label."""

    @property
    def name(self) -> str:
        """As messages and pages call it."""
        ...

    @property
    def sources(self) -> Sequence[Path]:
        """The files that it is read from."""
        ...

    @property
    def targets(self) -> Sequence[Path]:
        """The files for its labels; what else is written lies beside the first."""
        ...

    def write(self, label: Label) -> tuple[Volume, np.ndarray]:
        """Read it, label it and write the labels; what was labelled, and the labels on its voxels."""
        ...


@dataclass(frozen=True)
class DicomOptions:
    """What can be chosen for DICOM series."""

    series: str | None = None
    """The one to take, by its UID or as `fredholm scanner look` names it, where there are several."""

    output: Output | None = None
    """What is written of a series: a label map, a DICOM SEG, both, or an RT structure set. If not given, what the name
    of the file ends in, and label maps in a folder."""

    segmentation: Literal["binary", "labelmap", "fractional"] = "binary"
    """Kind of a DICOM SEG; every program reads binary, few read labelmap, which is small."""


@dataclass(frozen=True)
class ImageScan:
    """An image, a file for each channel, whose label map is one too."""

    paths: tuple[Path, ...]
    target: Path
    assume: str | None

    @property
    def name(self) -> str:
        """The name of its first file."""
        return self.paths[0].name

    @property
    def sources(self) -> Sequence[Path]:
        """Its files, and those of their voxels if they are apart."""
        return [file for path in self.paths for file in files_of(path)]

    @property
    def targets(self) -> Sequence[Path]:
        """The label map."""
        return [self.target]

    def write(self, label: Label) -> tuple[Volume, np.ndarray]:
        """Write a label map with the header of the scan."""
        volume = read_channels(self.paths, assume=self.assume)
        labels = label(volume)
        write_labels(self.target, labels, like=volume)
        return volume, labels


def scans_in(source: Path, out: str, run: Run, assume: str | None, dicom: DicomOptions) -> Sequence[Scan]:
    """The scans at `source`, each with its place.

    Args:
        source: An image, or a folder of images or of DICOM files.
        out: The file for the labels; or the folder for them, which is made if need be: one that is there, ends in a
            slash or has no ending.
        run: What labels them.
        assume: Axis order of images that do not state theirs.
        dicom: What can be chosen for DICOM series.

    Raises:
        OSError: There is none, or no place for one.
        ValueError: A place is another scan's, or its name does not fit what is written.
    """
    if source.is_dir() and not images_in(source):
        with extra("scanner"):
            from .series import series_in
        return series_in(source, Path(out), run, dicom)
    if dicom != DicomOptions():
        raise ValueError(f"{source}: is or holds images; --series, --output and --segmentation are for DICOM series")
    scans = [ImageScan(*pair, assume) for pair in _pairs(source, out, len(run.plan.channels))]
    for scan in scans:
        check_target(scan.target)
    return scans


def _pairs(source: Path, out: str, channels: int) -> Iterator[tuple[tuple[Path, ...], Path]]:
    """The files of images, one for each channel, and the files for their label maps."""
    target = Path(out)
    if source.is_dir():
        if target.resolve() == source.resolve():
            raise ValueError(f"the label maps would overwrite the scans: give another -o than {target}")
        target.mkdir(parents=True, exist_ok=True)
        if channels == 1:
            yield from (((scan,), target / scan.name) for scan in images_in(source))
            return
        for case, paths in grouped({stem(scan): scan for scan in images_in(source)}, channels).items():
            yield paths, target / f"{case}{paths[0].name.removeprefix(stem(paths[0]))}"
        return
    if not source.exists():
        raise FileNotFoundError(f"no such file: {source}")
    if not target.exists() and (out.endswith("/") or not target.suffix):
        target.mkdir(parents=True)
    if target.is_dir():
        target = target / source.name
    if target.resolve() == source.resolve():
        raise ValueError(f"the label map would overwrite the scan: give another -o than {target}")
    yield channels_of(source, channels), target
