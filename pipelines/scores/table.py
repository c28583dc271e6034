"""Scores of many cases: one metric as a table, all of them as JSON and CSV."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .bootstrap import bootstrap_interval
from .case import ClassScores


@dataclass(frozen=True)
class Metric:
    """What a score is called where people read it.

    Args:
        title: With its unit.
        digits: Decimals that mean something.
    """

    title: str
    digits: int

    def words(self, value: float) -> str:
        """The value as people read it, a dash where not scored."""
        return "-" if math.isnan(value) else f"{round(value, self.digits) + 0.0:.{self.digits}f}"  # no minus nothing


METRICS = {
    "dice": Metric("Dice", 3),
    "surface_dice": Metric("NSD", 3),
    "hd95_mm": Metric("HD95 mm", 2),
    "hd_mm": Metric("HD mm", 2),
    "volume_difference_ml": Metric("diff ml", 2),
    "volume_difference_percent": Metric("diff %", 1),
}
VOLUMES = ("volume_ml", "reference_ml")


@dataclass(frozen=True)
class ScoreTable:
    """One score of many cases.

    Args:
        rows: Case to class index to score, NaN where not scored.
        names: Class index to name.
    """

    rows: Mapping[str, Mapping[int, float]]
    names: Mapping[int, str]

    @property
    def mean_per_class(self) -> dict[int, float]:
        """Mean over the cases in which a class is scored; NaN if there is none."""
        return {index: _mean(values) for index, values in self._columns().items()}

    @property
    def mean_per_case(self) -> dict[str, float]:
        """Mean over the classes scored in a case; NaN if there is none."""
        return {case: _mean(row.values()) for case, row in self.rows.items()}

    @property
    def casewise(self) -> float:
        """Mean over cases of each case's mean over its scored classes: every case counts the same."""
        return _mean(self.mean_per_case.values())

    @property
    def casewise_interval(self) -> tuple[float, float]:
        """Confidence interval of `casewise` over cases."""
        return bootstrap_interval(self.mean_per_case.values())

    @property
    def interval_per_class(self) -> dict[int, tuple[float, float]]:
        """Confidence interval of each of `mean_per_class`, over the cases in which the class is scored."""
        return {index: bootstrap_interval(values) for index, values in self._columns().items()}

    @property
    def pooled(self) -> float:
        """Mean over all scored (case, class) pairs: every score counts the same."""
        return _mean(value for row in self.rows.values() for value in row.values())

    def as_dict(self) -> dict[str, object]:
        """Plain types for JSON: classes by name, NaN as None."""
        return {
            "casewise": _plain(self.casewise),
            "casewise_interval": [_plain(end) for end in self.casewise_interval],
            "pooled": _plain(self.pooled),
            "mean_per_class": self._named(self.mean_per_class),
            "interval_per_class": {
                self.names[index]: [_plain(end) for end in ends] for index, ends in self.interval_per_class.items()
            },
            "mean_per_case": {case: _plain(value) for case, value in self.mean_per_case.items()},
            "cases": {case: self._named(row) for case, row in self.rows.items()},
        }

    def _columns(self) -> dict[int, list[float]]:
        classes = sorted({index for row in self.rows.values() for index in row})
        return {index: [row.get(index, math.nan) for row in self.rows.values()] for index in classes}

    def _named(self, row: Mapping[int, float]) -> dict[str, float | None]:
        return {self.names[index]: _plain(value) for index, value in row.items()}


@dataclass(frozen=True)
class Scores:
    """All scores of many cases.

    Args:
        rows: Case to class index to scores.
        names: Class index to name.
        metrics: Which of `METRICS` to show.
        tolerance_mm: Of the surface Dice, for all or for each class, as given to `evaluate_pair`.
    """

    rows: Mapping[str, Mapping[int, ClassScores]]
    names: Mapping[int, str]
    metrics: Sequence[str] = tuple(METRICS)
    tolerance_mm: float | Mapping[int, float] | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.metrics if name not in METRICS]
        if unknown:
            raise ValueError(f"no metric {', '.join(unknown)}; known are {', '.join(METRICS)}")

    def title(self, metric: str) -> str:
        """What to write above a column; with the tolerance of the surface Dice if there is one for all."""
        title, tolerance = METRICS[metric].title, self.tolerance_mm
        return f"{title} {tolerance:g} mm" if metric == "surface_dice" and isinstance(tolerance, int | float) else title

    def table(self, metric: str) -> ScoreTable:
        """One metric."""
        rows = {case: {i: getattr(one, metric) for i, one in row.items()} for case, row in self.rows.items()}
        return ScoreTable(rows, self.names)

    def as_dict(self) -> dict[str, object]:
        """Plain types for JSON: a `ScoreTable` for each metric, volumes, and what was asked for."""
        return {
            **{metric: self.table(metric).as_dict() for metric in self.metrics},
            **{name: self.table(name).as_dict()["cases"] for name in VOLUMES},
            "tolerance_mm": self._named_tolerance(),
        }

    def as_csv(self) -> str:
        """A line for each case and class; cells of what is not scored are empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        columns = (*self.metrics, *VOLUMES)
        writer.writerow(["case", "class", *columns])
        for case, row in self.rows.items():
            for index, one in row.items():
                values = (_plain(getattr(one, name)) for name in columns)
                writer.writerow([case, self.names[index], *("" if v is None else format(v, ".6g") for v in values)])
        return text.getvalue()

    def _named_tolerance(self) -> object:
        if not isinstance(self.tolerance_mm, Mapping):
            return self.tolerance_mm
        return {self.names[index]: value for index, value in self.tolerance_mm.items()}


def _mean(values: Iterable[float]) -> float:
    scored = [value for value in values if not math.isnan(value)]
    return math.fsum(scored) / len(scored) if scored else math.nan


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
