"""Patches for training: where they are cut and how they are varied, as a function of seed and number alone.

The patch with number i is the same in every run and on every number of workers, so a run that is resumed at step n
goes on with exactly the patches it would have seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

PLACES = 20_000  # voxels remembered of each class and case


@dataclass(frozen=True)
class PreparedCase:
    """A case in the network's axes and spacing.

    Args:
        name: Its name.
        image: `(1, *grid)`, float32.
        labels: `(*grid)`, class indices; one past the last where nobody labelled.
        places: For each class but the background that occurs, flat indices of some of its voxels.
    """

    name: str
    image: Tensor
    labels: Tensor
    places: dict[int, Tensor]

    @classmethod
    def of(cls, name: str, image: Tensor, labels: Tensor, classes: int | None = None) -> "PreparedCase":
        """A case whose classes' places are looked up once; indices from `classes` on are none."""
        flat = labels.flatten()
        order = torch.argsort(flat, stable=True)
        counts = torch.bincount(flat.long())
        places, start = {}, int(counts[0])
        for index, count in enumerate(counts.tolist()[1:classes], start=1):
            if count:
                own = order[start : start + count]
                places[index] = own[:: max(1, count // PLACES)].clone()
            start += count
        return cls(name, image, labels, places)


class Augmentation(Protocol):
    """Varies a patch, from nothing but the numbers it is given."""

    def __call__(self, image: Tensor, labels: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """`(1, *window)` and `(*window)` to the same."""
        ...


class Patches(Dataset):
    """`length` patches, each `(image (1, *window), labels (*window))`.

    Args:
        cases: The training cases.
        window: Voxels along each axis; a case that is smaller is padded with air.
        air: What air is in the prepared images.
        foreground: Share of patches that hold a voxel of a class drawn evenly from those of the case.
        length: How many there are.
        seed: What they are drawn from.
        augmentation: What varies them; None leaves them as they are.
    """

    def __init__(
        self,
        cases: Sequence[PreparedCase],
        window: Sequence[int],
        *,
        air: float,
        foreground: float,
        length: int,
        seed: int,
        augmentation: Augmentation | None = None,
    ) -> None:
        self.cases, self.window, self.air = list(cases), tuple(window), air
        self.foreground, self.length, self.seed, self.augmentation = foreground, length, seed, augmentation

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        rng = np.random.default_rng((self.seed, number))
        case = self.cases[rng.integers(len(self.cases))]
        start = self._start(case, rng)
        image = _cut(case.image, start, self.window, self.air)
        labels = _cut(case.labels, start, self.window, 0)
        if self.augmentation is not None:
            image, labels = self.augmentation(image, labels, rng)
        return image, labels

    def _start(self, case: PreparedCase, rng: np.random.Generator) -> list[int]:
        """Where the window begins along each axis; may be outside by as much as the case is too small."""
        shape = case.labels.shape
        low = [min(0, (n - w) // 2) for n, w in zip(shape, self.window, strict=True)]
        high = [max(n - w, (n - w) // 2) for n, w in zip(shape, self.window, strict=True)]
        if case.places and rng.random() < self.foreground:
            own = case.places[int(rng.choice(sorted(case.places)))]
            voxel = np.unravel_index(int(own[rng.integers(len(own))]), shape)
            # Anywhere that holds the voxel, so that the network does not learn to look at the middle.
            start = [int(v - rng.integers(w)) for v, w in zip(voxel, self.window, strict=True)]
            return [min(max(s, lo), hi) for s, lo, hi in zip(start, low, high, strict=True)]
        return [int(rng.integers(lo, hi + 1)) for lo, hi in zip(low, high, strict=True)]


def _cut(x: Tensor, start: Sequence[int], window: Sequence[int], outside: float) -> Tensor:
    """A window of the last axes, with `outside` where it leaves the tensor; never a view of it."""
    axes, shape = len(window), x.shape[-len(window) :]
    result = x.new_full((*x.shape[: x.ndim - axes], *window), outside)
    source = [slice(max(0, s), min(n, s + w)) for s, n, w in zip(start, shape, window, strict=True)]
    target = [slice(part.start - s, part.stop - s) for part, s in zip(source, start, strict=True)]
    result[(..., *target)] = x[(..., *source)]
    return result
