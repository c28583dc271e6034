"""A cloud of points, and the size and place that networks see it in."""

import warnings
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Cloud:
    """Points in space.

    Args:
        positions: `(points, 3)`, float64, finite.
        normals: `(points, 3)`, or None where the file had none.
    """

    positions: np.ndarray
    normals: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def take(self, index: np.ndarray) -> "Cloud":
        """Some of the points, or all in another order."""
        return Cloud(self.positions[index], None if self.normals is None else self.normals[index])


def unit(cloud: Cloud, name: str = "the cloud") -> Cloud:
    """Centre the bounding box at the origin and bring the farthest point to distance 1.

    Points that all coincide have no size: they become zeros, and a warning says so.
    """
    positions = cloud.positions - (cloud.positions.min(0) + cloud.positions.max(0)) / 2
    radius = np.linalg.norm(positions, axis=1).max()
    if not radius > 0:
        warnings.warn(f"{name}: all points coincide, so there is no shape to see", stacklevel=2)
        return replace(cloud, positions=np.zeros_like(positions))
    return replace(cloud, positions=positions / radius)


def draw(cloud: Cloud, count: int, rng: np.random.Generator) -> Cloud:
    """`count` points at random, each once before any comes again."""
    rounds = [rng.permutation(len(cloud)) for _ in range(-(-count // len(cloud)))]
    return cloud.take(np.concatenate(rounds)[:count])
