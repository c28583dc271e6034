"""Label maps between the volume of a series and the slices of its files.

A volume is `(column, row, slice)` with its slices in order along their normal (`Series`); what refers to files wants
`(slices, rows, columns)` in the order of `source_headers`, where a multi-frame file may keep its frames in any order
and hold some that the series does not have.
"""

from collections.abc import Sequence

import numpy as np
from pydicom.dataset import Dataset

from .series import Series


def to_frames(labels: np.ndarray, series: Series, source: Sequence[Dataset]) -> np.ndarray:
    """Bring a label map of a series' volume onto the slices of its files.

    Args:
        labels: `(column, row, slice)`, of the shape of `series`.
        series: As found by `find_series`.
        source: Its `source_headers`.

    Returns:
        `(slices, rows, columns)`, the type of `labels`; zero where the series has no slice.

    Raises:
        ValueError: The labels do not have the shape of the series.
    """
    if labels.shape != series.shape:
        raise ValueError(f"labels of shape {labels.shape} are not on the series, which has shape {series.shape}")
    total, places = _places(series, source)
    frames = np.zeros((total, *labels.shape[1::-1]), labels.dtype)
    frames[places] = labels.T
    return frames


def from_frames(frames: np.ndarray, series: Series, source: Sequence[Dataset]) -> np.ndarray:
    """Undo `to_frames`."""
    _, places = _places(series, source)
    return np.ascontiguousarray(frames[places].T)


def _places(series: Series, source: Sequence[Dataset]) -> tuple[int, list[int]]:
    """How many slices the files have, and which of them each slice of the series is."""
    counts = [int(image.get("NumberOfFrames") or 1) for image in source]
    firsts = dict(zip(series.paths, np.cumsum([0, *counts]).tolist(), strict=False))
    return sum(counts), [firsts[one.instance.path] + one.frame for one in series.slices]
