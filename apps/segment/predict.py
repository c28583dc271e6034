"""`fredholm segment predict`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from torch import nn

from ...pipelines.bundle import open_run
from ...pipelines.devices import Precision, pick_device
from ...pipelines.ensemble import load_together
from ...pipelines.images import stem
from ...pipelines.ledger import Ledger, fingerprint
from ...pipelines.mirror import mirrored
from ...pipelines.plan import Plan
from ...pipelines.predict import Predictor
from ...pipelines.run import Run
from ..console import note, result
from ..viewer import LabelledScan
from .beside import Beside, Preview, Statistics, Views
from .labelling import CropOptions, Labelling, Whole, Within
from .scans import DicomOptions, Scan, scans_in


@dataclass
class Predict:
    """Label CT volumes with a trained network.

    Give one scan and the file to write, or a folder of scans and a folder for the label maps; the network is loaded
    once. A label map has the grid, the axis order and the header of its scan. Of a folder of DICOM files every CT
    series is labelled, or none but that of --series. A scan whose label map in the folder was made by the same weights,
    plan and options from the same file is not labelled again; predictions.json there keeps the record.

    Example: fredholm segment predict -i ct.nii.gz -o labels.nii.gz --run RUN
    """

    input: Annotated[Path, tyro.conf.arg(aliases=("-i",))]
    """A NIfTI, NRRD or MetaImage file, or a folder of them, or of DICOM files. For a network of several channels the
    files are NAME_0000, NAME_0001 and so on, in the plan's order; of one scan give the first."""

    out: Annotated[str, tyro.conf.arg(aliases=("-o",), metavar="PATH")]
    """File to write; or a folder, which is made if need be. A new one ends in / or has no ending."""

    run_folders: Annotated[tuple[Path, ...], tyro.conf.arg(name="run", metavar="RUN [RUN ...]")]
    """Folder of the run, or a bundle. The probabilities of several, as of all folds, are averaged; their plans agree in
    classes, preparation, window and post-processing, and time grows with their number."""

    weights: Literal["last", "best"] = "last"
    """Those after the last step, or those of the best validation."""

    overlap: float = 0.5
    """Share of a window that its neighbour sees too."""

    mirror: bool = False
    """Judge each window together with its mirror images along the directions that training mirrored (`train --mirror`),
    and average; takes 2 times as long for one direction, 4 for two, 8 for three."""

    assume: str | None = None
    """Axis order, such as RAS, for files that do not say theirs."""

    precision: Precision | None = None
    """Arithmetic; bf16-mixed where the hardware has it."""

    compile: bool = False
    """Compile the network: minutes before the first window, a little less time for each later one; for many scans."""

    view: bool = False
    """Write a page that shows the scan with its labels in a browser, and a contact sheet, beside each label map."""

    preview: bool = False
    """Write a picture beside each label map: three slices with the structures in their colours, as PNG."""

    statistics: bool = False
    """Write volume, mean HU and whether it touches the border for each structure: statistics.csv and .json."""

    overwrite: bool = False
    """Label again what was done before."""

    device: str = "auto"
    """auto, cpu, cuda."""

    dicom: DicomOptions = field(default_factory=DicomOptions)

    crop: CropOptions = field(default_factory=CropOptions)

    def run(self) -> None:
        """Label every scan; a failed one is told, and the others are done all the same."""
        runs = [open_run(folder) for folder in self.run_folders]
        if not runs:
            raise ValueError("--run: the folder of a run is expected")
        run = runs[0]
        first = self.crop.opened(run)
        scans = scans_in(self.input, self.out, run, self.assume, self.dicom)
        beside = self._beside([scan.targets[0] for scan in scans], run.plan.names)
        model = load_together(runs, [self._weights_of(run) for run in runs])
        if self.mirror:
            model = mirrored(model, [run.plan for run in runs])
        predictor = self._predictor(run.plan, model)
        for remark in dict.fromkeys(remark for run in runs for remark in run.plan.notes):
            note(f"note: {remark}")
        if self.compile:
            predictor.compile()
        label: Labelling = Whole(predictor)
        if first is not None:
            look = self._predictor(first.plan, first.load_model(self._weights_of(first)))
            label = Within(Whole(look), self.crop.classes(first.plan), label, self.crop.margin_mm)
        made_with = self._made_with(runs, first, predictor, beside)
        work = Work(label, run.plan.names, beside, self._ledger(), made_with, self.overwrite)
        failed = 0
        for scan in scans:
            try:
                work.do(scan)
            except (OSError, ValueError) as error:
                if len(scans) == 1:
                    raise
                failed += 1
                note(f"fredholm: {scan.name}: {error}")
        if work.skipped:
            note(f"note: {work.skipped} of {len(scans)} scans were done before; --overwrite does them again")
        if failed:
            raise ValueError(f"{failed} of {len(scans)} scans failed, the others are in {self.out}")

    def _beside(self, targets: Sequence[Path], names: Mapping[int, str]) -> list[Beside]:
        """What else is written for each case; a mistake that would spoil it is told before the work."""
        beside: list[Beside] = []
        if self.view:
            beside.append(Views())
        if self.preview:
            beside.append(Preview())
        if self.statistics:
            folder, several = targets[0].parent, self.input.is_dir() and Path(self.out).is_dir()
            beside.append(Statistics(folder / ("statistics" if several else f"{stem(targets[0])}_statistics"), names))
        name, times = Counter(map(stem, targets)).most_common(1)[0]
        if beside and times > 1:
            raise ValueError(f"{times} scans are called {name}: what is written beside one would overwrite another's")
        return beside

    def _ledger(self) -> Ledger | None:
        """The record of the folder; a single file that was named is written whenever it is asked for."""
        return Ledger(Path(self.out)) if Path(self.out).is_dir() else None

    def _weights_of(self, run: Run[Plan]) -> Path:
        return run.best_file if self.weights == "best" else run.weights_file

    def _predictor(self, plan: Plan, model: nn.Module) -> Predictor:
        return Predictor(plan, model, pick_device(self.device), self.precision, self.overlap)

    def _made_with(
        self, runs: Sequence[Run[Plan]], first: Run[Plan] | None, predictor: Predictor, beside: Sequence[Beside]
    ) -> dict[str, Any]:
        """All that a label map and what lies beside it depend on, but for the scan."""
        looks = [] if first is None else [first.folder / "plan.yaml", self._weights_of(first)]
        return {
            "plan": fingerprint(run.folder / "plan.yaml" for run in runs),
            "weights": fingerprint(map(self._weights_of, runs)),
            "crop": [fingerprint(looks), *self.crop.crop_to, self.crop.margin_mm] if looks else [],
            "overlap": predictor.overlap,
            "mirror": self.mirror,
            "precision": predictor.precision,
            "assume": self.assume,
            "segmentation": self.dicom.segmentation,
            "beside": [one.name for one in beside],
        }


@dataclass
class Work:
    """Labels scan after scan.

    Args:
        label: Labels a scan.
        names: Of the classes.
        beside: What is written beside each label map.
        ledger: What was done before, if it is written down.
        made_with: What the ledger says of a label map, beside its scan.
        overwrite: Whether to do again what was done.
    """

    label: Labelling
    names: Mapping[int, str]
    beside: Sequence[Beside]
    ledger: Ledger | None
    made_with: Mapping[str, Any]
    overwrite: bool
    skipped: int = 0

    def do(self, scan: Scan) -> None:
        """Label a scan unless that was done; if that fails, an earlier label map is not left in its place."""
        try:
            if self.ledger is None:
                self._label(scan)
            else:
                self._label_once(scan, self.ledger)
        except (OSError, ValueError):
            self._discard(scan)
            raise
        for path in scan.targets:
            result(str(path))

    def _label_once(self, scan: Scan, ledger: Ledger) -> None:
        entry = {"scan": fingerprint(scan.sources), **self.made_with}
        if ledger.has(scan.targets, entry) and not self.overwrite:
            self.skipped += 1
            return
        ledger.strike(scan.targets)
        self._label(scan)
        ledger.enter(scan.targets, entry)

    def _label(self, scan: Scan) -> None:
        volume, labels = scan.write(partial(self.label, scan.name))
        case = LabelledScan(scan.name, volume, labels, self.names)
        for one in self.beside:
            one.write(scan.targets[0], case)

    def _discard(self, scan: Scan) -> None:
        for path in scan.targets:
            path.unlink(missing_ok=True)
        for one in self.beside:
            one.remove(scan.targets[0])
        if self.ledger is not None:
            self.ledger.strike(scan.targets)
