r"""Mean, standard deviation and root mean square of each field and of its change from step to step.

One pass in float64. Parts are pooled by their counts, means and sums of squared distances from the mean, so that a
small spread about a large mean is not lost::

    n = a + b;    d = mean_b - mean_a
    mean = mean_a + d b / n;    m2 = m2_a + m2_b + d^2 a b / n

Source: Chan, Golub, LeVeque 1983, The American Statistician 37(3), equation 2.1. Pooled over trajectories, time and
space for each component, with the population's variance, as in The Well's stats.yaml, arXiv:2412.00568.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import yaml

from ..files import write_text
from .check import Stored, names

KEYS = ("mean", "std", "rms", "mean_delta", "std_delta", "rms_delta")
PART = 1 << 22  # values that are held at a time, and at least two frames


@dataclass
class Moments:
    """Count, mean and sum of squared distances from it, of each component."""

    count: int = 0
    mean: np.ndarray = field(default_factory=lambda: np.zeros(()))
    m2: np.ndarray = field(default_factory=lambda: np.zeros(()))

    def add(self, values: np.ndarray) -> None:
        """Pool `(n, *components)` more values."""
        if not len(values):
            return
        mean = values.mean(0)
        m2 = ((values - mean) ** 2).sum(0)
        total, shift = self.count + len(values), mean - self.mean
        self.m2 = self.m2 + m2 + shift**2 * (self.count * len(values) / total)
        self.mean = self.mean + shift * (len(values) / total)
        self.count = total

    @property
    def std(self) -> np.ndarray:
        """The population's standard deviation."""
        return np.sqrt(self.m2 / max(1, self.count))

    @property
    def rms(self) -> np.ndarray:
        """The root mean square."""
        return np.hypot(self.mean, self.std)


def compute_statistics(files: Sequence[Path], told: Callable[[], None] = lambda: None) -> dict[str, dict[str, Any]]:
    """The content of stats.yaml.

    Args:
        files: Those of the training split.
        told: Called after each file.

    Returns:
        Statistic to field to a number, or a list for a vector, or nested lists for a tensor. A constant field has no
        change.

    Raises:
        ValueError: A value is not finite; file and field are named.
    """
    values: dict[str, Moments] = {}
    changes: dict[str, Moments] = {}
    for path in files:
        with h5py.File(path, "r") as file:
            for order in range(3):
                group: Stored = file[f"t{order}_fields"]
                for name in names(group):
                    stored = group[name]
                    changing = changes.setdefault(name, Moments()) if stored.attrs["time_varying"] else Moments()
                    pooled = values.setdefault(name, Moments())
                    try:
                        _pool(stored, order, pooled, changing)
                    except FloatingPointError:
                        raise ValueError(f"{path}: the field {name} is not finite") from None
        told()
    pooled = {"": values, "_delta": changes}
    return {
        f"{kind}{suffix}": {name: getattr(one, kind).tolist() for name, one in moments.items()}
        for suffix, moments in pooled.items()
        for kind in ("mean", "std", "rms")
    }


def _pool(stored: Stored, rank: int, values: Moments, changes: Moments) -> None:
    for frames, fresh in _frames(stored):
        if not np.isfinite(frames).all():
            raise FloatingPointError
        values.add(_components(frames[len(frames) - fresh :], rank))
        changes.add(_components(np.diff(frames, axis=0), rank))


def _frames(stored: Stored) -> Iterator[tuple[np.ndarray, int]]:
    """Runs of frames in float64, each with the last one of the run before, and how many are new."""
    samples: Iterable[Any] = range(stored.shape[0]) if stored.attrs["sample_varying"] else [()]
    for sample in samples:
        index = () if sample == () else (sample,)
        if not stored.attrs["time_varying"]:
            yield np.asarray(stored[index], np.float64)[None], 1
            continue
        axis = len(index)
        steps = stored.shape[axis]
        run = max(2, PART // max(1, int(np.prod(stored.shape[axis + 1 :]))))
        for start in range(0, steps, run):
            first = max(0, start - 1)
            frames = np.asarray(stored[(*index, slice(first, start + run))], np.float64)
            yield frames, len(frames) - (start - first)


def _components(frames: np.ndarray, rank: int) -> np.ndarray:
    return frames.reshape(-1, *frames.shape[frames.ndim - rank :])


def write_statistics(path: Path, statistics: Mapping[str, Mapping[str, Any]]) -> None:
    """Write stats.yaml, whole or not at all."""
    write_text(path, yaml.safe_dump({key: dict(statistics[key]) for key in KEYS}, sort_keys=True))


@dataclass(frozen=True)
class ChannelStatistics:
    """Numbers for each channel, in the channels' order: vectors and tensors count as one channel a component.

    Args:
        mean: Of the values.
        std: Of the values; 1 where they never vary.
        mean_delta: Of the change from step to step; empty for constant fields.
        std_delta: Of the change; 1 where there never is any.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    mean_delta: tuple[float, ...] = ()
    std_delta: tuple[float, ...] = ()


def read_statistics(path: Path, fields: Sequence[str], constant: Sequence[str]) -> tuple[ChannelStatistics, ...]:
    """What stats.yaml says of the changing fields and of the constant ones.

    Args:
        path: The file.
        fields: Names of the changing fields, in the channels' order.
        constant: Names of the constant fields, in the channels' order.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no such file, or lacks a statistic; each missing one is named.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: fredholm pde stats {path.parent} computes it")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(content, Mapping):
        raise ValueError(f"{path}: expected statistics by name, got {type(content).__name__}")
    wanted = [(key, name) for key in ("mean", "std", "mean_delta", "std_delta") for name in fields]
    wanted += [(key, name) for key in ("mean", "std") for name in constant]
    missing = [f"{key} of {name}" for key, name in wanted if name not in (content.get(key) or {})]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: fredholm pde stats {path.parent} computes them")

    def flat(key: str, chosen: Sequence[str]) -> tuple[float, ...]:
        numbers = [np.asarray(content[key][name], np.float64).ravel() for name in chosen]
        together = np.concatenate([np.zeros(0), *numbers])
        return tuple((np.where(together > 0, together, 1.0) if key.startswith("std") else together).tolist())

    changing = ChannelStatistics(*(flat(key, fields) for key in ("mean", "std", "mean_delta", "std_delta")))
    return changing, ChannelStatistics(flat("mean", constant), flat("std", constant))
