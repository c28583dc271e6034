"""Points of a cloud that stand for others: the nearest ones, and those that lie farthest from one another.

Distances are taken between differences, since by squares and products near points far from the origin are confused.
"""

import torch
from torch import Tensor

BLOCK = 1 << 22  # distances that are held at once


def nearest_points(targets: Tensor, sources: Tensor, count: int) -> Tensor:
    """The `count` nearest sources of each target, the nearest first, a target itself among them if it is a source.

    All of the nearest, however sparse the cloud is round a target: no radius leaves a place empty.

    Args:
        targets: `(batch, targets, axes)`.
        sources: `(batch, sources, axes)`.
        count: How many, at most as many as there are sources.

    Returns:
        Index into the sources `(batch, targets, count)`, int64.

    Raises:
        ValueError: There are fewer sources.
    """
    if count > sources.shape[1]:
        raise ValueError(f"{count} nearest points were asked for among {sources.shape[1]}")
    rows = max(1, BLOCK // max(1, len(sources) * sources.shape[1]))
    parts = [
        torch.cdist(part, sources, compute_mode="donot_use_mm_for_euclid_dist").topk(count, largest=False).indices
        for part in targets.split(rows, 1)
    ]
    return torch.cat(parts, 1)


def farthest_points(positions: Tensor, count: int) -> Tensor:
    """Choose points one after another, each as far as can be from those chosen before.

    The first is the point farthest from the mean, so that the same cloud always gives the same choice.

    Args:
        positions: `(batch, points, axes)`.
        count: How many, at most as many as there are points.

    Returns:
        Index `(batch, count)`, int64, no point twice.

    Raises:
        ValueError: There are fewer points.
    """
    if count > positions.shape[1]:
        raise ValueError(f"{count} points were asked for of {positions.shape[1]}")
    batch = torch.arange(len(positions), device=positions.device)
    chosen = torch.empty(len(positions), count, dtype=torch.int64, device=positions.device)
    gap = (positions - positions.mean(1, keepdim=True)).square().sum(-1)
    nearest = torch.full_like(gap, torch.inf)
    for place in range(count):
        chosen[:, place] = latest = gap.argmax(1)
        nearest = nearest.minimum((positions - positions[batch, latest][:, None]).square().sum(-1))
        nearest[batch, latest] = -1  # taken, even among points that coincide
        gap = nearest
    return chosen
