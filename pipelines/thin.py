"""Thin structures of a label map, kept when it goes to another grid.

A vessel one voxel wide has the largest share of no voxel that is twice as wide: a vote by shares would leave nothing of
it. So every voxel whose label the vote left nowhere near takes the place that it covers on the new grid. What is thick
is found again beside its border and stays as it was voted.
"""

import itertools
from collections.abc import Sequence

import numpy as np

SLAB = 16  # slices looked at together


def keep_thin(labels: np.ndarray, result: np.ndarray) -> None:
    """Give structures that a vote lost back to `result`, in place.

    A voxel of `labels` is lost if its label, which is not 0, is on none of the voxels of `result` within one of its
    centre, corners included. It then takes the voxel of `result` in which its centre lies, on a border those on either
    side, and all whose centre lies in it. If several want one, the smallest label has it; what would itself be lost by
    giving a voxel up keeps it.

    Args:
        labels: `(i, j, k)`, integers, 0 is background.
        result: The same box on another grid, of the type of `labels`.
    """
    places, wanted = _lost(labels, result)
    if not len(wanted):
        return
    claims, values = _claims(places, wanted, labels.shape, result.shape)
    claimed = result.copy()
    claimed[tuple(claims)] = 0
    owners = result[tuple(claims)]
    granted = np.ones(len(values), bool)
    granted[_far(claimed, claims, claims, owners)] = False
    granted |= owners == 0
    result[tuple(claims[:, granted])] = values[granted]


def _lost(labels: np.ndarray, result: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Voxels of `labels` that `result` has nothing of, `(3, lost)`, and their labels."""
    cells = [_under_centre(np.arange(n), n, m) for n, m in zip(labels.shape, result.shape, strict=True)]
    places, values = [np.empty((3, 0), np.int64)], [np.empty(0, labels.dtype)]
    for start in range(0, labels.shape[0], SLAB):
        part = labels[start : start + SLAB]
        first, *others = (low for low, _ in cells)
        missed = (part != 0) & (part != result[np.ix_(first[start : start + SLAB], *others)])
        place, wanted = np.stack(np.nonzero(missed)), part[missed]
        place[0] += start
        low, high = (np.stack([cell[side][at] for cell, at in zip(cells, place, strict=True)]) for side in (0, 1))
        lost = _far(result, low, high, wanted)
        places.append(place[:, lost])
        values.append(wanted[lost])
    return np.concatenate(places, axis=1), np.concatenate(values)


def _claims(
    places: np.ndarray, values: np.ndarray, shape: Sequence[int], target: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Voxels of `target` that voxels of `shape` take, `(3, claims)`, and their labels, the smallest last."""
    ends = [_covered(at, n, m) for at, n, m in zip(places, shape, target, strict=True)]
    low, high = (np.stack([end[side] for end in ends]) for side in (0, 1))
    steps = itertools.product(*(range(int(width) + 1) for width in (high - low).max(axis=1)))
    claims = [np.minimum(low + np.array(step)[:, None], high) for step in steps]
    wanted = np.tile(values, len(claims))
    order = np.argsort(wanted, kind="stable")[::-1]
    return np.concatenate(claims, axis=1)[:, order], wanted[order]


def _under_centre(voxels: np.ndarray, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last of m voxels that the centres of some of n touch; they differ on a border only."""
    twice = (2 * voxels + 1) * m
    return -(-twice // (2 * n)) - 1, twice // (2 * n)


def _covered(voxels: np.ndarray, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last of m voxels that lie under the centres of some of n, or have their own centre in them."""
    low, high = _under_centre(voxels, n, m)
    first, last = -(-(2 * voxels * m - n) // (2 * n)), (2 * (voxels + 1) * m - n) // (2 * n)
    return np.minimum(low, np.maximum(first, 0)), np.maximum(high, np.minimum(last, m - 1))


def _far(grid: np.ndarray, low: np.ndarray, high: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Which of `values` are on no voxel of `grid` from one below `low` to one above `high`."""
    last = np.array(grid.shape)[:, None] - 1
    left = np.arange(len(values))
    steps = range(-1, 2 + int((high - low).max(initial=0)))
    for step in sorted(itertools.product(steps, repeat=3), key=lambda step: sum(map(abs, step))):
        at = np.minimum(low[:, left] + np.array(step)[:, None], high[:, left] + 1).clip(0, last)
        left = left[grid[tuple(at)] != values[left]]
    return left
