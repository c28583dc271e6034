"""`fredholm inspect`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ..pipelines.files import replacing, write_text
from .anyrun import open_any
from .console import result, table

if TYPE_CHECKING:
    from ..pipelines.inspection import Layer

COLUMNS = {
    "entropy": "entropy/bits",
    "focus": "focus",
    "rank": "rank",
    "alpha": "alpha",
    "beta": "beta",
    "gamma": "gamma",
    "extents": "kernel reach",
    "frequencies": "kernel frequency",
}


@dataclass
class Inspect:
    """Show what the layers of a run's network do: a segmenter's, a surrogate's or a classifier's.

    For each layer the entropy of its attention and how focused it is, the effective rank of its features, alpha with
    beta and gamma and the share of each anchor where it interpolates, and how far HyenaND's kernels reach, in samples,
    and how fine they are, in cycles per sample, along each axis. Without --data only what the weights tell.

    Example: fredholm inspect RUN --data DATA --picture layers.png
    """

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run", metavar="RUN")]
    """Folder of the run."""

    data: Path | None = None
    """What the network is shown: a scan, whose middle is taken, or the folder or file of a data set."""

    weights: Literal["last", "best"] = "last"
    """Those after the last step, or those of the best validation."""

    picture: Path | None = None
    """PNG file for the layers side by side."""

    json: Path | None = None
    """File for all numbers."""

    def run(self) -> None:
        """Observe, then tell."""
        from ..pipelines.inspection import observe

        if self.picture is not None and self.picture.suffix != ".png":
            raise ValueError(f"{self.picture}: the name of a picture ends in .png")
        opened = open_any(self.run_folder)
        model = opened.run.load_model(opened.run.best_file if self.weights == "best" else None)
        show = None if self.data is None else opened.shown(self.data)
        layers = observe(model, None if show is None else lambda: show(model))
        if not layers:
            raise ValueError(f"{self.run_folder}: its network has no residual blocks to look at")
        result(_numbers(layers))
        if any("shares" in layer.found for layer in layers):
            result("\n" + _shares(layers))
        if self.picture is not None:
            self._draw(layers, self.picture)
        if self.json is not None:
            write_text(self.json, json.dumps([asdict(layer) for layer in layers], indent=1) + "\n")

    def _draw(self, layers: Sequence["Layer"], picture: Path) -> None:
        from ..pipelines.inspection.picture import layers_figure
        from ..pipelines.pictures import png_bytes

        with replacing(picture) as beside:
            beside.write_bytes(png_bytes(layers_figure(layers)))


def _numbers(layers: Sequence["Layer"]) -> str:
    names = [name for name in COLUMNS if any(name in layer.found for layer in layers)]
    rows = [[layer.name, layer.mixer, *(_word(layer.found.get(name)) for name in names)] for layer in layers]
    return table(["layer", "mixer", *(COLUMNS[name] for name in names)], rows)


def _word(value: float | list[float] | None) -> str | float:
    return " ".join(f"{one:.3g}" for one in value) if isinstance(value, list) else "-" if value is None else value


def _shares(layers: Sequence["Layer"]) -> str:
    rows = [(layer.name, found) for layer in layers if isinstance(found := layer.found.get("shares"), list)]
    return table(
        ["share of anchor", *(str(n) for n in range(1, len(rows[0][1]) + 1))], [[name, *one] for name, one in rows]
    )
