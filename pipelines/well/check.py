"""What is wrong with files in The Well's format, before training meets it.

The rules are those of The Well's own `check_thewell_formatting.py`, and those that its reader and a surrogate need
beyond them: fields, grid and boundaries alike in all files, numbers that are finite, and masks that mark what they
stand for (a mask without a mark is read as an open boundary, whatever its type says).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .folder import WellFolder

ATTRIBUTES = ("dataset_name", "grid_type", "n_spatial_dims", "n_trajectories", "simulation_parameters")
GROUPS = ("dimensions", "boundary_conditions", "scalars", "t0_fields", "t1_fields", "t2_fields")
Stored = Any  # a file, group or data set of h5py, whose types cannot tell which one an index gives
BOUNDARIES = ("WALL", "OPEN", "PERIODIC")


@dataclass(frozen=True)
class Layout:
    """What the files of a data set must have in common."""

    name: str
    axes: tuple[str, ...]
    grid: tuple[int, ...]
    fields: tuple[str, ...]
    scalars: tuple[str, ...]
    boundaries: tuple[str, ...]


def check_folder(folder: WellFolder, told: Callable[[], None] = lambda: None) -> dict[Path, list[str]]:
    """The faults of each file, empty for a good one.

    Args:
        folder: The data set.
        told: Called after each file.
    """
    faults: dict[Path, list[str]] = {}
    first: tuple[Path, Layout] | None = None
    for file in folder.all_files:
        layout, faults[file] = check_file(file)
        if layout is not None:
            first = first or (file, layout)
            faults[file] += _differences(layout, *first)
        told()
    return faults


def expect_alike(files: Sequence[Path]) -> None:
    """Refuse files that one reader cannot read together.

    Raises:
        ValueError: One is damaged, or holds something else than the first.
    """
    first: Layout | None = None
    for file in files:
        layout, faults = check_file(file, lambda _: ())
        first = first or layout
        if layout is not None and first is not None:
            faults += _differences(layout, files[0], first)
        if faults:
            raise ValueError(f"{file}: {faults[0]}; `fredholm pde check` tells all that is wrong with a data set")


def check_file(path: Path, check: Callable[[Stored], Iterable[str]] | None = None) -> tuple[Layout | None, list[str]]:
    """What a file holds, None where that cannot be told, and its faults.

    Args:
        path: The file.
        check: Gives the faults of what it holds; all that is known to go wrong, its numbers too, if not given.
    """
    try:
        with h5py.File(path, "r") as file:
            missing = [f"attribute {name} is missing" for name in ATTRIBUTES if name not in file.attrs]
            missing += [f"group {name} is missing" for name in GROUPS if name not in file]
            missing = missing or list(_dimension_faults(file))
            if missing:
                return None, missing
            return _layout(file), [*(check or _contents)(file)]
    except OSError as error:
        return None, [f"no HDF5 file, or damaged: {' '.join(str(error).split())}"]


def _layout(file: Stored) -> Layout:
    dimensions = file["dimensions"]
    axes = tuple(str(axis) for axis in dimensions.attrs["spatial_dims"])
    return Layout(
        name=str(file.attrs["dataset_name"]),
        axes=axes,
        grid=tuple(dimensions[axis].shape[-1] for axis in axes),
        fields=tuple(f"t{order}:{name}" for order in range(3) for name in names(file[f"t{order}_fields"])),
        scalars=tuple(names(file["scalars"])),
        boundaries=tuple(sorted(file["boundary_conditions"])),
    )


def _differences(layout: Layout, path: Path, first: Layout) -> Iterator[str]:
    for name, expected in vars(first).items():
        found = getattr(layout, name)
        if found != expected:
            yield f"{name} {found} differ from {expected} in {path.name}"


def _dimension_faults(file: Stored) -> Iterator[str]:
    dimensions = file["dimensions"]
    axes = list(dimensions.attrs.get("spatial_dims", []))
    if len(axes) != file.attrs["n_spatial_dims"]:
        yield f"dimensions: spatial_dims are {axes}, n_spatial_dims {file.attrs['n_spatial_dims']}"
    for name in ("time", *axes):
        if name not in dimensions:
            yield f"dimensions/{name} is missing"
        else:
            yield from _flags(dimensions[name], f"dimensions/{name}")


def _contents(file: Stored) -> Iterator[str]:
    for name in file.attrs["simulation_parameters"]:
        if name not in file.attrs:
            yield f"simulation parameter {name} is not an attribute"
    for order in range(3):
        for name in names(file[f"t{order}_fields"]):
            yield from _in_group(file, f"t{order}_fields", name, partial(_field, rank=order))
    for name in names(file["scalars"]):
        yield from _in_group(file, "scalars", name, _scalar)
    for name in file["boundary_conditions"]:
        yield from _boundary(file, name)


def _in_group(file: Stored, group: str, name: str, check: Callable[..., Iterator[str]]) -> Iterator[str]:
    where = f"{group}/{name}"
    if name not in file[group]:
        yield f"{where} is named in field_names, but missing"
        return
    flaws = list(_flags(file[where], where))
    yield from flaws or check(file, file[where], where)


def _field(file: Stored, field: Stored, where: str, rank: int) -> Iterator[str]:
    dimensions = file["dimensions"]
    axes = list(dimensions.attrs["spatial_dims"])
    varying = field.attrs.get("dim_varying")
    if varying is None or len(varying) != len(axes):
        yield f"{where}: dim_varying must have a flag for each of {axes}"
        return
    grid = [dimensions[axis].shape[-1] for axis, varies in zip(axes, varying, strict=True) if varies]
    expected = (*_leading(file, field), *grid, *[len(axes)] * rank)
    if field.shape != expected:
        yield f"{where} has shape {field.shape}, its flags say {expected}"
        return
    for index, part in enumerate(field if field.ndim else [field[()]]):
        if not np.isfinite(part).all():
            yield f"{where} is not finite, first in entry {index}"
            return


def _scalar(file: Stored, scalar: Stored, where: str) -> Iterator[str]:
    if scalar.shape != _leading(file, scalar):
        yield f"{where} has shape {scalar.shape}, its flags say {_leading(file, scalar)}"


def _boundary(file: Stored, name: str) -> Iterator[str]:
    boundary, dimensions, where = file["boundary_conditions"][name], file["dimensions"], f"boundary_conditions/{name}"
    missing = [one for one in ("bc_type", "associated_dims", "associated_fields") if one not in boundary.attrs]
    if missing or "mask" not in boundary:
        yield f"{where} lacks {', '.join([*missing, *['mask'] * ('mask' not in boundary)])}"
        return
    yield from _flags(boundary, where)
    kind, axes = str(boundary.attrs["bc_type"]).upper(), list(boundary.attrs["associated_dims"])
    if kind not in BOUNDARIES:
        yield f"{where}: bc_type is {kind}, expected one of {', '.join(BOUNDARIES)}"
    unknown = [axis for axis in axes if axis not in dimensions]
    if unknown or not axes:
        yield f"{where}: associated_dims {axes} are not axes of the grid"
        return
    grid = tuple(dimensions[axis].shape[-1] for axis in axes)
    if boundary["mask"].shape[-len(axes) :] != grid:
        yield f"{where}: the mask has shape {boundary['mask'].shape}, the grid {grid}"
    elif not boundary["mask"][()].any():
        yield f"{where}: the mask marks no point, so that {kind} would be read as OPEN"


def _flags(item: Any, where: str) -> Iterator[str]:
    for flag in ("sample_varying", "time_varying"):
        if not isinstance(item.attrs.get(flag), bool | np.bool_):
            yield f"{where} needs a boolean attribute {flag}"


def _leading(file: Stored, item: Stored) -> tuple[int, ...]:
    samples = (int(file.attrs["n_trajectories"]),) if item.attrs["sample_varying"] else ()
    return samples + ((file["dimensions/time"].shape[-1],) if item.attrs["time_varying"] else ())


def names(group: Stored) -> list[str]:
    """The names that a group says it holds."""
    return [str(name) for name in group.attrs.get("field_names", [])]
