"""From a scan to what the network sees, and the answer back onto the scan's own grid."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .plan import Preparation
from .resample import resample_image, resample_labels
from .survey import Look
from .volume import Volume, canonical

PERCENTILES = (0.5, 99.5)  # of the labelled voxels' HU: what lies beyond is cut off


def prepare_image(volume: Volume, preparation: Preparation) -> Tensor:
    """Bring a scan into the network's axes, spacing and range.

    Args:
        volume: Hounsfield units, or what else its channels measure, in any axis order.
        preparation: Spacing, window of each channel and range.

    Returns:
        `(channels, right, front, head)`, float32: axes run towards the patient's right, front and head.

    Raises:
        ValueError: The image has more or fewer channels than there are windows.
    """
    windows = preparation.windows
    if len(volume.channels) != len(windows):
        raise ValueError(f"the image has {len(volume.channels)} channels, the plan is for {len(windows)}")
    channels = resample_image(canonical(volume), preparation.spacing_mm).channels
    scaled = [scale(one, window, preparation.range) for one, window in zip(channels, windows, strict=True)]
    return torch.from_numpy(np.stack(scaled))


def scale(image: np.ndarray, window: tuple[float, float], ends: tuple[float, float]) -> np.ndarray:
    """Cut values to the window, and bring its ends to these, float32."""
    (low, high), (first, last) = window, ends
    scaled = np.clip(image.astype(np.float32, copy=False), low, high)
    scaled -= low  # in place, for each copy of a scan is hundreds of megabytes
    scaled /= high - low
    scaled *= last - first
    scaled += first
    return scaled


def prepare_labels(labels: np.ndarray, like: Volume, shape: Sequence[int]) -> Tensor:
    """Bring class indices, in `like`'s axis order, onto the prepared image's grid; `(right, front, head)`, uint8."""
    own = canonical(Volume(labels, like.affine)).array
    return torch.from_numpy(np.ascontiguousarray(resample_labels(own, shape)))


def fitting(looks: Sequence[Look]) -> Preparation:
    """A preparation for a data set: the median spacing of its scans and the windows that its labelled voxels fill.

    Args:
        looks: At scans of the same channels.

    Raises:
        ValueError: No voxel of any scan is labelled.
    """
    spacing = [round(float(value), 3) for value in np.median([one.spacing_mm for one in looks], axis=0)]
    labelled = np.concatenate([one.values for one in looks], axis=1)
    if labelled.size == 0:
        raise ValueError("no voxel of the data set is labelled: every label map is empty")
    first, *others = (_window(values) for values in labelled)
    return Preparation(
        spacing_mm=(spacing[0], spacing[1], spacing[2]), window_hu=first, windows_of_others=tuple(others)
    )


def _window(labelled: np.ndarray) -> tuple[float, float]:
    low, high = (float(round(value)) for value in np.percentile(labelled, PERCENTILES))
    return low, max(high, low + 1)
