"""`fredholm segment evaluate`."""

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import tyro

from ...pipelines.classes import Classes, few, read_json
from ...pipelines.files import replacing_with_companions, write_text
from ...pipelines.images import images_in, read_labels, stem
from ...pipelines.layouts import CHANNEL
from ...pipelines.scores import METRICS, SURFACE_METRICS, ClassScores, Scores, evaluate_pair
from ...pipelines.volume import Volume
from ..console import bar, result
from .cohort import CohortReport
from .tables import metric_table, overview

Metric = Literal["dice", "surface_dice", "hd95_mm", "hd_mm", "volume_difference_ml", "volume_difference_percent"]
Seen = Callable[[Scores, Volume, Volume], object]  # scores of one case, its prediction and reference
TOLERANCE_MM = 2.0


@dataclass
class Evaluate:
    """Compare label maps with a reference: Dice, surface Dice, Hausdorff distances and volumes of each class.

    Both are files, or folders whose files have the same names. A class that neither has is not scored, a missed one
    has the worst score there is, and so has one that should not be there. The table shows means over the cases and
    their 95 % confidence interval; --csv and --json have every case.

    Example: fredholm segment evaluate predictions/ labelsTs/ --names dataset.json --csv scores.csv
    """

    prediction: tyro.conf.Positional[Path]
    """Label map, or folder of them."""

    reference: tyro.conf.Positional[Path]
    """Label map to compare with, or folder of them."""

    names: Path | None = None
    """JSON file {"1": "spleen", ...} or dataset.json. A list of values there is one class of the reference; its
    regions are scored whole, and what it says to ignore is left out."""

    metrics: tuple[Metric, ...] = ("dice", "surface_dice", "hd95_mm", "volume_difference_ml")
    """What to show; one alone is shown case by case. The three of surfaces and distances take the time."""

    tolerance: float | Path = TOLERANCE_MM
    """How many mm off still counts as right in the surface Dice; or a JSON file {"spleen": 3, ...}, 2 for others."""

    csv: Path | None = None
    """File for the scores, a line for each case and class."""

    json: Path | None = None
    """File for the scores with their means and confidence intervals."""

    report: Path | None = None
    """HTML page with sortable scores and pictures of the worst cases; a page for each case comes beside it."""

    scans: Path | None = None
    """What the report's pictures show below the labels: a scan, or a folder of scans with the cases' names."""

    def run(self) -> None:
        """Score and tell."""
        if self.scans is not None and self.report is None:
            raise ValueError("--scans is for the pictures of a report: give --report too")
        pairs = _pairs(self.prediction, self.reference)
        scores = self._scores(pairs) if self.report is None else self._reported(self.report, pairs)
        if self.csv is not None:
            write_text(self.csv, scores.as_csv())
        if self.json is not None:
            write_text(self.json, json.dumps(scores.as_dict(), indent=2, allow_nan=False) + "\n")
        if len(self.metrics) == 1:
            result(metric_table(scores.table(self.metrics[0]), METRICS[self.metrics[0]]))
        else:
            result(overview(scores))

    def _reported(self, report: Path, pairs: list[tuple[str, Path, Path]]) -> Scores:
        """Score, and write the pages; they take their places together when all are there."""
        if report.suffix != ".html":
            raise ValueError(f"{report}: the name of a report ends in .html")
        scans = _scans(self.scans, [name for name, _, _ in pairs])
        with replacing_with_companions(report) as page:
            cohort = CohortReport(page, scans)
            scores = self._scores(pairs, cohort.add)
            cohort.write(scores)
        return scores

    def _scores(self, pairs: list[tuple[str, Path, Path]], seen: Seen = lambda *_: None) -> Scores:
        classes = None if self.names is None else Classes.read_file(self.names)
        tolerance_mm = self._tolerance(classes) if SURFACE_METRICS & set(self.metrics) else None
        names: dict[int, str] = {}
        rows: dict[str, dict[int, ClassScores]] = {}
        with bar("comparing", len(pairs)) as progress:
            for name, prediction, reference in pairs:  # one pair in memory at a time
                pair = read_labels(prediction), read_labels(reference)
                known = classes or _found(*pair)
                try:
                    merged = known.indices(pair[1].array) if classes else pair[1].array
                    truth = replace(pair[1], array=merged)
                    ignored = known.ignored if classes else None
                    rows[name] = evaluate_pair(
                        pair[0], truth, known.names, tolerance_mm, regions=known.regions, ignored=ignored
                    )
                    seen(Scores({name: rows[name]}, known.names, self.metrics, tolerance_mm), pair[0], truth)
                except ValueError as error:
                    raise ValueError(f"{reference}: {error}") from None
                names |= known.names
                progress.tick(name)
        return Scores(rows, dict(sorted(names.items())), self.metrics, tolerance_mm)

    def _tolerance(self, classes: Classes | None) -> float | dict[int, float]:
        if not isinstance(self.tolerance, Path):
            return _checked(self.tolerance, "--tolerance")
        if classes is None:
            raise ValueError(f"{self.tolerance} speaks of names: give --names too")
        given, names = read_json(self.tolerance), classes.names.values()
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"{self.tolerance}: no class is named {unknown[0]!r}; known are {', '.join(names)}")
        checked = {name: _checked(value, f"{self.tolerance}: {name}") for name, value in given.items()}
        return {index: checked.get(name, TOLERANCE_MM) for index, name in classes.names.items() if index}


def _checked(value: object, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(f"{where}: a tolerance is a number of mm, 0 or more, not {value!r}")
    return float(value)


def _found(*maps: Volume) -> Classes:
    """The classes of label maps that nothing names."""
    values = sorted({int(value) for labels in maps for value in np.unique(labels.array)} - {0})
    return Classes({0: "background", **{value: f"class {value}" for value in values}}, None)


def _pairs(prediction: Path, reference: Path) -> list[tuple[str, Path, Path]]:
    for path in (prediction, reference):
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
    if prediction.is_dir() != reference.is_dir():
        raise ValueError("prediction and reference must both be files or both be folders")
    if prediction.is_file():
        return [(stem(prediction), prediction, reference)]
    theirs, ours = ({stem(path): path for path in images_in(folder)} for folder in (reference, prediction))
    shared = sorted(theirs.keys() & ours.keys())
    if not shared:
        raise ValueError(f"no file of {prediction} has the name of one in {reference}")
    missing = sorted(theirs.keys() - ours.keys())
    if missing:
        warnings.warn(
            f"{len(missing)} references have no prediction and are not scored, first {missing[0]}", stacklevel=2
        )
    return [(name, ours[name], theirs[name]) for name in shared]


def _scans(source: Path | None, cases: list[str]) -> dict[str, Path]:
    """The scan of each case that has one."""
    if source is None:
        return {}
    if not source.exists():
        raise FileNotFoundError(f"no such file or folder: {source}")
    if source.is_file():
        if len(cases) > 1:
            raise ValueError(f"{source} is one scan, the label maps are those of {len(cases)}: give a folder")
        return {cases[0]: source}
    found = {stem(path).removesuffix(CHANNEL): path for path in images_in(source)}
    missing = [case for case in cases if case not in found]
    if missing:
        warnings.warn(f"{source} has no scan of {few(missing)}", stacklevel=2)
    return {case: found[case] for case in cases if case in found}
