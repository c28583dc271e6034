"""The report of a surrogate's evaluation: one page with scores and pictures."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...pipelines.forecast.evaluation import METRICS, SURROGATE, Evaluation
from ...pipelines.forecast.film import Film
from ...pipelines.forecast.pictures import animation, fields_figure, growth_figure, spectra_figure
from ...pipelines.forecast.scores import VRMSE
from ...pipelines.pictures import png_bytes
from ..report import Picture, Section, Table, write_report

DIGITS = VRMSE.digits
DEFINITION = """\
VRMSE is the root of the mean squared error over space, divided by the truth's standard deviation over space: 0 is \
perfect, 1 is what the truth's own mean scores. It is counted for each field, a vector's component each, and step, in \
the fields' own units, and averaged over trajectories, steps and fields. A ten millionth of the field's variance in \
training is added to the truth's, so that a frame in which nothing is left to see does not rule the mean. A \
prediction that is not finite is infinitely wrong.

One step: the next frame, from true ones. a:b: steps a to b - 1 of a rollout, each from the predictions before it; \
step 0 is the first predicted one. 6:12 and 13:30 are those of The Well's tables, the others those of its trainer. As \
The Well counts: its code divides by n - 1 and adds 1e-7 to the variance, whatever the field's unit.

Persistence says that the last known frame stays, the mean that it is everywhere as it is there on average."""
BANDS = """\
The error of waves of a band as a share of the truth's in it, one step ahead; from 1 wave along the box to the most \
that all axes have, the bands are equally wide in the logarithm."""


def write_evaluation(path: Path, evaluation: Evaluation, film: Film, made_with: Mapping[str, object]) -> None:
    """Write the page.

    Args:
        path: The HTML file.
        evaluation: The scores.
        film: The typical trajectory.
        made_with: What was scored, and with what.

    Raises:
        OSError: It cannot be written.
    """
    typical = evaluation.trajectories[evaluation.typical]
    sections = [
        Section("Scores", [scores_table(evaluation), DEFINITION]),
        Section("Fields", [fields_table(evaluation)]),
        Section("How errors grow", [_growth(evaluation)]),
        Section(f"In pictures: {typical}", _pictures(evaluation, film, typical)),
        Section("Waves", [bands_table(evaluation), BANDS, _spectra(evaluation, film, typical)]),
        Section("Made with", [Table(["", ""], [[name, str(value)] for name, value in made_with.items()])]),
    ]
    count = len(evaluation.trajectories)
    write_report(path, f"Evaluation on {count} trajectories of {evaluation.steps} steps", sections)


def scores_table(evaluation: Evaluation) -> Table:
    """Predictors down, one step and the windows across, means over fields."""
    windows = evaluation.windows
    rows = [
        [
            name,
            *(_mean(evaluation.one_step(name), metric) for metric in METRICS[:2]),
            *(_mean(evaluation.window(name, *window)) for window in windows),
            scores.diverged,
        ]
        for name, scores in evaluation.predictors.items()
    ]
    names = [f"{start}:{stop}" for start, stop in windows]
    columns = ["VRMSE", "one step", "as The Well counts", *names, "not finite"]
    return Table(columns, rows, "Mean over the fields.", digits=DIGITS)


def fields_table(evaluation: Evaluation) -> Table:
    """Fields down, one step and windows across, of the surrogate; one step of persistence beside it."""
    values = [evaluation.one_step(SURROGATE)[0], evaluation.one_step("persistence")[0]]
    values += [evaluation.window(SURROGATE, *window)[0] for window in evaluation.windows]
    rows = [[name, *(float(one[channel]) for one in values)] for channel, name in enumerate(evaluation.channels)]
    columns = ["field", "one step", "persistence", *(f"{start}:{stop}" for start, stop in evaluation.windows)]
    return Table(columns, rows, "VRMSE of the surrogate, and of persistence one step ahead.", digits=DIGITS)


def bands_table(evaluation: Evaluation) -> Table:
    """Predictors down, bands of waves across."""
    rows = [
        [name, *(_mean(evaluation.one_step(name), metric) for metric in METRICS[2:])] for name in evaluation.predictors
    ]
    columns = ["error of", "long waves", "middle waves", "short waves"]
    return Table(columns, rows, "Mean over the fields.", digits=DIGITS)


def _mean(values: np.ndarray, metric: str = "vrmse") -> float:
    """Over the fields that are scored."""
    row = values[METRICS.index(metric)]
    return float(row[~np.isnan(row)].mean()) if not np.isnan(row).all() else float("nan")


def _growth(evaluation: Evaluation) -> Picture:
    caption = "Mean over trajectories and fields. A curve ends where it leaves the picture."
    return Picture(png_bytes(growth_figure(evaluation)), "VRMSE of each step of the rollouts", caption)


def _pictures(evaluation: Evaluation, film: Film, typical: str) -> list[str | Table | Picture]:
    moving = Picture(
        animation(film, 0),
        f"Animation of {evaluation.channels[0]}: truth, prediction and error",
        f"{evaluation.channels[0]}: the rollout beside the truth.",
    )
    still = [
        Picture(
            png_bytes(fields_figure(film, channel), dpi=90),
            f"{name} of {typical}: truth, prediction and error",
            f"{name}; the errors have a scale of their own.",
        )
        for channel, name in enumerate(evaluation.channels)
    ]
    return ["The trajectory in the middle by its rollout's VRMSE.", moving, *still]


def _spectra(evaluation: Evaluation, film: Film, typical: str) -> Picture:
    caption = "Energy by wave number, in the first step (faint) and in the last that is shown."
    return Picture(png_bytes(spectra_figure(film, evaluation.channels)), f"Spectra of {typical}", caption)
