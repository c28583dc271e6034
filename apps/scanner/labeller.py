"""What the gateway does with a series: the trained network, loaded once, and a DICOM SEG of what it finds."""

import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from ...pipelines.dicom import find_series, read_series
from ...pipelines.dicom.derived import Algorithm
from ...pipelines.dicom.frames import to_frames
from ...pipelines.dicom.segmentation import write_segmentation
from ...pipelines.dicom.source import source_headers
from ...pipelines.predict import Predictor
from ...pipelines.run import Run
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
        self.algorithm = Algorithm(run.resolve().name, version("fredholm"))
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
        series = find_series(folder).only()
        labels = self.predictor.label(read_series(series), self._tick)
        source, path = source_headers(series), out / "segmentation.dcm"
        frames = to_frames(labels, series, source)
        write_segmentation(path, source, frames, self.predictor.plan.names, self.algorithm)
        return [path]

    def _tick(self) -> None:
        if self.stop.is_set():
            raise StoppedError
