"""Clouds as they might as well have been: turned about the upright axis, stretched, shaken, with points missing."""

from dataclasses import dataclass

import numpy as np

from .cloud import Cloud

AXES = "xyz"


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """How much a cloud may change; 0 of each leaves it as it is.

    Args:
        up: The upright axis: x, y or z.
        rotation: Largest turn about it, in degrees; 180 for clouds that may stand any way round.
        scale: Largest share by which each axis is stretched or pressed.
        jitter: Standard deviation of each point's shift; none is shifted by more than five times as much.
        dropout: Largest share of points that are put where the first one is, as if they were missing.
    """

    up: str = "z"
    rotation: float = 15.0
    scale: float = 0.2
    jitter: float = 0.01
    dropout: float = 0.5

    def __post_init__(self) -> None:
        if self.up not in (*AXES,):
            raise ValueError(f"up is x, y or z, not {self.up!r}")
        for name in ("rotation", "scale", "jitter", "dropout"):
            if not isinstance(getattr(self, name), int | float) or getattr(self, name) < 0:
                raise ValueError(f"{name} is a number of 0 or more, not {getattr(self, name)!r}")
        if self.scale >= 1 or self.dropout >= 1:
            raise ValueError(f"scale and dropout are below 1, not {self.scale} and {self.dropout}")

    def __call__(self, cloud: Cloud, rng: np.random.Generator) -> Cloud:
        """Change a cloud; the same `rng` gives the same."""
        turn = _turn(AXES.index(self.up), np.radians(self.rotation) * rng.uniform(-1, 1))
        stretch = rng.uniform(1 - self.scale, 1 + self.scale, 3)
        positions = cloud.positions @ turn.T * stretch
        shake = self.jitter * rng.standard_normal(positions.shape)
        positions = positions + shake.clip(-5 * self.jitter, 5 * self.jitter)
        changed = Cloud(positions, None if cloud.normals is None else _unit_rows(cloud.normals @ turn.T / stretch))
        missing = rng.random(len(positions)) < self.dropout * rng.random()
        return changed.take(np.where(missing, 0, np.arange(len(positions))))


def _turn(axis: int, angle: float) -> np.ndarray:
    turn = np.eye(3)
    first, second = (axis + 1) % 3, (axis + 2) % 3
    turn[[first, second], [first, second]] = np.cos(angle)
    turn[first, second], turn[second, first] = -np.sin(angle), np.sin(angle)
    return turn


def _unit_rows(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)
