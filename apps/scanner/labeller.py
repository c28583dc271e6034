"""What the gateway does with a series: a network, loaded once, a DICOM SEG of what it finds, and pages that show it."""

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...pipelines.bundle import open_run
from ...pipelines.dicom import find_series
from ...pipelines.dicom.derived import Algorithm
from ...pipelines.dicom.labelled import label_series
from ...pipelines.predict import Predictor
from ...pipelines.volume import Volume
from ..viewer import LabelledScan, write_views
from .faults import StoppedError


class Labeller:
    """Labels series with one run.

    Args:
        run: Folder of the run, or bundle.
        device: Where the network runs.
        stop: Set when to give up what is under way.
        view: Whether to write pages that show the labels, see `write_views`.
    """

    def __init__(self, run: Path, device: str, stop: threading.Event, *, view: bool = False) -> None:
        self.predictor = Predictor.of(open_run(run), device=device)
        self.algorithm = Algorithm.of(run)
        self.stop, self.view = stop, view

    def check(self, folder: Path) -> None:
        """Whether a folder holds one series that can be read.

        Raises:
            SeriesError: It does not.
        """
        find_series(folder).only()

    def __call__(self, folder: Path, out: Path) -> Sequence[Path]:
        """Write `segmentation.dcm` for the series in a folder, and `view.html` and `view_sheet.html` if asked for.

        Raises:
            SeriesError: The series cannot be read.
            StoppedError: The gateway stops.
        """
        series, path = find_series(folder).only(), out / "segmentation.dcm"
        names = self.predictor.plan.names
        done = label_series(series, self._label, names, self.algorithm)
        done.write_segmentation(path)
        if self.view:
            write_views(out, "view", LabelledScan(series.uid, done.scan, done.labels, names))
        return [path]

    def _label(self, volume: Volume) -> np.ndarray:
        return self.predictor.label(volume, self._tick)

    def _tick(self) -> None:
        if self.stop.is_set():
            raise StoppedError
