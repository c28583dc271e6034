"""Scores as people read them in a terminal."""

from ...pipelines.scores import DiceTable
from ..console import table


def dice_table(scores: DiceTable) -> str:
    """The scores as a table in plain text, classes down, cases across where there are few."""
    cases = list(scores.rows) if len(scores.rows) <= 4 else []
    columns = [(case, scores.rows[case], scores.mean_per_case[case]) for case in cases]
    if len(cases) != 1:
        columns.append(("mean", scores.mean_per_class, scores.casewise))
    lines = [[name, *(row[index] for _, row, _ in columns)] for index, name in scores.names.items() if index]
    last = ["mean of classes", *(mean for _, _, mean in columns)]
    return table(["Dice", *(title for title, _, _ in columns)], [*lines, last])
