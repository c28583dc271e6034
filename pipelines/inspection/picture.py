"""The layers of a network beside one another: attention, rank, alpha, anchors and kernels."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..pictures import FAINT, GRID, INK, PAGE
from .observers import Layer

COLOURS = "viridis"
CURVES = {
    "entropy": "entropy of attention, bits",
    "focus": "focus of attention",
    "rank": "effective rank of features",
    "alpha": "alpha",
}


def layers_figure(layers: Sequence[Layer]) -> Figure:
    """A curve over the layers for each number that some of them have, then shares of anchors and kernels' spectra."""
    curves = [name for name in CURVES if any(name in layer.found for layer in layers)]
    maps = [name for name in ("shares", "spectrum") if any(name in layer.found for layer in layers)]
    figure = Figure(figsize=(8, 2.2 * max(1, len(curves) + len(maps))), facecolor=PAGE, layout="constrained")
    grid = figure.subplots(max(1, len(curves) + len(maps)), squeeze=False)[:, 0]
    for axes, name in zip(grid, curves, strict=False):
        _dress(axes, "layer", CURVES[name])
        axes.plot(
            np.arange(1, len(layers) + 1), [layer.found.get(name, np.nan) for layer in layers], "o-", markersize=4
        )
    for axes, name in zip(grid[len(curves) :], maps, strict=False):
        draw = {"shares": _shares, "spectrum": _spectra}[name]
        draw(axes, [(number, layer) for number, layer in enumerate(layers, 1) if name in layer.found])
    return figure


def _shares(axes: Axes, layers: Sequence[tuple[int, Layer]]) -> None:
    _dress(axes, "anchor", "share of each anchor, a row for each layer")
    axes.grid(visible=False)
    axes.imshow(np.array([layer.found["shares"] for _, layer in layers]), aspect="auto", cmap=COLOURS, vmin=0)
    axes.set_yticks(range(len(layers)), [str(number) for number, _ in layers])


def _spectra(axes: Axes, layers: Sequence[tuple[int, Layer]]) -> None:
    _dress(axes, "cycles per sample along the first axis", "power of HyenaND's kernels, as shares")
    for number, layer in layers:
        power = np.array(layer.found["spectrum"])
        axes.semilogy(np.linspace(0, 0.5, len(power)), power, label=f"layer {number}", linewidth=1.4)
    axes.legend(frameon=False, labelcolor=INK, fontsize=8)


def _dress(axes: Axes, across: str, title: str) -> None:
    axes.set_facecolor(PAGE)
    axes.set_title(title, loc="left", color=INK, fontsize=9)
    axes.set_xlabel(across, color=FAINT, fontsize=8)
    axes.tick_params(colors=FAINT, labelsize=7, length=0)
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines[:].set_visible(False)
