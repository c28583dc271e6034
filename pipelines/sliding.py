"""Sliding windows over a volume, blended and turned into labels slice by slice.

Windows overlap and are weighted by a Gaussian, so that each voxel's logits come mostly from windows in which it lies
near the middle. They are walked in order of the first axis; once no later window can reach a slice, its logits are
final, become labels on the wanted grid, and are forgotten. So memory holds one window's height of logits, never the
whole volume's. Sums are float32.

Blending and interpolation are linear, and so is the last layer of most networks: where that layer has more classes than
channels it is left to the end, and the channels are blended in place of the logits, which gives the same and costs less
memory and time.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .resample import axis_matrix

SIGMA = 0.125  # of the Gaussian, as a share of the window
LEAST_WEIGHT = 1e-3  # of a voxel in a window's corner, as MONAI has it; the middle has nearly 1


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """How a volume is cut into windows.

    Args:
        window: Voxels of a window along each axis.
        overlap: Share of a window that its neighbour along an axis sees too, 0 up to but not 1.
    """

    window: tuple[int, int, int]
    overlap: float = 0.5

    def __post_init__(self) -> None:
        if min(self.window) < 1 or not 0 <= self.overlap < 1:
            raise ValueError(
                f"expected a window of 1 or more and an overlap in [0, 1), got {self.window}, {self.overlap}"
            )

    def starts(self, shape: Sequence[int]) -> list[list[int]]:
        """First voxels of the windows along each axis; `shape` is at least the window."""
        return [_starts(n, w, self.overlap) for n, w in zip(shape, self.window, strict=True)]

    def count(self, shape: Sequence[int]) -> int:
        """How many windows a volume takes."""
        padded = [max(n, w) for n, w in zip(shape, self.window, strict=True)]
        return math.prod(len(each) for each in self.starts(padded))


def _starts(n: int, window: int, overlap: float) -> list[int]:
    step = max(1, round(window * (1 - overlap)))
    count = 1 + math.ceil((n - window) / step)
    # Spread evenly, so that the last two do not nearly coincide.
    return sorted({round(index * (n - window) / max(1, count - 1)) for index in range(count)})


def label_volume(
    image: Tensor,
    model: Callable[[Tensor], Tensor],
    tiling: Tiling,
    *,
    air: float,
    shape: Sequence[int] | None = None,
    head: Callable[[Tensor], Tensor] = lambda x: x,
    tick: Callable[[], None] = lambda: None,
) -> np.ndarray:
    """Label every voxel of a volume.

    Args:
        image: `(1, *grid)`, prepared; smaller axes than the window are padded with `air` on both sides.
        model: From `(1, 1, *window)` to logits `(1, classes, *window)`, or what `head` takes; any floating type.
        tiling: Windows and overlap.
        air: What air is in the prepared image.
        shape: Grid of the result over the same box; logits are interpolated onto it. None is the image's own.
        head: From blended `(1, channels, *slice)` to logits `(1, classes, *slice)`, float32; linear, voxel by voxel.
        tick: Called after each window.

    Returns:
        `(*shape)`, the class with the largest logit, uint8, or int16 above 256 classes.
    """
    shape = tuple(shape or image.shape[1:])
    padding = [max(0, w - n) for n, w in zip(image.shape[1:], tiling.window, strict=True)]
    before = [pad // 2 for pad in padding]
    sides = [side for b, pad in zip(reversed(before), reversed(padding), strict=True) for side in (b, pad - b)]
    padded = F.pad(image, sides, value=air) if any(padding) else image
    inside = [slice(b, b + n) for b, n in zip(before, image.shape[1:], strict=True)]
    sink: _Labels | None = None
    for index, plane in enumerate(_planes(padded, model, tiling, tick)):
        if not inside[0].start <= index < inside[0].stop:
            continue
        sink = sink or _Labels(image.shape[1:], shape, head)
        sink.push(plane[:, inside[1], inside[2]])
    assert sink is not None
    return sink.result


def _planes(
    image: Tensor, model: Callable[[Tensor], Tensor], tiling: Tiling, tick: Callable[[], None]
) -> Iterator[Tensor]:
    """Blended logits `(classes, height, width)` of each slice of the first axis, in order."""
    depth = tiling.window[0]
    rows, *others = tiling.starts(image.shape[1:])
    weight = importance(tiling.window)
    total: Tensor | None = None
    weights = torch.zeros(depth, *image.shape[2:])
    for row, following in itertools.pairwise([*rows, image.shape[1]]):
        for start in itertools.product([row], *others):
            box = tuple(slice(s, s + w) for s, w in zip(start, tiling.window, strict=True))
            logits = model(image[(None, slice(None), *box)])[0].float().cpu()
            if total is None:
                total = torch.zeros(logits.shape[0], depth, *image.shape[2:])
            total[(slice(None), slice(None), *box[1:])] += logits * weight
            weights[(slice(None), *box[1:])] += weight
            tick()
        assert total is not None
        done = following - row
        for index in range(done):
            yield total[:, index] / weights[index]
        _roll(total, done, dim=1)
        _roll(weights, done, dim=0)


def importance(window: Sequence[int]) -> Tensor:
    """The weight of each voxel of a window: a Gaussian, at least `LEAST_WEIGHT`. MONAI's own, so both blend alike."""
    from monai.data.utils import compute_importance_map

    return compute_importance_map(tuple(window), mode="gaussian", sigma_scale=SIGMA)


def _roll(x: Tensor, by: int, dim: int) -> None:
    """Move slices to the front and leave zeros behind, in place."""
    kept = max(0, x.shape[dim] - by)
    for index in range(kept):  # one by one, for a copy of them all would be half as large as what is moved
        x.select(dim, index).copy_(x.select(dim, index + by))
    x.narrow(dim, kept, x.shape[dim] - kept).zero_()


class _Labels:
    """Slices of what `head` takes in, labels on another grid over the same box out."""

    def __init__(self, grid: Sequence[int], shape: Sequence[int], head: Callable[[Tensor], Tensor]) -> None:
        self.shape, self.head = tuple(shape), head
        matrices = [torch.from_numpy(axis_matrix(n, m)) for n, m in zip(grid, shape, strict=True)]
        self.along, self.height, self.width = matrices
        self.same = [n == m for n, m in zip(grid, shape, strict=True)]
        self.waiting: dict[int, Tensor] = {}
        self.pushed, self.done = 0, 0

    def push(self, plane: Tensor) -> None:
        """Take the next slice, `(classes, height, width)`, and label what it completes."""
        if not self.same[1]:
            plane = torch.matmul(self.height, plane)
        if not self.same[2]:
            plane = torch.matmul(plane, self.width.T)
        self.waiting[self.pushed] = plane
        self.pushed += 1
        while self.done < self.shape[0]:
            needed = self.along[self.done].nonzero()[:, 0].tolist()
            if needed[-1] >= self.pushed:
                break
            plane = sum((self.along[self.done, n] * self.waiting[n] for n in needed[1:]), self._first(needed[0]))
            self._label(self.head(plane[None])[0])
            self.done += 1
            for old in [n for n in self.waiting if n < needed[0]]:
                del self.waiting[old]

    def _label(self, logits: Tensor) -> None:
        if self.done == 0:
            self.result = np.zeros(self.shape, np.uint8 if len(logits) <= 256 else np.int16)
        self.result[self.done] = logits.argmax(0).numpy()

    def _first(self, n: int) -> Tensor:
        share = self.along[self.done, n]
        return self.waiting[n] if share == 1 else self.waiting[n] * share
