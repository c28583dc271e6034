"""`fredholm points evaluate`."""

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from ...pipelines.files import write_text
from ..console import bar, result, table
from ..report import Picture, Section, SortableTable, write_report
from .classifier import Weights, load_classifier


@dataclass
class EvaluatePoints:
    """Score a classifier on the test clouds of a data set: overall and mean-class accuracy, in one pass.

    Points are chosen by a fixed rule, so that the same run and data always give the same scores.

    Example: fredholm points evaluate RUN DATA --report report.html
    """

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run", metavar="RUN")]
    """Folder of the run."""

    data: tyro.conf.Positional[Path]
    """NPZ file, or folder of the data set; of one with a split the test side."""

    weights: Weights = "last"
    """Those after the last step, or those of the best validation."""

    votes: int = 1
    """Choices of points whose probabilities are averaged; stated with the scores."""

    csv: Path | None = None
    """File for truth, prediction and probabilities of every cloud."""

    json: Path | None = None
    """File for the scores and how they came about."""

    report: Path | None = None
    """HTML page with the confusion matrix and pictures of clouds that were taken for something else."""

    device: str = "auto"
    """auto, cpu, cuda."""

    def run(self) -> None:
        """Score and tell."""
        if self.report is not None and self.report.suffix != ".html":
            raise ValueError(f"{self.report}: the name of a report ends in .html")
        classifier = load_classifier(self.run_folder, self.weights, self.votes, self.device)
        from ...pipelines.points.dataset import read_labelled
        from ...pipelines.points.scores import Confusion

        plan = classifier.plan
        with bar("reading") as progress:
            clouds = read_labelled(self.data, "test", lambda name: progress.tick(name))
        if clouds.names != plan.names:
            raise ValueError(f"{self.data} has the classes {', '.join(clouds.names)}, the run {', '.join(plan.names)}")
        with bar("classifying") as progress:
            found = classifier.probabilities(clouds.clouds, progress.tick)
        scores = Confusion.of(clouds.labels, found.argmax(1), clouds.names)
        facts = {
            "clouds": len(clouds),
            "points": plan.points,
            "sampler": "farthest points" if self.votes == 1 else "farthest points, then random from a fixed seed",
            "votes": self.votes,
            "weights": self.weights,
            "seed": plan.recipe.seed,
        }
        if self.csv is not None:
            write_text(self.csv, _as_csv(clouds, found))
        if self.json is not None:
            write_text(self.json, json.dumps(_as_dict(scores, facts), indent=2, allow_nan=False) + "\n")
        if self.report is not None:
            write_report(self.report, "Classification of point clouds", _sections(clouds, found, scores, facts))
        result(_summary(scores))
        result(", ".join(f"{name} {value}" for name, value in facts.items()))


def _summary(scores) -> str:
    low, high = scores.interval
    rows = [
        [name, value, str(count)]
        for (name, value), count in zip(scores.per_class.items(), scores.counts.sum(1), strict=True)
    ]
    total = str(scores.counts.sum())
    rows += [["mean of classes", scores.mean_class, total], ["overall", scores.overall, total]]
    return table(["class", "accuracy", "clouds"], [*rows, ["95 % interval", f"{low:.3f} to {high:.3f}", ""]])


def _as_dict(scores, facts: dict) -> dict:
    per_class = {name: None if np.isnan(value) else value for name, value in scores.per_class.items()}
    return {
        "overall": scores.overall,
        "interval": [*scores.interval],
        "mean_class": scores.mean_class,
        "per_class": per_class,
        "confusion": scores.counts.tolist(),
        **facts,
    }


def _as_csv(clouds, found: np.ndarray) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["cloud", "class", "predicted", *clouds.names])
    for name, label, row in zip(clouds.ids, clouds.labels, found, strict=True):
        writer.writerow([name, clouds.names[label], clouds.names[int(row.argmax())], *(f"{one:.6f}" for one in row)])
    return buffer.getvalue()


def _sections(clouds, found: np.ndarray, scores, facts: dict) -> list[Section]:
    from ...pipelines.pictures import png_bytes
    from ...pipelines.points.pictures import clouds_figure, confusion_figure

    predicted = found.argmax(1)
    wrong, right = np.flatnonzero(predicted != clouds.labels), np.flatnonzero(predicted == clouds.labels)
    surest = wrong[np.argsort(-found[wrong].max(1))]

    def picture(index: np.ndarray, alt: str) -> Picture:
        titles = [
            f"{clouds.ids[i]}\n{clouds.names[clouds.labels[i]]} -> {clouds.names[predicted[i]]} {found[i].max():.2f}"
            for i in index
        ]
        return Picture(png_bytes(clouds_figure([clouds.clouds[i] for i in index], titles)), alt)

    counts = scores.counts
    rows = [
        [name, value, int(own.sum()), int(own.sum() - own[label])]
        for label, ((name, value), own) in enumerate(zip(scores.per_class.items(), counts, strict=True))
    ]
    low, high = scores.interval
    sections = [
        Section(
            "Accuracy",
            [
                f"Overall {scores.overall:.3f} (95 % interval {low:.3f} to {high:.3f}), "
                f"mean of classes {scores.mean_class:.3f}.",
                ", ".join(f"{name} {value}" for name, value in facts.items()),
                SortableTable(["class", "accuracy", "clouds", "wrong"], rows, "Press a heading to sort."),
            ],
        ),
        Section("Confusion", [Picture(png_bytes(confusion_figure(counts, clouds.names)), "Confusion matrix")]),
    ]
    if len(wrong):
        sections.append(
            Section("Wrong, the surest first", [picture(surest[:12], "Clouds that were taken for another class")])
        )
    if len(right):
        spread = right[np.linspace(0, len(right) - 1, min(8, len(right))).round().astype(int)]
        sections.append(Section("Right", [picture(spread, "Clouds that were classified right")]))
    return sections
