"""Scores as people read them in a terminal."""

import math
from collections.abc import Callable, Mapping

from ...pipelines.scores import METRICS, Metric, Scores, ScoreTable
from ..console import table

FEW = 4  # cases that are shown beside one another


def metric_table(scores: ScoreTable, metric: Metric = METRICS["dice"]) -> str:
    """One metric as a table in plain text, classes down, cases across where there are few."""
    words = metric.words
    cases = list(scores.rows) if len(scores.rows) <= FEW else []
    columns = [(case, scores.rows[case], scores.mean_per_case[case]) for case in cases]
    if len(cases) != 1:
        columns.append(("mean", scores.mean_per_class, scores.casewise))
    lines = _lines(scores.names, [(words, row) for _, row, _ in columns])
    last = ["mean of classes", *(words(mean) for _, _, mean in columns)]
    return table([metric.title, *(title for title, _, _ in columns)], [*lines, last])


def overview(scores: Scores) -> str:
    """Every metric as a table in plain text: classes down, the mean over cases in each, and how sure that is."""
    columns = [(METRICS[metric].words, scores.table(metric)) for metric in scores.metrics]
    lines = _lines(scores.names, [(words, column.mean_per_class) for words, column in columns])
    lines.append(["mean of classes", *(words(column.casewise) for words, column in columns)])
    title = next(iter(scores.rows), "")
    if len(scores.rows) > 1:
        title = f"mean of {len(scores.rows)} cases"
        ends = [(words, column.casewise_interval) for words, column in columns]
        lines.append(["95 % interval", *(f"{words(low)} to {words(high)}" for words, (low, high) in ends)])
    return table([title, *(scores.title(metric) for metric in scores.metrics)], lines)


def _lines(
    names: Mapping[int, str], columns: list[tuple[Callable[[float], str], Mapping[int, float]]]
) -> list[list[str]]:
    """A line for each class but the background."""
    return [
        [name, *(words(values.get(index, math.nan)) for words, values in columns)]
        for index, name in names.items()
        if index
    ]
