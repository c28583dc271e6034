"""Why a plan is as it is, in sentences for its reader."""

from collections.abc import Sequence

import numpy as np

from .plan import DIRECTIONS, Plan
from .prepare import PERCENTILES
from .resample import resampled_shape
from .survey import Look


def reasons(plan: Plan, looks: Sequence[Look], largest: Sequence[int]) -> dict[str, str]:
    """A reason for each choice that the data had a part in, by field of the plan.

    Args:
        plan: Made for these cases.
        looks: At its training scans.
        largest: The window that was wished for.
    """
    shapes = [resampled_shape(one, plan.preparation.spacing_mm) for one in looks]
    median = " x ".join(f"{n:.0f}" for n in np.median(shapes, axis=0))
    darker, brighter = PERCENTILES[0], round(100 - PERCENTILES[1], 3)
    return {
        "names": "\n".join(["Medians of the training scans:", *_volumes(plan, looks)]),
        "preparation": "What is done to a scan before the network sees it.",
        "preparation.spacing_mm": f"Towards {', '.join(DIRECTIONS)}. The training scans have {_spread(looks)} mm; "
        "their median, unless --spacing or --fast was given.",
        "preparation.window_hu": f"Unless --window-hu was given, {darker:g} % of the labelled voxels are darker and "
        f"{brighter:g} % brighter.",
        "network.stages": "A letter for each encoder stage: H HyenaND, A windowed attention, I ITNet.",
        "network.feature_size": "A multiple of 12; step time and memory grow with it.",
        "recipe.window": f"Multiples of 32, at most {' x '.join(map(str, largest))} as asked for or as the device has "
        f"it, and no larger than the median scan needs, which has {median} voxels at this spacing.",
        "recipe.batch": "Patches of a step; step time and memory grow with it.",
        "recipe.class_weights": "Of voxels in the cross-entropy, by class index, such as {2: 3.0}. All alike, as the "
        "Dice counts each class once whatever its volume, and patches are centred on classes drawn evenly.",
        "window": "Of prediction; the same as recipe.window, or a multiple of 32 that prediction has the memory for.",
    }


def _spread(looks: Sequence[Look]) -> str:
    spacings = np.array([one.spacing_mm for one in looks])
    ends = zip(spacings.min(0), spacings.max(0), strict=True)
    return " x ".join(f"{low:.3g}" if np.isclose(low, high) else f"{low:.3g}..{high:.3g}" for low, high in ends)


def _volumes(plan: Plan, looks: Sequence[Look]) -> list[str]:
    """Volume and share of each class but the background."""
    counts = np.array([one.voxels for one in looks])
    volumes = np.median(counts * np.array([[one.voxel_ml] for one in looks]), axis=0)
    shares = 100 * counts.sum(0) / counts.sum()
    found = (counts > 0).sum(0)
    return [
        f"{name}: {volumes[index]:.3g} ml, {shares[index]:.2g} % of voxels, in {found[index]} of {len(looks)}"
        for index, name in plan.names.items()
        if index
    ]
