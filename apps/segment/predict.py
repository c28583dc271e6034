"""`fredholm segment predict`."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from ...pipelines.devices import Precision
from ...pipelines.images import stem
from ...pipelines.predict import Predictor
from ...pipelines.run import Run
from ...pipelines.statistics import StatisticsTable
from ...pipelines.volume import Volume
from ..console import bar, note, result
from ..viewer import LabelledScan, write_preview, write_views
from .scans import DicomOptions, Scan, scans_in

Extra = Callable[[Path, LabelledScan], object]  # writes beside the label map at this path


@dataclass
class Predict:
    """Label CT volumes with a trained network.

    Give one scan and the file to write, or a folder of scans and a folder for the label maps; the network is loaded
    once. A label map has the grid, the axis order and the header of its scan. Of a folder of DICOM files every CT
    series is labelled, or none but that of --series.

    Example: fredholm segment predict -i ct.nii.gz -o labels.nii.gz --run RUN
    """

    input: Annotated[Path, tyro.conf.arg(aliases=("-i",))]
    """A NIfTI, NRRD or MetaImage file, or a folder of them, or of DICOM files."""

    out: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """File to write, or folder if the input is one."""

    run_folder: Annotated[Path, tyro.conf.arg(name="run")]
    """Folder of the run."""

    weights: Literal["last", "best"] = "last"
    """Those after the last step, or those of the best validation."""

    overlap: float = 0.5
    """Share of a window that its neighbour sees too."""

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

    device: str = "auto"
    """auto, cpu, cuda."""

    dicom: DicomOptions = field(default_factory=DicomOptions)

    def run(self) -> None:
        """Label every scan; a failed one is told, and the others are done all the same."""
        run = Run.open(self.run_folder)
        scans = scans_in(self.input, self.out, run, self.assume, self.dicom)
        extras = self._extras([scan.targets[0] for scan in scans], run.plan.names)
        file = run.best_file if self.weights == "best" else run.weights_file
        predictor = Predictor.of(run, weights=file, device=self.device, precision=self.precision, overlap=self.overlap)
        for remark in run.plan.notes:
            note(f"note: {remark}")
        if self.compile:
            predictor.compile()
        failed = 0
        for scan in scans:
            try:
                self._one(predictor, scan, extras)
            except (OSError, ValueError) as error:
                if len(scans) == 1:
                    raise
                failed += 1
                note(f"fredholm: {scan.name}: {error}")
        if failed:
            raise ValueError(f"{failed} of {len(scans)} scans failed, the others are in {self.out}")

    def _extras(self, targets: Sequence[Path], names: Mapping[int, str]) -> list[Extra]:
        """What else is written for each case; a mistake that would spoil it is told before the work."""
        extras: list[Extra] = []
        if self.view:
            extras.append(lambda labels, case: write_views(labels.parent, stem(labels), case))
        if self.preview:
            extras.append(lambda labels, case: write_preview(labels.with_name(f"{stem(labels)}.png"), case))
        if self.statistics:
            folder, several = targets[0].parent, self.input.is_dir() and self.out.is_dir()
            name = "statistics" if several else f"{stem(targets[0])}_statistics"
            table = StatisticsTable(folder / name, names)
            extras.append(lambda labels, case: table.add(stem(labels), case.measured))
        name, times = Counter(map(stem, targets)).most_common(1)[0]
        if extras and times > 1:
            raise ValueError(f"{times} scans are called {name}: what is written beside one would overwrite another's")
        return extras

    def _one(self, predictor: Predictor, scan: Scan, extras: Sequence[Extra]) -> None:
        def label(volume: Volume) -> np.ndarray:
            with bar(scan.name, predictor.windows(volume)) as progress:
                return predictor.label(volume, progress.tick)

        volume, labels = scan.write(label)
        case = LabelledScan(scan.name, volume, labels, predictor.plan.names)
        for extra in extras:
            extra(scan.targets[0], case)
        for path in scan.targets:
            result(str(path))
