"""What the gateway does with a series: the trained network, loaded once, and a DICOM SEG of what it finds."""

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...pipelines.dicom import find_series
from ...pipelines.dicom.derived import Algorithm
from ...pipelines.dicom.labelled import label_series
from ...pipelines.predict import Predictor
from ...pipelines.run import Run
from ...pipelines.volume import Volume
from .faults import StoppedError


class Labeller:
    """Labels series with one run.

    Args:
        run: Folder of the run.
        device: Where the network runs.
        stop: Set when to give up what is under way.
    """

    def __init__(self, run: Path, device: str, stop: threading.Event) -> None:
        opened = Run.open(run)
        self.predictor = Predictor.of(opened, device=device)
        self.algorithm = Algorithm.of(run)
        self.stop = stop

    def check(self, folder: Path) -> None:
        """Whether a folder holds one series that can be read.

        Raises:
            SeriesError: It does not.
        """
        find_series(folder).only()

    def __call__(self, folder: Path, out: Path) -> Sequence[Path]:
        """Write `segmentation.dcm` for the series in a folder.

        Raises:
            SeriesError: The series cannot be read.
            StoppedError: The gateway stops.
        """
        series, path = find_series(folder).only(), out / "segmentation.dcm"
        label_series(series, self._label, self.predictor.plan.names, self.algorithm).write_segmentation(path)
        return [path]

    def _label(self, volume: Volume) -> np.ndarray:
        return self.predictor.label(volume, self._tick)

    def _tick(self) -> None:
        if self.stop.is_set():
            raise StoppedError
