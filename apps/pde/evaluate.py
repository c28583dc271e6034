"""`fredholm pde evaluate`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ...pipelines.devices import Precision
from ...pipelines.files import write_text
from ...pipelines.well.folder import Split
from ..console import bar, result, table
from .surrogate import Weights, expect_counts, load_surrogate, open_data

if TYPE_CHECKING:
    from ...pipelines.forecast.evaluation import Evaluation
    from ..report import Table


@dataclass
class EvaluateSurrogate:
    """Score a surrogate on trajectories that it did not learn from, one step ahead and running on by itself.

    VRMSE, 0 for a perfect prediction and 1 for the truth's spatial mean, one step ahead and in windows of the rollout:
    6:12 and 13:30 as in The Well's tables, and those of its trainer; the error of long, middle and short waves; beside
    persistence and the mean. --csv has every step of every trajectory.

    Example: fredholm pde evaluate RUN DATA --report report.html
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""

    data: tyro.conf.Positional[Path]
    """Folder of a data set, the one that holds data/; or one of its files."""

    split: Split = "test"
    """Which part of DATA, if it is a folder."""

    trajectories: int | None = None
    """Only the first so many of each file."""

    steps: int | None = None
    """Only the first so many steps of each trajectory."""

    csv: Path | None = None
    """File for the scores of each step, trajectory and field."""

    json: Path | None = None
    """File for the means, and what they were made with."""

    report: Path | None = None
    """HTML page with tables, pictures of a typical trajectory and an animation."""

    weights: Weights | None = None
    """best, those of the best validation, or last; best if there is one."""

    batch: int = 8
    """Trajectories that are computed together."""

    precision: Precision = "32-true"
    """Arithmetic."""

    device: str = "auto"
    """auto, cpu, cuda."""

    def run(self) -> None:
        """Score and tell."""
        expect_counts(trajectories=self.trajectories, steps=self.steps, batch=self.batch)
        if self.report is not None and self.report.suffix != ".html":
            raise ValueError(f"{self.report}: the name of a report ends in .html")
        surrogate = load_surrogate(self.run_folder, self.weights, self.device, self.precision)
        windows, files = open_data(self.data, self.split, surrogate)
        from ...pipelines.forecast.evaluation import evaluate
        from ...pipelines.forecast.film import film
        from .report import bands_table, fields_table, scores_table, write_evaluation

        chosen = {
            f"{file.stem} {number}": numbers[: self.steps]
            for file, found in files.items()
            for number, numbers in enumerate(found[: self.trajectories])
        }
        with bar("scoring", sum(map(len, chosen.values()))) as progress:
            evaluation = evaluate(surrogate, windows, chosen, batch=self.batch, told=progress.skip)
        made_with = {**surrogate.made_with, "data": str(self.data), "split": windows.split}
        self._write(evaluation, made_with)
        if self.report is not None:
            numbers = chosen[evaluation.trajectories[evaluation.typical]]
            write_evaluation(self.report, evaluation, film(surrogate, windows, numbers), made_with)
        for one in (scores_table, fields_table, bands_table):
            result(_text(one(evaluation)) + "\n")

    def _write(self, evaluation: "Evaluation", made_with: dict[str, Any]) -> None:
        if self.csv is not None:
            write_text(self.csv, evaluation.as_csv())
        if self.json is not None:
            content = {"made_with": made_with, **evaluation.as_dict()}
            write_text(self.json, json.dumps(content, indent=2, allow_nan=False) + "\n")


def _text(shown: "Table") -> str:
    """A report's table for a terminal."""
    return table(
        list(shown.columns),
        [[f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row] for row in shown.rows],
    )
