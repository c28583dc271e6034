"""The run of any of the commands that train, and what its network is shown of data."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.nn.functional as F
import yaml
from torch import Tensor, nn

from ..pipelines.images import read_volume
from ..pipelines.plan import Plan
from ..pipelines.prepare import prepare_image
from ..pipelines.run import Run
from .extras import extra

CLOUDS = 16  # of a data set that a classifier is shown
FRAMES = 4  # of a data set that a surrogate is shown

Show = Callable[[nn.Module], object]


@dataclass(frozen=True)
class AnyRun:
    """A run, whatever it learned.

    Args:
        run: The run.
        data: What `shown` takes, in words.
        shown: From a path to data to what lets a network compute on some of them.
    """

    run: Run[Any]
    data: str
    shown: Callable[[Path], Show]


def open_any(folder: Path) -> AnyRun:
    """Open the run of a segmenter, a surrogate or a classifier; the plan tells which.

    Raises:
        FileNotFoundError: There is no run.
        ValueError: The plan is none that is known, or an extra is missing.
    """
    for mark, opened in {"simulation": _surrogate, "points": _classifier, "preparation": _segmenter}.items():
        if mark in _keys(folder / "plan.yaml"):
            return opened(folder)
    return _segmenter(folder)  # whose reader says what is wrong


def _keys(plan: Path) -> dict:
    try:
        content = yaml.safe_load(plan.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


def _segmenter(folder: Path) -> AnyRun:
    run = Run.open(folder, Plan.read)

    def shown(scan: Path) -> Show:
        image = prepare_image(read_volume(scan), run.plan.preparation)
        window = _middle(image, run.plan.window, run.plan.preparation.range[0])
        return lambda model: model(window[None])

    return AnyRun(run, "a scan", shown)


def _middle(image: Tensor, window: tuple[int, int, int], air: float) -> Tensor:
    """The window in the middle of an image `(channels, *grid)`, with air round it where it is smaller."""
    for axis, (have, want) in enumerate(zip(image.shape[1:], window, strict=True), 1):
        image = image.narrow(axis, max(0, (have - want) // 2), min(have, want))
    lacking = [n for have, want in zip(image.shape[:0:-1], window[::-1], strict=True) for n in (0, want - have)]
    return F.pad(image, lacking, value=air)


def _surrogate(folder: Path) -> AnyRun:
    with extra("pde"):
        from ..pipelines.forecast.plan import SurrogatePlan
        from ..pipelines.forecast.planning import check_fits
        from ..pipelines.forecast.task import one_step
        from ..pipelines.well.folder import WellFolder
        from ..pipelines.well.windows import Windows
    run = Run.open(folder, SurrogatePlan.read)

    def shown(data: Path) -> Show:
        well = WellFolder.open(data)
        windows = Windows(well, "valid" if well.has("valid") else "train", run.plan.history)
        check_fits(run.plan.simulation, windows, str(data))
        numbers = windows.trajectories[0][:FRAMES]
        return lambda model: one_step(run.plan, windows, numbers, model)

    return AnyRun(run, "a data set in The Well's format", shown)


def _classifier(folder: Path) -> AnyRun:
    with extra("points"):
        from ..pipelines.points.classify import probabilities
        from ..pipelines.points.dataset import read_labelled
        from ..pipelines.points.plan import PointPlan
    run = Run.open(folder, PointPlan.read)

    def shown(data: Path) -> Show:
        clouds = read_labelled(data, "test").clouds[:CLOUDS]
        return lambda model: probabilities(run.plan, model, clouds)

    return AnyRun(run, "a data set of clouds", shown)
