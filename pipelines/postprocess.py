"""What may be done to a label map after the network: named steps, in the order in which the plan lists them.

In `plan.yaml`::

    postprocessing:
    - step: smallest volume
      classes: [liver, spleen]
      ml: 0.5
    - step: largest component
      classes: [liver]
    - step: fill holes

A step without `classes` is for every class. What is removed becomes background; what is filled was background, so that
no class ever takes a voxel of another. Parts hang together by faces, edges and corners, the background by faces alone:
of the two ways to be connected that fit one another, the one that takes less away. No step depends on the order or
direction of the axes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.ndimage import find_objects, generate_binary_structure, label

FACES, FACES_EDGES_CORNERS = (generate_binary_structure(3, reach) for reach in (1, 3))
ROUNDING = 1e-6  # ten voxels of 0.1 ml are 1 ml


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step, as the plan lists it.

    Args:
        step: Its name, one of `STEPS`.
        classes: Names of the classes that it is for; none means every class but the background.
        ml: The least volume of a part, in millilitres; for `smallest volume` alone.
    """

    step: str
    classes: tuple[str, ...] = ()
    ml: float | None = None

    def __post_init__(self) -> None:
        if self.step not in STEPS:
            raise ValueError(f"step is one of {', '.join(STEPS)}, not {self.step!r}")
        if not isinstance(self.classes, tuple) or not all(isinstance(name, str) for name in self.classes):
            raise ValueError(f"classes is a list of names, not {self.classes!r}")
        if (self.step == "smallest volume") != (self.ml is not None):
            raise ValueError(f'ml belongs to "smallest volume" and to no other step, this is {self.step!r}')
        if self.ml is not None and not (type(self.ml) in (int, float) and self.ml > 0):
            raise ValueError(f"ml is a positive number of millilitres, not {self.ml!r}")


def postprocess(labels: np.ndarray, steps: Sequence[Step], names: Mapping[int, str], voxel_ml: float) -> np.ndarray:
    """Take these steps, one after the other.

    Args:
        labels: Class indices `(i, j, k)`, integers; left as they are.
        steps: What to do.
        names: Class index to name, background at 0.
        voxel_ml: Volume of a voxel, ml.

    Returns:
        Shape and type of `labels`; `labels` itself if there is nothing to do.

    Raises:
        ValueError: A step is for a class that has no index.
    """
    if not steps:
        return labels
    check_classes(steps, names)
    result = labels.copy()
    for step in steps:
        wanted = [index for index, name in names.items() if index and (not step.classes or name in step.classes)]
        boxes = find_objects(result, max(wanted, default=1))  # no class leaves its box, so one look is enough
        for index in wanted:
            if boxes[index - 1] is not None:
                _take(step, result[boxes[index - 1]], index, voxel_ml)
    return result


def check_classes(steps: Sequence[Step], names: Mapping[int, str]) -> None:
    """Refuse steps for what is no class.

    Raises:
        ValueError: The message names it.
    """
    known = [name for index, name in names.items() if index]
    for step in steps:
        for name in step.classes:
            if name not in known:
                raise ValueError(f"postprocessing: {step.step}: no class is named {name!r}, known are {known}")


def largest_component(mask: np.ndarray) -> np.ndarray:
    """The part with the most voxels; parts that are equally large all stay."""
    parts, sizes = _parts(mask)
    return (sizes == sizes[1:].max(initial=1))[parts]


def smallest_volume(mask: np.ndarray, voxels: float) -> np.ndarray:
    """The parts with at least so many voxels."""
    parts, sizes = _parts(mask)
    return (sizes >= max(1, voxels * (1 - ROUNDING)))[parts]


def fill_holes(mask: np.ndarray) -> np.ndarray:
    """The mask with what it encloses from all sides."""
    outside, _ = _numbered(np.pad(~mask, 1, constant_values=True), FACES)
    return (outside != outside[0, 0, 0])[1:-1, 1:-1, 1:-1]


STEPS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "largest component": lambda mask, _: largest_component(mask),
    "smallest volume": smallest_volume,
    "fill holes": lambda mask, _: fill_holes(mask),
}


def _take(step: Step, labels: np.ndarray, index: int, voxel_ml: float) -> None:
    """Take a step for one class, in place, within the box that holds it."""
    mask = labels == index
    kept = STEPS[step.step](mask, (step.ml or 0) / voxel_ml)
    labels[mask & ~kept] = 0
    labels[kept & (labels == 0)] = index


def _parts(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of each voxel's part, 0 outside, and the voxels of each part, none for the outside."""
    parts, count = _numbered(mask, FACES_EDGES_CORNERS)
    sizes = np.zeros(count + 1, np.int64)
    for plane in parts:  # bincount works on int64, twice as much as the numbers of the parts take
        sizes += np.bincount(plane.ravel(), minlength=count + 1)
    sizes[0] = 0
    return parts, sizes


def _numbered(mask: np.ndarray, neighbours: np.ndarray) -> tuple[np.ndarray, int]:
    """The number of each voxel's part, from 1, and how many parts there are."""
    return cast("tuple[np.ndarray, int]", label(mask, structure=neighbours))
