"""Small labelled clouds: balls, rods and plates."""

from pathlib import Path

import numpy as np

NAMES = ("ball", "plate", "rod")
SHAPES = np.array([[1, 1, 1], [1, 1, 0.05], [0.1, 0.1, 1]])


def clouds(count: int, points: int = 64, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """`count` of each kind, `(clouds, points, 3)`, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.tile(np.arange(3), count)
    directions = rng.standard_normal((len(labels), points, 3))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    return directions * SHAPES[labels][:, None] * rng.uniform(0.9, 1.1, (len(labels), 1, 3)), labels


def write_npz(path: Path, count: int = 8, **options: int) -> Path:
    points, labels = clouds(count, **options)
    np.savez(path, points=points.astype(np.float16), labels=labels, class_names=NAMES)
    return path
