"""A series labelled, and what is written of it: a label map, a DICOM SEG, an RT structure set.

    done = label_series(series, predictor.label, plan.names, Algorithm.of(run))
    done.write_segmentation(Path("segmentation.dcm"))

The network sees the scan upright (see `upright`), and so does the label map; DICOM objects lie on the slices as they
were taken.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from pydicom.dataset import FileDataset

from ..images import write_labels
from ..volume import Volume
from .derived import Algorithm
from .frames import to_frames
from .pixels import read_series
from .segmentation import Kind, write_segmentation
from .series import Series
from .source import source_headers
from .structure_set import write_structure_set
from .upright import leaning, upright


@dataclass(frozen=True, eq=False)
class LabelledSeries:
    """Labels of a series, whichever way they go out.

    Args:
        series: As found by `find_series`.
        scan: What was labelled, `upright(read_series(series))`.
        labels: Integers from zero up, on the voxels of `scan`.
        names: The structures that were looked for, by label.
        algorithm: What made the labels.
    """

    series: Series
    scan: Volume
    labels: np.ndarray
    names: Mapping[int, str]
    algorithm: Algorithm

    def write_image(self, path: Path) -> None:
        """Write a label map, upright (see `images.write_labels` for formats and errors)."""
        write_labels(path, self.labels, like=self.scan)

    def write_segmentation(self, path: Path, kind: Kind = "binary") -> None:
        """Write a DICOM SEG on the slices as they were taken (see `write_segmentation`)."""
        write_segmentation(path, self._source, self._frames, self.names, self.algorithm, kind=kind)

    def write_structure_set(self, path: Path) -> None:
        """Write an RT structure set on the slices as they were taken (see `write_structure_set`)."""
        write_structure_set(path, self._source, self._frames, self.names, self.algorithm)

    @cached_property
    def _source(self) -> list[FileDataset]:
        return source_headers(self.series)

    @cached_property
    def _frames(self) -> np.ndarray:
        return to_frames(leaning(self.labels, self.series.affine, self.series.shape), self.series, self._source)


def label_series(
    series: Series, label: Callable[[Volume], np.ndarray], names: Mapping[int, str], algorithm: Algorithm
) -> LabelledSeries:
    """Read a series, set it upright and label it.

    Args:
        series: As found by `find_series`.
        label: From a volume in HU to its labels, such as `Predictor.label`.
        names: The structures that it looks for, by label.
        algorithm: What it is.

    Raises:
        SeriesError: Pixels cannot be decoded.
        OSError: A file is gone or cannot be read.
    """
    scan = upright(read_series(series))
    return LabelledSeries(series, scan, label(scan), names, algorithm)
