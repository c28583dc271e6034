"""DICOM series as scans to label; needs the extra `scanner`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...pipelines.dicom import Candidate, Findings, find_series
from ...pipelines.dicom.derived import Algorithm
from ...pipelines.dicom.labelled import LabelledSeries, label_series
from ...pipelines.images import SUFFIXES
from ...pipelines.run import Run
from ...pipelines.volume import Volume
from ..console import note
from .scans import DicomOptions, Label

DICOM = ".dcm"
IN_A_FOLDER = {"nifti": (".nii.gz",), "dicom-seg": (DICOM,), "both": (".nii.gz", DICOM), "rtstruct": ("_rtstruct.dcm",)}
AS_A_FILE = {"nifti": SUFFIXES, "dicom-seg": (DICOM,), "both": (), "rtstruct": (DICOM,)}


@dataclass(frozen=True, eq=False)
class SeriesScan:
    """A series, or what should be one, and the files for its labels."""

    candidate: Candidate
    targets: Sequence[Path]
    run: Run
    options: DicomOptions

    @property
    def name(self) -> str:
        """Its UID, or that it has none; never the patient's."""
        return self.candidate.name or "series without UID"

    @property
    def sources(self) -> Sequence[Path]:
        """Its files."""
        return list(dict.fromkeys(instance.path for instance in self.candidate.instances))

    def write(self, label: Label) -> tuple[Volume, np.ndarray]:
        """Write what was asked for, or raise the reason for which the series cannot be read."""
        if self.candidate.series is None:
            assert self.candidate.refusal is not None
            raise self.candidate.refusal
        done = label_series(self.candidate.series, label, self.run.plan.names, Algorithm.of(self.run.folder))
        for remark in _remarks(done):
            note(f"note: {self.name}: {remark}")
        for path in self.targets:
            self._write(done, path)
        return done.scan, done.labels

    def _write(self, done: LabelledSeries, path: Path) -> None:
        if not path.name.lower().endswith(DICOM):
            done.write_image(path)
        elif self.options.output == "rtstruct":
            done.write_structure_set(path)
        else:
            done.write_segmentation(path, self.options.segmentation)


def series_in(source: Path, target: Path, run: Run, options: DicomOptions) -> Sequence[SeriesScan]:
    """The series of a folder and those below it, told apart from what else lies there.

    Args:
        source: The folder.
        target: One file for one series; or a folder, made if need be, for files named by their series' UIDs.
        run: What labels them.
        options: Which series, and what is written.

    Raises:
        SeriesError: There is none, or not the one for the file.
        ValueError: The name of the file does not fit what is written, or the file is part of the scan.
        OSError: There is no DICOM file, or no folder for the file.
    """
    findings = find_series(source)
    if not findings.candidates and not any(one.damaged for one in findings.passed_over):
        raise FileNotFoundError(f"no image ({', '.join(SUFFIXES)}) and no DICOM file in {source}")
    meant = findings.meant(options.series)
    if not target.is_dir() and target.name.lower().endswith((*SUFFIXES, DICOM)):
        findings.only(options.series)  # or the reason why not, before the work
        _check_file(target, options)
        places = [[target]]
    else:
        target.mkdir(parents=True, exist_ok=True)
        endings = IN_A_FOLDER[options.output or "nifti"]
        places = [[target / f"{_stem(one)}{ending}" for ending in endings] for one in meant]
    _check_apart(places, findings)
    for remark in _passed_over(findings, meant):
        note(f"note: {remark}")
    return [SeriesScan(one, files, run, options) for one, files in zip(meant, places, strict=True)]


def _check_file(target: Path, options: DicomOptions) -> None:
    expected = AS_A_FILE[options.output] if options.output else (*SUFFIXES, DICOM)
    if not target.name.lower().endswith(expected):
        wanted = f"a name that ends in {', '.join(expected)}" if expected else "a folder"
        raise ValueError(f"-o {target}: --output {options.output} needs {wanted}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {target.parent}")


def _check_apart(places: Sequence[Sequence[Path]], findings: Findings) -> None:
    scans = {instance.path.resolve() for one in findings.candidates for instance in one.instances}
    for path in (path for files in places for path in files):
        if path.resolve() in scans:
            raise ValueError(f"{path} would overwrite a file of the scan: give another -o")


def _stem(one: Candidate) -> str:
    name = one.name if one.uid else f"series{one.name}"
    return re.sub(r"[^0-9A-Za-z.]", "_", name)  # what is no UID may be a path


def _remarks(done: LabelledSeries) -> Iterator[str]:
    yield from done.series.repairs
    if done.scan.shape != done.series.shape:
        yield (
            f"the gantry was tilted by {done.series.tilt_degrees:.1f} degrees: a label map is of the scan set upright,"
            " DICOM objects lie on its own slices"
        )


def _passed_over(findings: Findings, meant: Sequence[Candidate]) -> Iterator[str]:
    """What lies there and is not labelled."""
    for one in findings.candidates:
        if one not in meant:
            yield f"passed over {one.name or 'a series without UID'}, {one.what}: {one.refusal or 'not asked for'}"
    for one in findings.passed_over:
        if one.damaged:
            yield f"passed over {one.path.name}: {one.reason}"
