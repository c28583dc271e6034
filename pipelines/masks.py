"""One file for each class, put together in one label map.

Where masks overlap, a voxel goes to the smallest of them, counted in voxels of that case, and of equals to the later
class. So a lesion or a part stays whole within the organ around it, whatever their names.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from .images import read_labels
from .volume import Volume, reordered, same_grid


def merge_masks(masks: Mapping[int, Path], like: Volume, *, assume: str | None = None) -> np.ndarray:
    """Read masks, one at a time, into a label map.

    Args:
        masks: Class index, from 1, to file. A voxel is in the class where the file is not 0.
        like: The image on whose grid they lie; their axes may run in another order.
        assume: Orientation of files that state none, see `read_labels`.

    Returns:
        Class indices in the shape and axis order of `like`, uint8 (int16 above 255 classes); 0 where no mask is.

    Raises:
        ValueError: A mask is on another grid, or holds more than one value beside 0; the file is named.
    """
    labels = np.zeros(like.shape, np.uint8 if max(masks, default=0) < 256 else np.int16, order="F")
    voxels = np.full(max(masks, default=0) + 1, np.iinfo(np.int64).max)  # of each class; background gives way to all
    for index, inside in _read(sorted(masks.items()), like, assume):
        voxels[index] = np.count_nonzero(inside)
        there = labels[inside]
        labels[inside] = np.where(voxels[there] >= voxels[index], index, there)
    return labels


def _read(masks: Iterable[tuple[int, Path]], like: Volume, assume: str | None) -> Iterable[tuple[int, np.ndarray]]:
    for index, file in masks:
        mask = reordered(read_labels(file, assume=assume), like=like)
        same_grid(like, mask)
        inside = mask.array != 0
        values = np.unique(mask.array[inside])
        if len(values) > 1:
            raise ValueError(f"{file} is no mask of one class: it holds the values {values.tolist()[:5]} beside 0")
        yield index, inside
