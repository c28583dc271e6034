"""How `predict` labels a scan: the whole of it, or within a box that another run finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from ...pipelines.bundle import open_run
from ...pipelines.classes import few
from ...pipelines.crop import check_margin, label_within
from ...pipelines.memory import gigabytes
from ...pipelines.plan import Plan
from ...pipelines.predict import Predictor
from ...pipelines.run import Run
from ...pipelines.volume import Volume
from ..console import bar, note


class Labelling(Protocol):
    """Labels a scan while its user watches."""

    def __call__(self, name: str, volume: Volume) -> np.ndarray:
        """The class of each voxel, in the shape and axis order of the scan."""
        ...


@dataclass(frozen=True)
class Whole:
    """Labels all of a scan."""

    predictor: Predictor

    def __call__(self, name: str, volume: Volume) -> np.ndarray:
        """Label it; a ValueError if memory is short."""
        note(f"{name}: peak memory about {gigabytes(self.predictor.check_memory(volume))}")
        with bar(name, self.predictor.windows(volume)) as progress:
            return self.predictor.label(volume, progress.tick)


@dataclass(frozen=True)
class Within:
    """Labels a scan within the box of what a first look finds.

    Args:
        first: The first look.
        classes: Of its classes those that matter.
        second: Labels what is in the box.
        margin_mm: About what was found.
    """

    first: Labelling
    classes: Sequence[int]
    second: Labelling
    margin_mm: float

    def __call__(self, name: str, volume: Volume) -> np.ndarray:
        """Find and label it."""
        found = np.isin(self.first(f"{name}: first look", volume), self.classes)
        if not found.any():
            note(f"note: {name}: the first look finds nothing, so the whole scan is labelled")
        return label_within(volume, found, partial(self.second, name), self.margin_mm)


@dataclass(frozen=True)
class CropOptions:
    """Where to look."""

    crop_run: Path | None = None
    """Folder of a run, quicker than RUN as `segment train --fast` makes one, that looks first: RUN labels only the box
    about what it finds, or the whole scan if that is nothing. The box grows while a structure touches it."""

    crop_to: tuple[str, ...] = ()
    """Classes of that run that matter; all of them by default."""

    margin_mm: float = 20.0
    """How far the box reaches beyond them."""

    def opened(self, run: Run[Plan]) -> Run[Plan] | None:
        """The run that looks first, if there is one; nothing is loaded yet.

        Args:
            run: What labels the box.

        Raises:
            OSError: It is not there.
            ValueError: An option makes no sense, or the two are for different images.
        """
        if self.crop_run is None:
            if self.crop_to:
                raise ValueError("--crop-to needs --crop-run, the run that finds these classes")
            return None
        check_margin(self.margin_mm)
        first = open_run(self.crop_run)
        if first.plan.channels != run.plan.channels:
            raise ValueError(
                f"{self.crop_run} is for images of {', '.join(first.plan.channels)}, {run.folder} for "
                f"{', '.join(run.plan.channels)}: both have to see the same"
            )
        self.classes(first.plan)
        return first

    def classes(self, plan: Plan) -> list[int]:
        """The classes that matter, by index; a ValueError if one is none of the plan's."""
        index = {name: number for number, name in plan.names.items() if number}
        if missing := [name for name in self.crop_to if name not in index]:
            raise ValueError(f"--crop-to: {self.crop_run} has no class {missing[0]!r}, it has {few(index)}")
        return [index[name] for name in self.crop_to or index]
