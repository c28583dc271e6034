"""How training patches are varied: small turns and stretches, brightness, contrast, noise and blur, through MONAI.

Mirrored only where it is asked for: in a body left is not right, and a network for sided organs must not learn that it
is.
"""

from collections.abc import Sequence

import numpy as np
import torch
from monai.transforms import (
    RandAdjustContrast,
    RandAffined,
    RandGaussianNoise,
    RandGaussianSmooth,
    RandScaleIntensity,
    RandShiftIntensity,
)
from torch import Tensor

TURN = np.deg2rad(12)  # at most, about each axis
STRETCH = 0.12  # at most, along each axis


class CTAugmentation:
    """Vary a CT patch whose values lie in `low ... high`.

    Args:
        low: What air is. Voxels that turn in from outside repeat the border.
        high: The upper end of the values.
        affine: Share of patches that are turned and stretched.
        mirrored: Axes of the patch along each of which half of all are mirrored.
    """

    def __init__(self, low: float, high: float, *, affine: float = 0.3, mirrored: Sequence[int] = ()) -> None:
        self.low, self.high, self.mirrored = low, high, mirrored
        span = high - low
        self.geometry = RandAffined(
            keys=("image", "labels"),
            prob=affine,
            rotate_range=(TURN,) * 3,
            scale_range=(STRETCH,) * 3,
            mode=("bilinear", "nearest"),
            padding_mode="border",
        )
        self.intensity = (
            RandScaleIntensity(factors=0.15, prob=0.3),
            RandShiftIntensity(offsets=0.05 * span, prob=0.3),
            RandAdjustContrast(gamma=(0.8, 1.25), prob=0.15),
            RandGaussianNoise(std=0.03 * span, prob=0.2),
            RandGaussianSmooth(sigma_x=(0.5, 1.0), sigma_y=(0.5, 1.0), sigma_z=(0.5, 1.0), prob=0.1),
        )

    def __call__(self, image: Tensor, labels: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """`(1, *window)` and `(*window)` to the same; the type of the labels is kept."""
        reversed_axes = [axis - 3 for axis in self.mirrored if rng.random() < 0.5]
        image, labels = image.flip(reversed_axes), labels.flip(reversed_axes)
        self.geometry.set_random_state(seed=int(rng.integers(2**31)))
        moved = self.geometry({"image": image, "labels": labels[None].float()})
        image, turned = _plain(moved["image"]), _plain(moved["labels"])[0].to(labels.dtype)
        for transform in self.intensity:
            transform.set_random_state(seed=int(rng.integers(2**31)))
            image = _plain(transform(image))
        return image.clamp(self.low, self.high), turned


def _plain(x: object) -> Tensor:
    """A tensor without MONAI's records of what was done to it, which would grow from patch to patch."""
    return x.as_tensor() if hasattr(x, "as_tensor") else torch.as_tensor(x)  # pyright: ignore[reportAttributeAccessIssue]
