"""From a data set and a few wishes to a plan and prepared cases."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from .cache import ANEW, Keep
from .dataset import Case, DataSet, read_case
from .plan import Network, Plan, Recipe
from .prepare import fitting, prepare_image, prepare_labels
from .reasons import reasons
from .resample import resampled_shape
from .sampling import PLACES, PreparedCase
from .splits import Split
from .survey import Look, look
from .volume import Volume

SIDE = 32  # a window's sides are multiples of it
FLOAT, INDEX = 4, 8  # bytes


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a user may ask for; None leaves the choice to the data.

    Args:
        network: Which network.
        recipe: How to train; its window is the largest wanted.
        split: Which cases train and which are held out; cases in neither are left out.
        spacing_mm: Distance between voxels towards right, front and head.
        window_hu: Range of Hounsfield units that is looked at.
        coarsening: How many times larger than the data's median a voxel is; without meaning where a spacing is given.
        mirrored: Directions along which patches are mirrored.
    """

    network: Network = field(default_factory=Network)
    recipe: Recipe = field(default_factory=Recipe)
    split: Split | None = None
    spacing_mm: tuple[float, float, float] | None = None
    window_hu: tuple[float, float] | None = None
    coarsening: float = 1.0
    mirrored: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan, why it is so, and what its cases take.

    Args:
        plan: The plan.
        reasons: Why, by field of the plan.
        read_bytes: Of a scan and its label map as they are read, of the largest case.
        prepared_bytes: Of what training keeps of them.
        held_out_grids: Voxels of the prepared cases that are held out.
    """

    plan: Plan
    reasons: dict[str, str]
    read_bytes: int
    prepared_bytes: int
    held_out_grids: list[tuple[int, int, int]]


@dataclass(frozen=True)
class Prepared:
    """A plan with the cases it speaks of."""

    plan: Plan
    training: list[PreparedCase]
    validation: list[PreparedCase]


def plan_dataset(
    dataset: DataSet, wishes: Wishes, tick: Callable[[str], None] = lambda name: None, keep: Keep = ANEW
) -> Planned:
    """Make the plan for a data set; each of its cases is read, one at a time.

    Args:
        dataset: With label maps.
        wishes: What is asked for.
        tick: Is told the name of each case that was looked at.
        keep: Where looks are kept for the next time, such as a `Cache`.

    Raises:
        ValueError: No labels, a name that is no case, or files that do not fit together.
    """
    train, held_out = _sides(dataset, wishes.split or own_split(dataset))
    looks = {}
    for case in (*train, *held_out):
        looks[case.name] = keep.look(case, lambda case=case: look(*_read(dataset, case), len(dataset.names)))
        tick(case.name)
    plan = _plan(dataset, wishes, [looks[case.name] for case in train], (train, held_out))
    channels, places = len(dataset.channels), PLACES * len(dataset.names)
    grids = {name: resampled_shape(one, plan.preparation.spacing_mm) for name, one in looks.items()}
    return Planned(
        plan=plan,
        reasons=reasons(plan, [looks[case.name] for case in train], wishes.recipe.window),
        read_bytes=max(one.read_bytes for one in looks.values()),
        prepared_bytes=sum(
            math.prod(grids[name]) * (FLOAT * channels + one.label_bytes) + INDEX * places
            for name, one in looks.items()
        ),
        held_out_grids=[grids[case.name] for case in held_out],
    )


def prepare_cases(
    dataset: DataSet, plan: Plan, tick: Callable[[str], None] = lambda name: None, keep: Keep = ANEW
) -> Prepared:
    """Prepare the cases of a plan.

    Args:
        dataset: Whose cases the plan names.
        plan: With a recipe.
        tick: Is told the name of each case that is prepared.
        keep: Where prepared cases are kept for the next time, such as a `Cache`; what it kept is not read.

    Raises:
        ValueError: A case of the plan is no longer in the data set.
    """
    if plan.recipe is None or not {"training", "validation"} <= plan.data.keys():
        raise ValueError("the plan has no recipe and no cases: a converted network was not trained here")
    if plan.channels != dataset.channels:
        raise ValueError(f"{dataset.root}: channels {dataset.channels}, but the run was planned for {plan.channels}")
    if plan.names != dataset.names:
        raise ValueError(f"{dataset.root}: the classes are {dataset.names}, but the run was planned for {plan.names}")
    names = {case.name for case in dataset.labelled}
    split = Split(*(tuple(plan.data[part]) for part in ("training", "validation")))
    missing = [name for name in (*split.training, *split.validation) if name not in names]
    if missing:
        raise ValueError(f"{dataset.root}: the run was planned with case {missing[0]!r}, which is not there any more")
    train, held_out = _sides(dataset, split)

    def one(case: Case) -> PreparedCase:
        prepared = keep.case(case, plan.preparation, lambda: _prepared(plan, case, *_read(dataset, case)))
        tick(case.name)
        return prepared

    return Prepared(plan, [one(case) for case in train], [one(case) for case in held_out])


def coarser(spacing_mm: tuple[float, float, float], times: float) -> tuple[float, float, float]:
    """The spacing of voxels so many times larger; the finest sides give way first, so that voxels get more cubic."""
    ordered, target = sorted(spacing_mm), 0.0
    for count in (1, 2, 3):  # sides that become alike
        target = (times * math.prod(ordered[:count])) ** (1 / count)
        if target <= min(ordered[count:], default=math.inf):
            break
    i, j, k = (max(side, round(target, 3)) for side in spacing_mm)
    return i, j, k


def own_split(dataset: DataSet) -> Split:
    """What the data set itself holds out, or every fifth patient of five or more."""
    names = [case.name for case in dataset.labelled]
    return Split.usual(names) if dataset.validation is None else Split.holding_out(names, dataset.validation)


def _sides(dataset: DataSet, split: Split) -> tuple[list[Case], list[Case]]:
    cases = {case.name: case for case in dataset.labelled}
    return [cases[name] for name in split.training], [cases[name] for name in split.validation]


def _plan(dataset: DataSet, wishes: Wishes, looks: Sequence[Look], sides: tuple[list[Case], list[Case]]) -> Plan:
    preparation = fitting(looks)
    spacing = wishes.spacing_mm or coarser(preparation.spacing_mm, wishes.coarsening)
    preparation = replace(preparation, spacing_mm=spacing)
    if wishes.window_hu is not None:
        preparation = replace(preparation, window_hu=wishes.window_hu)
    window = _window([resampled_shape(one, spacing) for one in looks], wishes.recipe.window)
    return Plan(
        names=dataset.names,
        channels=dataset.channels,
        mirrored=wishes.mirrored,
        regions=dataset.classes.regions,
        preparation=preparation,
        network=replace(wishes.network, channels=len(dataset.channels)),
        recipe=replace(wishes.recipe, window=window),
        window=window,
        data=_data(dataset.root, *sides),
    )


def _read(dataset: DataSet, case: Case) -> tuple[Volume, np.ndarray]:
    volume, labels = read_case(dataset, case)
    assert labels is not None
    return volume, labels


def _window(grids: Sequence[tuple[int, int, int]], largest: Sequence[int]) -> tuple[int, int, int]:
    """The largest window wanted, but along no axis more than the median scan needs."""
    if any(side % SIDE for side in largest):
        raise ValueError(f"each side of a window is a multiple of {SIDE}, not {tuple(largest)}")
    needed = np.ceil(np.median(grids, axis=0) / SIDE).astype(int) * SIDE
    i, j, k = (int(min(n, w)) for n, w in zip(needed, largest, strict=True))
    return i, j, k


def _prepared(plan: Plan, case: Case, volume: Volume, labels: np.ndarray) -> PreparedCase:
    image = prepare_image(volume, plan.preparation)
    return PreparedCase.of(case.name, image, prepare_labels(labels, volume, image.shape[1:]), len(plan.names))


def _data(root: Path, train: Sequence[Case], held_out: Sequence[Case]) -> dict[str, object]:
    return {
        "folder": root.name,
        "training": [case.name for case in train],
        "validation": [case.name for case in held_out],
    }
