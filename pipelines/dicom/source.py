"""A series as other objects refer to it: its files as data sets, and arrays in the order of their planes."""

from collections.abc import Sequence

import numpy as np
from pydicom.dataset import FileDataset
from pydicom.uid import generate_uid

from .file import read_header
from .series import Series


def source_headers(series: Series) -> list[FileDataset]:
    """What the files of a series say, without pixels, in the order of its slices.

    UIDs that are empty are filled: those of instances as on reading, those of study and series, which no file knows,
    with UIDs made from the instances', the same each time.

    Args:
        series: As found by `find_series`.

    Returns:
        One data set per slice, or per multi-frame file.

    Raises:
        OSError: A file is gone or cannot be read.
        DamagedFileError: A file has changed since it was found.
    """
    datasets = [read_header(path).dataset for path in series.paths]
    for number, one in enumerate(datasets):
        _fill([one], "SOPInstanceUID", [str(number), str(series.slices[number].position)])
    instances = sorted(str(one.SOPInstanceUID) for one in datasets)
    _fill(datasets, "SeriesInstanceUID", instances)
    _fill(datasets, "StudyInstanceUID", instances)
    return datasets


def on_source(labels: np.ndarray, series: Series, headers: Sequence[FileDataset]) -> np.ndarray:
    """Bring an array on a series' volume into the order of the planes of its files.

    Args:
        labels: `(column, row, slice)`, on the grid of `read_series(series)`.
        series: The series.
        headers: Its `source_headers`.

    Returns:
        `(plane, row, column)`, contiguous: a plane for each single-frame file, or for each frame of a multi-frame file
        in the file's own order; frames that are not of the series are zero.
    """
    counts = [int(one.get("NumberOfFrames") or 1) for one in headers]
    starts = dict(zip(series.paths, np.cumsum([0, *counts]).tolist(), strict=False))
    planes = np.zeros((sum(counts), *labels.shape[1::-1]), labels.dtype)
    planes[[starts[one.instance.path] + one.frame for one in series.slices]] = labels.T
    return planes


def _fill(datasets: Sequence[FileDataset], name: str, known: Sequence[str]) -> None:
    for one in datasets:
        if not one.get(name):
            setattr(one, name, generate_uid(entropy_srcs=[name, *known]))
