"""The numbers of a series: decoded, turned into Hounsfield units slice by slice, padding made air."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from pydicom.dataset import FileDataset
from pydicom.pixels import apply_modality_lut, iter_pixels

from ..volume import Volume
from .file import UNCOMPRESSED, quiet, read_whole
from .refusal import Code, SeriesError
from .series import Series
from .slices import Slice

AIR_HU = -1024.0  # what scanners of 12 bits store where they measured nothing


def read_series(series: Series) -> Volume:
    """Read a series as one volume.

    A table (modality LUT) wins over slope and intercept, which count for each slice on its own. Stored numbers that
    stand for padding become air. MONOCHROME1 says how to show numbers and changes none.

    Args:
        series: As found by `find_series`.

    Returns:
        `(column, row, slice)`, float32 HU, with the series' affine and the series as its `source`. The slices lie one
        after the other in memory.

    Raises:
        SeriesError: Pixels cannot be decoded.
        OSError: A file is gone or cannot be read.
    """
    columns, rows, count = series.shape
    planes = np.empty((count, rows, columns), np.float32)
    places: dict[Path, list[int]] = {}
    for k, one in enumerate(series.slices):
        places.setdefault(one.instance.path, []).append(k)
    for path, own in places.items():
        dataset, slices = read_whole(path), [series.slices[k] for k in own]
        for k, one, stored in zip(own, slices, _stored(dataset, slices), strict=True):
            planes[k] = _hu(stored, one, dataset)
    return Volume(planes.T, series.affine, source=series, path=series.paths[0].parent)


def _stored(dataset: FileDataset, slices: Sequence[Slice]) -> Iterator[np.ndarray]:
    """The stored numbers of some frames of a file, `(rows, columns)` each."""
    name = slices[0].instance.path.name
    try:
        with quiet():
            for plane in iter_pixels(dataset, indices=[one.frame for one in slices], raw=True):
                yield _own_bits(plane, dataset)
    except Exception as error:  # decoders raise whatever they like
        raise SeriesError(Code.DAMAGED_FILE, f"{name} cannot be decoded: {error}") from error


def _own_bits(plane: np.ndarray, dataset: FileDataset) -> np.ndarray:
    """Clear bits that are not the pixel's own, where old files keep overlays."""
    if dataset.file_meta.TransferSyntaxUID not in UNCOMPRESSED:
        return plane
    allocated, stored = dataset.BitsAllocated, dataset.BitsStored
    above = allocated - 1 - dataset.get("HighBit", stored - 1)
    return plane << above >> (allocated - stored) if stored < allocated else plane


def _hu(stored: np.ndarray, one: Slice, dataset: FileDataset) -> np.ndarray:
    if one.has_lut:
        values = apply_modality_lut(stored, dataset).astype(np.float32)
    else:
        slope, intercept = one.rescale or (1.0, 0.0)
        values = (stored * np.float64(slope) + intercept).astype(np.float32)
    if one.padding:
        first, last = one.padding
        values[(stored >= first) & (stored <= last)] = AIR_HU
    return values
