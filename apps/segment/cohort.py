"""The report of an evaluation: one page for all cases, with pictures of the worst, and one page for each case.

Cases come one at a time and leave nothing in memory but their scores and, of the worst so far, their pictures.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...pipelines.images import read_volume
from ...pipelines.pictures import overlay_figure, png_bytes
from ...pipelines.scores import METRICS, VOLUMES, Metric, Scores
from ...pipelines.volume import Volume, canonical, reordered, same_grid
from ..report import Cell, Link, Picture, Section, SortableTable, Table, write_report

WORST = 5  # cases whose pictures are on the page of all
LOWEST = 3  # classes that are named as a case's worst
BLACK_HU = -1000.0
CONVENTION = (
    "A dash is a class that neither map has: it is not scored. A missed class has the worst score there is, and so has "
    "one that should not be there. Every case counts the same in a mean; intervals are 95 % confidence intervals over "
    "the cases."
)


class CohortReport:
    """Pages of an evaluation.

    Args:
        path: The page of all cases; those of the cases lie beside it, `STEM_CASE.html`.
        scans: Case to the scan that its pictures show; a case without one is shown on black.
    """

    def __init__(self, path: Path, scans: Mapping[str, Path]) -> None:
        self.path, self.scans = path, scans
        self.worst: list[tuple[float, str, Picture]] = []  # mean Dice, case, picture

    def add(self, one: Scores, prediction: Volume, reference: Volume) -> None:
        """Write the page of a case.

        Args:
            one: Its scores, and of no other case.
            prediction: Class indices.
            reference: Class indices on the same grid; the axes may run in another order.

        Raises:
            ValueError: The scan is not on the grid of the label maps.
            OSError: The page cannot be written, or the scan not read.
        """
        (case,) = one.rows
        picture = self._picture(one, case, prediction, reference)
        note = "" if case in self.scans else "No scan was given: the labels are shown on black."
        sections = [Section("Prediction and reference", [picture, note]), Section("Scores", [_classes(one, case)])]
        write_report(self.path.with_name(self._page(case)), case, sections)
        dice = one.table("dice").mean_per_case[case]
        if not math.isnan(dice):
            self.worst = sorted([*self.worst, (dice, case, picture)], key=lambda entry: entry[:2])[:WORST]

    def write(self, scores: Scores) -> None:
        """Write the page of all cases.

        Raises:
            OSError: It cannot be written.
        """
        sections = [
            Section("Classes", [_means(scores), CONVENTION]),
            Section("Cases", [self._cases(scores)]),
            Section("The worst cases by mean Dice", [picture for _, _, picture in self.worst]),
        ]
        write_report(self.path, f"Evaluation of {len(scores.rows)} cases", sections)

    def _page(self, case: str) -> str:
        return f"{self.path.stem}_{case}.html"

    def _picture(self, one: Scores, case: str, prediction: Volume, reference: Volume) -> Picture:
        ours = _upright(reordered(prediction, like=reference), reference)
        truth = canonical(reference)
        figure = overlay_figure(self._scan(case, reference), ours, truth.spacing_mm, one.names, reference=truth.array)
        return Picture(png_bytes(figure), f"Slices of {case} with prediction and reference", _caption(one, case))

    def _scan(self, case: str, reference: Volume) -> np.ndarray:
        """Hounsfield units in canonical axis order."""
        if case not in self.scans:
            return np.broadcast_to(np.float32(BLACK_HU), canonical(reference).shape)
        scan = reordered(read_volume(self.scans[case]), like=reference)
        same_grid(reference, scan)
        return _upright(scan, reference)

    def _cases(self, scores: Scores) -> Table:
        means = [scores.table(metric).mean_per_case for metric in scores.metrics]
        dice = scores.table("dice").rows
        rows = [
            [Link(case, self._page(case)), *(mean[case] for mean in means), _lowest(dice[case], scores.names)]
            for case in scores.rows
        ]
        columns = ["case", *(scores.title(metric) for metric in scores.metrics), "lowest Dice"]
        caption = "Mean over the scored classes of each case. Press a heading to sort; a case's name leads to its page."
        return SortableTable(columns, rows, caption, digits=[0, *_digits(scores), 0])


def _means(scores: Scores) -> Table:
    """Classes down, for each metric its mean over cases and how sure that is."""
    tables = [(METRICS[metric], scores.table(metric)) for metric in scores.metrics]
    columns = [(metric, table.mean_per_class, table.interval_per_class) for metric, table in tables]
    rows = [
        [name, *(cell for column in columns for cell in _mean_and_interval(*column, index))]
        for index, name in scores.names.items()
        if index
    ]
    titles = [title for metric in scores.metrics for title in (scores.title(metric), "interval")]
    digits = [digits for metric, _ in tables for digits in (metric.digits, 0)]
    caption = "Mean over the cases in which a class is scored. Press a heading to sort."
    return SortableTable(["class", *titles], rows, caption, digits=[0, *digits])


def _mean_and_interval(
    metric: Metric, means: Mapping[int, float], intervals: Mapping[int, tuple[float, float]], index: int
) -> tuple[Cell, Cell]:
    if index not in means:
        return None, None
    low, high = intervals[index]
    return means[index], None if math.isnan(low) else f"{metric.words(low)} to {metric.words(high)}"


def _classes(one: Scores, case: str) -> Table:
    """All scores of a case, a row for each class."""
    metrics = [*one.metrics, *VOLUMES]
    columns = [one.table(metric).rows[case] for metric in metrics]
    rows = [[name, *(column[index] for column in columns)] for index, name in one.names.items() if index]
    titles = ["class", *(one.title(metric) for metric in one.metrics), "ml", "reference ml"]
    return SortableTable(titles, rows, "Press a heading to sort.", digits=[0, *_digits(one), 2, 2])


def _digits(scores: Scores) -> list[int]:
    return [METRICS[metric].digits for metric in scores.metrics]


def _caption(one: Scores, case: str) -> str:
    dice = one.table("dice")
    mean = METRICS["dice"].words(dice.mean_per_case[case])
    return f"{case}: mean Dice {mean}; lowest: {_lowest(dice.rows[case], one.names)}."


def _lowest(dice: Mapping[int, float], names: Mapping[int, str]) -> str:
    """The classes that fare worst, in words."""
    scored = sorted((value, index) for index, value in dice.items() if not math.isnan(value))
    return ", ".join(f"{names[index]} {METRICS['dice'].words(value)}" for value, index in scored[:LOWEST]) or "-"


def _upright(volume: Volume, like: Volume) -> np.ndarray:
    """The array of a volume on the grid of `like` in canonical axis order; `like` alone says what that is."""
    return canonical(replace(like, array=volume.array)).array
