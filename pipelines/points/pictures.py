"""Pictures of clouds and of what they were taken for, as Matplotlib figures."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from .cloud import Cloud

COLUMNS = 4
DRAWN = 1024  # points of a cloud


def clouds_figure(clouds: Sequence[Cloud], titles: Sequence[str]) -> Figure:
    """Clouds side by side, z upright, seen from one corner, with a title each."""
    rows = -(-len(clouds) // COLUMNS)
    figure = Figure(figsize=(2.6 * COLUMNS, 2.8 * rows), layout="constrained")
    for place, (cloud, title) in enumerate(zip(clouds, titles, strict=True), 1):
        axes = figure.add_subplot(rows, COLUMNS, place, projection="3d")
        points = cloud.positions[:DRAWN]
        axes.scatter(*points.T, c=points[:, 2], s=2, cmap="viridis", linewidths=0)
        axes.set_title(title, fontsize=8)
        axes.set_axis_off()
        axes.set_box_aspect((1, 1, 1))
        axes.set(xlim=(-0.8, 0.8), ylim=(-0.8, 0.8), zlim=(-0.8, 0.8))
    return figure


def confusion_figure(counts: np.ndarray, names: Sequence[str]) -> Figure:
    """Truth down, prediction across; colour by the share of the truth, numbers where there are any."""
    side = 1.8 + 0.42 * len(names)
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.add_subplot()
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for row, column in zip(*np.nonzero(counts), strict=True):
        ink = "white" if share[row, column] > 0.5 else "black"
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=7, color=ink)
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set(xlabel="prediction", ylabel="truth")
    return figure
