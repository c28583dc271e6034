"""How well a surrogate foresees trajectories that it did not learn from, one step ahead and running on by itself.

Beside it stand two that know nothing of physics: persistence, which says that the last known frame stays, and the mean
over space of that frame. All three are asked the same.
"""

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..well.windows import Window, Windows
from .scores import PUBLISHED_WINDOWS, band_errors, trainer_windows, vrmse, well_vrmse
from .stepping import Surroundings, slide
from .surrogate import Predictor, Surrogate

METRICS = ("vrmse", "well_vrmse", "low_waves", "middle_waves", "high_waves")
SURROGATE = "surrogate"


def persistence(history: Tensor, _: Surroundings) -> Tensor:
    """The last known frame."""
    return history[:, -1]


def spatial_mean(history: Tensor, _: Surroundings) -> Tensor:
    """Everywhere what the last known frame is on average."""
    last = history[:, -1]
    return last.mean(tuple(range(1, last.ndim - 1)), keepdim=True).expand_as(last)


def measure(prediction: Tensor, truth: Tensor, std: Tensor) -> Tensor:
    """All metrics of frames `(frames, *grid, channels)`: `(frames, metrics, channels)`, float64.

    A field that is not finite is infinitely wrong. `std` is that of each channel in training.
    """
    found = [vrmse(prediction, truth, std)[:, None], well_vrmse(prediction, truth)[:, None]]
    found.append(band_errors(prediction, truth, std))
    lost = ~torch.isfinite(prediction).flatten(1, -2).all(1)
    return torch.where(lost[:, None], torch.inf, torch.cat(found, 1))


@dataclass(frozen=True)
class Scores:
    """Of one predictor, `(trajectories, steps, metrics, channels)`; NaN where there is nothing to score.

    Args:
        one_step: Each step from the true frames before it.
        rollout: Each step from the predictions before it; the first is the same.
    """

    one_step: np.ndarray
    rollout: np.ndarray

    @property
    def diverged(self) -> int:
        """Trajectories whose rollout does not stay finite."""
        return int(np.isinf(self.rollout).any((1, 2, 3)).sum())


@dataclass(frozen=True)
class Evaluation:
    """Scores of all predictors.

    Args:
        predictors: Name to scores.
        trajectories: A name for each.
        channels: A name for each.
    """

    predictors: Mapping[str, Scores]
    trajectories: Sequence[str]
    channels: Sequence[str]

    @property
    def steps(self) -> int:
        """Of the longest rollout."""
        return self.predictors[SURROGATE].rollout.shape[1]

    @property
    def windows(self) -> list[tuple[int, int]]:
        """Steps from and to, 0 the first one: the published windows as far as they fit, then the trainer's own."""
        published = [window for window in PUBLISHED_WINDOWS if window[1] <= self.steps]
        return [*published, *(window for window in trainer_windows(self.steps) if window not in published)]

    @property
    def typical(self) -> int:
        """The trajectory in the middle by the VRMSE of its rollout."""
        errors = _mean(self.predictors[SURROGATE].rollout[:, :, 0], (1, 2))
        return int(np.argsort(errors, kind="stable")[len(errors) // 2])

    def one_step(self, predictor: str) -> np.ndarray:
        """Means over trajectories and steps, `(metrics, channels)`."""
        return _mean(self.predictors[predictor].one_step, (0, 1))

    def window(self, predictor: str, start: int, stop: int) -> np.ndarray:
        """Means over trajectories and these steps of their rollouts, `(metrics, channels)`."""
        return _mean(self.predictors[predictor].rollout[:, start:stop], (0, 1))

    def growth(self, predictor: str) -> np.ndarray:
        """Means over trajectories of each step of their rollouts, `(steps, metrics, channels)`."""
        return _mean(self.predictors[predictor].rollout, 0)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what is not finite is null."""
        return {
            "trajectories": len(self.trajectories),
            "steps": self.steps,
            "predictors": {
                name: {
                    "one_step": self._named(self.one_step(name)),
                    "windows": {
                        f"{start}:{stop}": self._named(self.window(name, start, stop)) for start, stop in self.windows
                    },
                    "by_step": [self._named(step) for step in self.growth(name)],
                    "diverged": scores.diverged,
                }
                for name, scores in self.predictors.items()
            },
        }

    def as_csv(self) -> str:
        """A line for each predictor, trajectory, step and field."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        kinds = ("one_step", "rollout")
        writer.writerow(
            ["predictor", "trajectory", "step", "field", *(f"{kind}_{name}" for kind in kinds for name in METRICS)]
        )
        for name, scores in self.predictors.items():
            for trajectory, step, channel in np.ndindex(*(scores.rollout.shape[axis] for axis in (0, 1, 3))):
                both = np.concatenate([getattr(scores, kind)[trajectory, step, :, channel] for kind in kinds])
                if not np.isnan(both).all():
                    words = [format(value, ".6g") for value in both]
                    writer.writerow([name, self.trajectories[trajectory], step, self.channels[channel], *words])
        return text.getvalue()

    def _named(self, values: np.ndarray) -> dict[str, dict[str, float | None]]:
        return {
            metric: {
                name: value if math.isfinite(value) else None
                for name, value in zip([*self.channels, "mean"], [*row, float(_mean(row, 0))], strict=True)
            }
            for metric, row in zip(METRICS, values.tolist(), strict=True)
        }


def evaluate(
    surrogate: Surrogate,
    windows: Windows,
    trajectories: Mapping[str, range],
    *,
    batch: int = 8,
    told: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Score a surrogate.

    Args:
        surrogate: Which.
        windows: Of the data, with as many known frames as the surrogate looks back on.
        trajectories: Name to windows of each.
        batch: Trajectories that are computed together.
        told: Called with the number of steps that were done.
    """
    predictors: dict[str, Predictor] = {SURROGATE: surrogate, "persistence": persistence, "mean": spatial_mean}
    channels, std = surrogate.run.plan.simulation.channels, surrogate.stepper.std
    shape = (len(trajectories), max(map(len, trajectories.values())), len(METRICS), len(channels))
    found = {name: Scores(np.full(shape, np.nan), np.full(shape, np.nan)) for name in predictors}
    for rows in _batches(list(trajectories.values()), batch):
        numbers = list(trajectories.values())[rows.start : rows.stop]
        around = surrogate.surroundings([windows[one[0]].still for one in numbers])
        histories: dict[str, Tensor] = {}
        for step in range(len(numbers[0])):
            now = [windows[one[step]] for one in numbers]
            known, truth = _stacked(now)
            for name, predict in predictors.items():
                following = predict(histories.setdefault(name, known), around)
                alone = predict(known, surrogate.surroundings(now)) if step else following
                found[name].one_step[rows.start : rows.stop, step] = measure(alone, truth, std).numpy()
                found[name].rollout[rows.start : rows.stop, step] = measure(following, truth, std).numpy()
                histories[name] = slide(histories[name], following)
            told(len(numbers))
    return Evaluation(found, list(trajectories), channels)


def _batches(trajectories: Sequence[range], batch: int) -> Iterator[range]:
    """Neighbours of one length, at most so many together."""
    start = 0
    for number in range(1, len(trajectories) + 1):
        full = number - start == batch or number == len(trajectories)
        if full or len(trajectories[number]) != len(trajectories[start]):
            yield range(start, number)
            start = number


def _stacked(windows: Sequence[Window]) -> tuple[Tensor, Tensor]:
    return torch.stack([one.history for one in windows]), torch.stack([one.target[0] for one in windows])


def _mean(values: np.ndarray | list[float], axis: int | tuple[int, ...]) -> Any:
    """The mean of what is scored; NaN where nothing is."""
    values = np.asarray(values, np.float64)
    scored = ~np.isnan(values)
    count = scored.sum(axis)
    with np.errstate(invalid="ignore"):
        return np.where(count > 0, np.where(scored, values, 0).sum(axis) / np.maximum(count, 1), np.nan)
