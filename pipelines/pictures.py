"""Pictures of scans, label maps and training runs, as Matplotlib figures that know nothing of files or screens.

Volumes come in canonical RAS+ axis order: `(x, y, z)` with x to the patient's right, y to the front and z up. They
are shown as a radiologist sees them: the patient's right on the left of the picture, the front at the top of axial
slices and on the left of sagittal ones, the head at the top of the others. The figures are made without pyplot, so
that no state is shared and any number can be made in any thread.
"""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from .structures import structure

PAGE, INK, FAINT, GRID = "#0e1116", "#e6e9ef", "#8b93a1", "#2a303b"
_OPACITY = 0.38
_CONTACTS = 12
# Key in the log, name, colour and height in inches of each panel of a training figure.
_CURVES = (
    ("loss", "loss", "#58b2f4", 2.6),
    ("dice", "validation Dice", "#7bd88f", 2.0),
    ("lr", "learning rate", "#f2a65a", 1.0),
)


@dataclass(frozen=True)
class _Plane:
    """How one cut of a RAS+ volume lies on the page."""

    name: str
    normal: int  # the axis that is cut
    across: int  # the axis along the width; both run against RAS+, so that its end is at the left and at the top
    down: int
    edges: str  # letters at left, right, top, bottom

    def cut(self, volume: np.ndarray, index: int) -> np.ndarray:
        """Return the slice as rows from the top and columns from the left."""
        picture = np.moveaxis(volume, self.normal, 0)[index]  # the two axes left stay in order, across before down
        return picture[::-1, ::-1].T


_PLANES = (
    _Plane("axial", normal=2, across=0, down=1, edges="RLAP"),
    _Plane("coronal", normal=1, across=0, down=2, edges="RLSI"),
    _Plane("sagittal", normal=0, across=1, down=2, edges="APSI"),
)


def label_colours(names: Mapping[int, str], count: int) -> np.ndarray:
    """Return the colour of each label from 0 to `count` - 1, `(count, 3)` float in [0, 1].

    It is the colour of the structure that the label's name stands for (`structures`), whatever its number; a label
    without a name goes by its number. Row 0, the background, is black and not meant to be shown.
    """
    rows = [(0, 0, 0), *(structure(names.get(label, str(label))).rgb for label in range(1, count))]
    return np.array(rows[:count]).reshape(count, 3) / 255


def overlay_figure(
    ct: np.ndarray,
    labels: np.ndarray | None,
    spacing_mm: Sequence[float],
    names: Mapping[int, str],
    *,
    reference: np.ndarray | None = None,
    window_hu: tuple[float, float] = (-160, 240),
) -> Figure:
    """Show an axial, a coronal and a sagittal slice of a scan with its labels on top.

    Each slice goes through the plane that shows most of the labels, or the middle if there are none.

    Args:
        ct: Hounsfield units `(x, y, z)` in RAS+ axis order.
        labels: Integers of the shape of `ct`, zero for background; None shows the scan alone.
        spacing_mm: Size of a voxel along x, y and z.
        names: Names for the legend; a label without one is shown by its number.
        reference: The truth, of the shape of `ct`, shown in a second row through the same slices.
        window_hu: Hounsfield units that are shown black and white.

    Returns:
        A figure with three axes a row; the first image of each axes is the slice of `ct`.

    Raises:
        ValueError: The scan has not three axes, a label map has another shape or is not of integers from zero up, or
            the spacing is not positive.
    """
    maps = [volume for volume in (labels, reference) if volume is not None]
    _check(ct, maps, spacing_mm)
    cuts = [(plane, _busiest(maps, ct.shape, plane.normal)) for plane in _PLANES]
    seen = sorted({int(v) for volume in maps for plane, at in cuts for v in np.unique(plane.cut(volume, at))} - {0})
    colours = label_colours(names, max(seen, default=0) + 1)
    legend = {names.get(value, str(value)): tuple(colours[value]) for value in seen}
    rows = [labels] if reference is None else [labels, reference]
    figure, grid = _panels(np.array(ct.shape) * np.array(spacing_mm), len(rows), legend)
    for volume, line in zip(rows, grid, strict=True):
        for axes, (plane, at) in zip(line, cuts, strict=True):
            _show_scan(axes, plane, plane.cut(ct, at), spacing_mm, window_hu)
            if volume is not None:
                _show_labels(axes, plane, plane.cut(volume, at), spacing_mm, colours)
    for axes, (plane, at) in zip(grid[0], cuts, strict=True):
        axes.set_title(f"{plane.name}  {at + 1} / {ct.shape[plane.normal]}", color=FAINT, fontsize=8, pad=4)
    if reference is not None:
        for line, title in zip(grid, ("scan" if labels is None else "prediction", "reference"), strict=True):
            line[0].set_ylabel(title, color=INK, fontsize=10, labelpad=6)
    return figure


def contact_figure(
    ct: np.ndarray,
    labels: np.ndarray,
    spacing_mm: Sequence[float],
    names: Mapping[int, str],
    *,
    window_hu: tuple[float, float] = (-160, 240),
) -> Figure:
    """Show twelve axial slices of a scan with its labels on top, from the feet up, evenly over what is labelled.

    Args:
        ct: Hounsfield units `(x, y, z)` in RAS+ axis order.
        labels: Integers of the shape of `ct`, zero for background; without any the whole scan is shown.
        spacing_mm: Size of a voxel along x, y and z.
        names: Of the labels; they choose the colours.
        window_hu: Hounsfield units that are shown black and white.

    Raises:
        ValueError: As for `overlay_figure`.
    """
    _check(ct, [labels], spacing_mm)
    plane, depth = _PLANES[0], ct.shape[2]
    filled = np.flatnonzero(labels.any(axis=(0, 1)))
    first, last = (filled[0], filled[-1]) if len(filled) else (0, depth - 1)
    slices = np.unique(np.linspace(first, last, _CONTACTS + 2).round().astype(int)[1:-1])
    colours = label_colours(names, int(labels.max()) + 1)
    shape = ct.shape[1] * spacing_mm[1] / (ct.shape[0] * spacing_mm[0])
    figure = Figure(figsize=(12, 3 * (3 * shape + 0.25)), facecolor=PAGE)
    grid = figure.subplots(3, 4, gridspec_kw={"left": 0, "right": 1, "bottom": 0, "top": 0.97, "wspace": 0.01})
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, at in zip(grid.flat, slices.tolist(), strict=False):  # a thin scan leaves some empty
        _show_scan(axes, plane, plane.cut(ct, at), spacing_mm, window_hu)
        _show_labels(axes, plane, plane.cut(labels, at), spacing_mm, colours)
        axes.set_title(f"{at + 1} / {depth}", color=FAINT, fontsize=8, pad=3)
    return figure


def training_figure(rows: Sequence[Mapping[str, float]]) -> Figure:
    """Show how a training run went: loss, validation Dice if there is any, and the learning rate.

    Args:
        rows: The log, each row with `"step"` and any of `"loss"`, `"dice"` and `"lr"`; what is absent or not finite
            is left out.
    """
    curves = [(name, colour, size, *_series(rows, key)) for key, name, colour, size in _CURVES]
    shown = [curve for curve in curves if curve[0] == "loss" or len(curve[3])]
    heights = [curve[2] for curve in shown]
    figure = Figure(figsize=(8, 0.5 + sum(heights)), facecolor=PAGE, layout="constrained")
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, colour, _, steps, values) in zip(panels, shown, strict=True):
        _curve(axes, name, colour, steps, values)
    panels[-1].set_xlabel("step", color=FAINT, fontsize=9)
    return figure


def png_bytes(figure: Figure, dpi: float = 110) -> bytes:
    """Return the figure as a PNG file of `dpi` dots per inch."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor=figure.get_facecolor(), metadata={"Software": None})
    return buffer.getvalue()


def _check(ct: np.ndarray, maps: Sequence[np.ndarray], spacing_mm: Sequence[float]) -> None:
    if ct.ndim != 3 or 0 in ct.shape:
        raise ValueError(f"a scan has three axes with at least one voxel, not the shape {ct.shape}")
    for volume in maps:
        if volume.shape != ct.shape:
            raise ValueError(f"labels of shape {volume.shape} do not fit a scan of shape {ct.shape}")
        if volume.dtype.kind not in "iu" or volume.min() < 0:
            raise ValueError(f"labels are integers from zero up, not {volume.dtype} from {volume.min()}")
    if len(spacing_mm) != 3 or not all(step > 0 for step in spacing_mm):
        raise ValueError(f"spacing_mm must be three positive numbers, not {tuple(spacing_mm)}")


def _busiest(maps: Sequence[np.ndarray], shape: Sequence[int], axis: int) -> int:
    """Return the plane across `axis` that shows most: many labels count for more than one that is large."""
    scores = np.zeros(shape[axis])
    for index in range(shape[axis] if maps else 0):
        voxels = np.concatenate([np.moveaxis(volume, axis, 0)[index].ravel() for volume in maps]).astype(np.intp)
        scores[index] = np.sqrt(np.bincount(voxels)[1:]).sum()
    return int(scores.argmax()) if scores.any() else shape[axis] // 2


def _panels(size_mm: np.ndarray, rows: int, legend: Mapping[str, tuple]) -> tuple[Figure, list[list[Axes]]]:
    """Return a dark figure with its legend and, for each row, three panels of one height and true proportions."""
    shapes = np.array([size_mm[plane.across] / size_mm[plane.down] for plane in _PLANES])
    columns = max(1, min(len(legend), 150 // (5 + max(map(len, legend), default=0))))
    side, top, gap, width = 0.34, 0.3, 0.12, 12.0  # inches, as all that follows
    bottom = 0.2 + 0.21 * math.ceil(len(legend) / columns)
    height = (width - 2 * side - 2 * gap) / shapes.sum()
    total = top + rows * height + (rows - 1) * gap + bottom
    figure = Figure(figsize=(width, total), facecolor=PAGE)
    lefts = side + np.cumsum([0, *(shapes[:-1] * height + gap)])
    lows = [total - top - (row + 1) * height - row * gap for row in range(rows)]
    grid = [
        [
            figure.add_axes((left / width, low / total, shape * height / width, height / total))
            for left, shape in zip(lefts, shapes, strict=True)
        ]
        for low in lows
    ]
    patches = [Patch(color=colour, label=name) for name, colour in legend.items()]
    style = {"frameon": False, "labelcolor": INK, "fontsize": 9, "handlelength": 1, "handleheight": 1}
    if patches:
        figure.legend(handles=patches, loc="lower center", ncols=columns, columnspacing=1.6, **style)
    return figure, grid


def _show_scan(
    axes: Axes, plane: _Plane, picture: np.ndarray, spacing_mm: Sequence[float], window_hu: tuple[float, float]
) -> None:
    low, high = window_hu
    axes.imshow(
        picture, cmap="gray", vmin=low, vmax=high, extent=_extent(plane, picture, spacing_mm), interpolation="bilinear"
    )
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    outline = [withStroke(linewidth=2.5, foreground="black")]
    for letter, (x, y) in zip(plane.edges, ((0.02, 0.5), (0.98, 0.5), (0.5, 0.965), (0.5, 0.035)), strict=True):
        text = axes.text(x, y, letter, transform=axes.transAxes, ha="center", va="center", color=INK, fontsize=9)
        text.set(weight="bold", path_effects=outline)


def _show_labels(
    axes: Axes, plane: _Plane, picture: np.ndarray, spacing_mm: Sequence[float], colours: np.ndarray
) -> None:
    """Tint and outline each label of a slice."""
    tint = np.concatenate([colours[picture], np.where(picture > 0, _OPACITY, 0.0)[..., None]], axis=-1)
    left, right, bottom, top = extent = _extent(plane, picture, spacing_mm)
    axes.imshow(tint, extent=extent, interpolation="nearest")
    rows, columns = picture.shape
    x = (np.arange(columns + 2) - 0.5) * (right / columns)
    y = (np.arange(rows + 2) - 0.5) * (bottom / rows)
    for value in set(np.unique(picture).tolist()) - {0}:
        inside = np.pad(picture == value, 1)  # so that outlines close at the edge
        axes.contour(x, y, inside, levels=[0.5], colors=[colours[value]], linewidths=1.1)
    axes.set(xlim=(left, right), ylim=(bottom, top))


def _extent(plane: _Plane, picture: np.ndarray, spacing_mm: Sequence[float]) -> tuple[float, float, float, float]:
    """Return left, right, bottom and top of a slice in mm from its upper left corner."""
    rows, columns = picture.shape
    return (0.0, columns * float(spacing_mm[plane.across]), rows * float(spacing_mm[plane.down]), 0.0)


def _series(rows: Sequence[Mapping[str, float]], key: str) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(row["step"], row[key]) for row in rows if math.isfinite(row.get(key, math.nan))]
    steps, values = np.array(pairs, dtype=float).reshape(-1, 2).T
    return steps, values


def _curve(axes: Axes, name: str, colour: str, steps: np.ndarray, values: np.ndarray) -> None:
    axes.set_facecolor(PAGE)
    axes.set_title(name, loc="left", color=INK, fontsize=9)
    axes.tick_params(colors=FAINT, labelsize=8, length=0)
    axes.grid(color=GRID, linewidth=0.6)
    axes.margins(x=0.02, y=0.1)
    axes.spines[:].set_color(GRID)
    axes.spines[["top", "right"]].set_visible(False)
    if not len(steps):
        axes.text(0.5, 0.5, "nothing logged yet", transform=axes.transAxes, ha="center", va="center", color=FAINT)
        return
    width = 2 * (len(values) // 50) + 1
    word, at = ("best", values.argmax()) if name == "validation Dice" else ("last", -1)
    if name == "loss" and width > 1:  # a noisy curve is read by its mean
        word = "smoothed"
        axes.plot(steps, values, color=colour, linewidth=0.7, alpha=0.35)
        values = np.convolve(np.pad(values, width // 2, "edge"), np.full(width, 1 / width), "valid")
    axes.plot(steps, values, color=colour, linewidth=1.8, marker="o" if len(values) <= 40 else None, markersize=3)
    axes.set_title(f"{word} {values[at]:.3g} at step {steps[at]:.0f}", loc="right", color=colour, fontsize=9)
