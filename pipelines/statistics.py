"""What a label map says of each structure in numbers, for one case and for a folder of them.

A structure that reaches the border of the scan is flagged: its true volume is larger than what the scan holds.
"""

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .classes import read_json
from .files import write_text
from .volume import Volume

COLUMNS = ("label", "volume_ml", "mean_hu", "touches_border")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One structure in one scan.

    Args:
        volume_ml: Volume in millilitres, of what lies inside the scan.
        mean_hu: Mean of the scan over its voxels, NaN if there are none.
        touches_border: A voxel of it lies in an outermost slice of the scan, along any axis.
    """

    volume_ml: float = 0.0
    mean_hu: float = math.nan
    touches_border: bool = False


def measure(scan: Volume, labels: np.ndarray) -> dict[int, Measured]:
    """Measure each label that is there, but 0, the background.

    Args:
        scan: Hounsfield units.
        labels: Integers from zero up on the voxels of `scan`, in its axis order.

    Raises:
        ValueError: The labels do not have the shape of the scan.
    """
    if labels.shape != scan.shape:
        raise ValueError(f"labels of shape {labels.shape} do not fit a scan of shape {scan.shape}")
    counts, sums = _counts_and_sums(scan.array, labels)
    at_border = {int(label) for face in _faces(labels) for label in np.unique(face)}
    return {
        label: Measured(
            volume_ml=float(counts[label] * scan.voxel_ml),
            mean_hu=float(sums[label] / counts[label]),
            touches_border=label in at_border,
        )
        for label in np.flatnonzero(counts).tolist()
        if label
    }


def _counts_and_sums(image: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Voxels of each label and the sum of the image over them, int64 and float64."""
    if image.flags.f_contiguous:  # as NIfTI files are: slabs are cut where memory is contiguous
        image, labels = image.T, labels.T
    size = int(labels.max()) + 1
    counts, sums = np.zeros(size, np.int64), np.zeros(size)
    for values, slab in zip(image, labels, strict=True):  # bincount takes eight bytes a voxel: a slab at a time
        counts += np.bincount(slab.ravel(), minlength=size)
        sums += np.bincount(slab.ravel(), values.ravel(), minlength=size)
    return counts, sums


def _faces(labels: np.ndarray) -> list[np.ndarray]:
    return [np.moveaxis(labels, axis, 0)[end] for axis in range(3) for end in (0, -1)]


class StatisticsTable:
    """The structures of many cases, as `STEM.json` and `STEM.csv`; both are whole on disk after each case.

    Cases that the files hold already stay, so that a table grows from one call to the next; one that is measured again
    is replaced.

    Args:
        stem: Path of the two files without their endings.
        names: Label to name; every one but 0 has a row in every case, with 0 ml where it is not there.

    Raises:
        ValueError: There is a `STEM.json` that is no such table.
    """

    def __init__(self, stem: Path, names: Mapping[int, str]) -> None:
        self.json, self.csv = (stem.with_name(f"{stem.name}.{ending}") for ending in ("json", "csv"))
        self.names = names
        self.cases = _read(self.json) if self.json.exists() else {}

    def add(self, case: str, measured: Mapping[int, Measured]) -> None:
        """Take the result of `measure` for a case and write both files.

        Raises:
            OSError: They cannot be written.
        """
        self.cases[case] = {
            name: _plain(label, measured.get(label, Measured())) for label, name in self.names.items() if label
        }
        self._write()

    def remove(self, case: str) -> None:
        """Take a case out, if it is there.

        Raises:
            OSError: The files cannot be written.
        """
        if self.cases.pop(case, None) is not None:
            self._write()

    def _write(self) -> None:
        write_text(self.json, json.dumps(self.cases, indent=2, allow_nan=False) + "\n")
        write_text(self.csv, self._as_csv())

    def _as_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["case", "structure", *COLUMNS])
        for case, structures in self.cases.items():
            for name, values in structures.items():
                writer.writerow([case, name, *(_cell(values[column]) for column in COLUMNS)])
        return text.getvalue()


def _plain(label: int, one: Measured) -> dict[str, Any]:
    mean = None if math.isnan(one.mean_hu) else one.mean_hu
    return dict(zip(COLUMNS, (label, one.volume_ml, mean, one.touches_border), strict=True))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return format(value, ".6g") if isinstance(value, float) else str(value).lower()


def _read(file: Path) -> dict[str, dict[str, dict[str, Any]]]:
    cases = dict(read_json(file))
    rows = [row for case in cases.values() for row in (case.values() if isinstance(case, dict) else [case])]
    if not all(isinstance(row, dict) and tuple(row) == COLUMNS for row in rows):
        raise ValueError(f"{file} holds something else than statistics: move it, or give another -o")
    return cases
