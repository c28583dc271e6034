"""From clouds to probabilities: what the network sees of a cloud, and votes."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ...kernels import farthest_points
from .cloud import Cloud, draw
from .plan import PointPlan

BATCH = 32

Forward = Callable[..., Tensor]


def as_tensors(plan: PointPlan, cloud: Cloud) -> tuple[Tensor, ...]:
    """Positions `(points, 3)` and, where the network sees them, normals, float32.

    Raises:
        ValueError: The network sees normals and the cloud has none.
    """
    positions = torch.from_numpy(cloud.positions).float()
    if not plan.normals:
        return (positions,)
    if cloud.normals is None:
        raise ValueError("the network looks at normals, and the cloud has none")
    return positions, torch.from_numpy(cloud.normals).float()


def thin(cloud: Cloud, count: int) -> Cloud:
    """`count` points far from one another, the same ones each time and in whatever order the points come.

    Of a smaller cloud every point, and then some again.
    """
    cloud = cloud.take(np.lexsort(cloud.positions.T[::-1]))
    if len(cloud) <= count:
        return cloud.take(np.resize(np.arange(len(cloud)), count))
    return cloud.take(farthest_points(torch.from_numpy(cloud.positions)[None], count)[0].numpy())


def probabilities(
    plan: PointPlan,
    forward: Forward,
    clouds: Sequence[Cloud],
    *,
    votes: int = 1,
    tick: Callable[[], None] = lambda: None,
) -> np.ndarray:
    """Probability of each class for each cloud.

    Args:
        plan: The run's.
        forward: The network.
        clouds: Centred and scaled, see `unit`.
        votes: How many choices of points are averaged: the first is of points far from one another, the others are at
            random, from a fixed seed.
        tick: Is called after each batch.

    Returns:
        `(clouds, classes)`, float64.
    """
    total = np.zeros((len(clouds), len(plan.names)))
    for vote in range(votes):
        for start in range(0, len(clouds), BATCH):
            part = clouds[start : start + BATCH]
            seen = [
                thin(cloud, plan.points) if vote == 0 else draw(cloud, plan.points, np.random.default_rng(vote))
                for cloud in part
            ]
            batch = [torch.stack(each) for each in zip(*(as_tensors(plan, one) for one in seen), strict=True)]
            with torch.inference_mode():
                total[start : start + BATCH] += forward(*batch).double().softmax(-1).cpu().numpy()
            tick()
    return total / votes
