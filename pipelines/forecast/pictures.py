"""Pictures of a surrogate at work: truth, prediction and error, how errors grow, spectra, and an animation."""

import io
from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from ..pictures import FAINT, GRID, INK, PAGE
from .evaluation import SURROGATE, Evaluation
from .film import Film

KINDS = ("truth", "prediction", "error")
COLOURS = {SURROGATE: "#58b2f4", "persistence": "#f2a65a", "mean": "#8b93a1"}
COLUMNS = 5  # steps beside one another
SECONDS_A_FRAME = 0.15
LOST = "#d0459b"  # colour of what is not finite
WORST = 1e3  # above which a curve of errors is cut


def fields_figure(film: Film, channel: int) -> Figure:
    """One field of a film: truth, prediction and their difference below one another.

    A plane has a column for each of five steps; a line has one picture of all steps, time to the right.
    """
    truth, prediction = film.truth[..., channel], film.prediction[..., channel]
    if truth.ndim == 2:
        places, titles, shape = [slice(None)], [f"step {film.steps[0]} to {film.steps[-1]}"], 0.25
    else:
        places = sorted({round(place) for place in np.linspace(0, len(film.steps) - 1, COLUMNS)})
        titles, shape = [f"step {film.steps[place]}" for place in places], truth.shape[2] / truth.shape[1]
    width = min(11.0, 2.2 * len(places) * max(1.0, 1 / shape))
    figure = Figure(figsize=(width, 3 * width / (len(places) + 0.5) * shape + 0.6), facecolor=PAGE)
    figure.set_layout_engine("constrained")
    grid = figure.subplots(3, len(places), squeeze=False)
    error = prediction - truth
    for line, values, kind in zip(grid, (truth, prediction, error), KINDS, strict=True):
        images = [
            _show(axes, values[place], *_scale(truth, error, kind)) for axes, place in zip(line, places, strict=True)
        ]
        line[0].set_ylabel(kind, color=INK, fontsize=9)
        colours = figure.colorbar(images[0], ax=list(line), shrink=0.9, pad=0.01)
        colours.ax.tick_params(colors=FAINT, labelsize=7)
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title, color=FAINT, fontsize=8)
    return figure


def growth_figure(evaluation: Evaluation) -> Figure:
    """VRMSE of each step of the rollouts, the mean over trajectories and fields; of the surrogate also the spread."""
    figure = Figure(figsize=(8, 3.6), facecolor=PAGE, layout="constrained")
    axes = figure.subplots()
    _dress(axes, "step of the rollout", "VRMSE")
    steps = np.arange(evaluation.steps)
    for name, colour in COLOURS.items():
        axes.plot(steps, _cut(np.nanmean(evaluation.growth(name)[:, 0], -1)), color=colour, label=name, linewidth=1.8)
    each = np.nanmean(evaluation.predictors[SURROGATE].rollout[:, :, 0], -1)
    low, high = (_cut(np.nanquantile(each, share, axis=0, method="nearest")) for share in (0.1, 0.9))
    axes.fill_between(steps, low, high, color=COLOURS[SURROGATE], alpha=0.2, linewidth=0, label="8 of 10 trajectories")
    axes.set_yscale("log")
    _legend(axes)
    return figure


def spectra_figure(film: Film, channels: Sequence[str]) -> Figure:
    """Energy by wave number of truth and prediction, each field in the first and the last step."""
    figure = Figure(figsize=(11, 2.6 * -(-len(channels) // 3) + 0.4), facecolor=PAGE, layout="constrained")
    panels = figure.subplots(-(-len(channels) // 3), min(3, len(channels)), squeeze=False).flat
    for channel, name in enumerate(channels):
        axes = next(panels)
        _dress(axes, "waves along the box", name if channel % 3 else f"{name}: energy")
        for place, alpha in ((0, 0.55), (-1, 1.0)):
            for values, style, kind in zip(film.spectra[:, place, :, channel], ("-", "--"), KINDS, strict=False):
                waves = np.arange(1, len(values) + 1)
                shown = np.where(np.isfinite(values) & (values > 0), values, np.nan)
                colour, label = (INK, COLOURS[SURROGATE])[kind != "truth"], f"{kind}, step {film.steps[place]}"
                axes.plot(waves, shown, style, color=colour, alpha=alpha, label=label, linewidth=1.4)
        axes.set(xscale="log", yscale="log")
        if not channel:
            _legend(axes)
    for axes in panels:
        axes.set_axis_off()
    return figure


def animation(film: Film, channel: int) -> bytes:
    """One field of a film as an animated PNG: truth, prediction and error beside one another."""
    truth, prediction = film.truth[..., channel], film.prediction[..., channel]
    error, line = prediction - truth, truth.ndim == 2
    figure = Figure(figsize=(8, 3.0 if line else 3.0 * min(1.6, truth.shape[1] / truth.shape[2])), facecolor=PAGE)
    canvas, frames = FigureCanvasAgg(figure), []
    for place, step in enumerate(film.steps):
        figure.clear()
        figure.text(0.99, 0.98, f"step {step}", color=INK, fontsize=8, ha="right", va="top")
        if line:
            axes = figure.add_axes((0.08, 0.16, 0.9, 0.72))
            _dress(axes, "sample", "")
            axes.plot(truth[place], color=INK, label="truth", linewidth=1.6)
            axes.plot(prediction[place], "--", color=COLOURS[SURROGATE], label="prediction", linewidth=1.6)
            axes.set_ylim(*_padded(truth))
            _legend(axes)
        else:
            panels = figure.subplots(1, 3, gridspec_kw={"left": 0.01, "right": 0.99, "bottom": 0.01, "wspace": 0.04})
            pictures = (truth[place], prediction[place], error[place])
            for axes, kind, picture in zip(panels, KINDS, pictures, strict=True):
                _show(axes, picture, *_scale(truth, error, kind))
                axes.set_title(kind, color=FAINT, fontsize=8)
        canvas.draw()
        frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3]).quantize(96))
    buffer = io.BytesIO()
    milliseconds = int(1000 * SECONDS_A_FRAME)
    frames[0].save(buffer, "PNG", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    return buffer.getvalue()


def _scale(truth: np.ndarray, error: np.ndarray, kind: str) -> tuple[str, float, float]:
    """Colours, and which values they begin and end with: errors have a scale of their own, at most the truth's."""
    low, high = float(truth.min()), float(truth.max())
    if kind != "error":
        return "viridis", low, high
    largest = float(np.abs(error[np.isfinite(error)]).max(initial=0))
    span = max(1e-30, min(largest, (high - low) / 2))
    return "RdBu_r", -span, span


def _show(axes: Axes, picture: np.ndarray, colours: str, low: float, high: float):
    """Show a plane, x to the right and y up."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    shown = np.ma.masked_invalid(picture.T)
    map_ = colormaps[colours].with_extremes(bad=LOST)
    return axes.imshow(shown, cmap=map_, vmin=low, vmax=high, origin="lower", aspect="auto")


def _dress(axes: Axes, across: str, title: str) -> None:
    axes.set_facecolor(PAGE)
    axes.set_title(title, loc="left", color=INK, fontsize=9)
    axes.set_xlabel(across, color=FAINT, fontsize=8)
    axes.tick_params(which="both", colors=FAINT, labelsize=7, length=0)
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines[:].set_visible(False)


def _legend(axes: Axes) -> None:
    axes.legend(frameon=False, labelcolor=INK, fontsize=8)


def _cut(values: np.ndarray) -> np.ndarray:
    """What a logarithmic axis can show; a curve that leaves it ends."""
    return np.where((values > 0) & (values < WORST), values, np.nan)


def _padded(truth: np.ndarray) -> tuple[float, float]:
    low, high = float(truth.min()), float(truth.max())
    pad = 0.08 * (high - low) or 1.0
    return low - pad, high + pad
