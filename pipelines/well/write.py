"""New files in The Well's format, filled a frame at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np

from .check import ATTRIBUTES, Stored

Edge = Literal["WALL", "OPEN", "PERIODIC"]


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a file holds besides its numbers.

    Args:
        name: Of the data set.
        axes: Name of each axis and where its samples lie.
        times: When the frames are.
        fields: Name of each changing field and its order: 0 a scalar, 1 a vector, 2 a tensor.
        edges: What lies at both ends of each axis.
        scalars: Parameters of the simulation, the same for all trajectories of the file.
        constants: Names of the scalar fields that differ from trajectory to trajectory but do not change with time.
        notes: Attributes that say where the numbers came from.
    """

    name: str
    axes: Mapping[str, np.ndarray]
    times: np.ndarray
    fields: Mapping[str, int]
    edges: Sequence[Edge]
    scalars: Mapping[str, float] = field(default_factory=dict)
    constants: Sequence[str] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def grid(self) -> tuple[int, ...]:
        """Samples along each axis."""
        return tuple(len(places) for places in self.axes.values())


def create(path: Path, description: Description, trajectories: int) -> Stored:
    """A file with everything but the fields' numbers, open for writing.

    Field `name` of order r is at `file["tr_fields/name"]`, `(trajectories, frames, *grid, *components)`, float32; a
    constant one at `file["t0_fields/name"]`, `(trajectories, *grid)`.
    """
    file: Stored = h5py.File(path, "w")
    file.attrs.update(
        {
            "dataset_name": description.name,
            "grid_type": "cartesian",
            "n_spatial_dims": len(description.axes),
            "n_trajectories": trajectories,
            **description.notes,
            **description.scalars,
        }
    )
    _name(file, "simulation_parameters", description.scalars)
    _dimensions(file.create_group("dimensions"), description)
    _scalars(file.create_group("scalars"), description)
    _boundaries(file.create_group("boundary_conditions"), description)
    for order in range(3):
        chosen = [name for name, its in description.fields.items() if its == order]
        constants = [] if order else list(description.constants)
        group = file.create_group(f"t{order}_fields")
        _name(group, "field_names", [*chosen, *constants])
        frame = (*description.grid, *[len(description.axes)] * order)
        for name in chosen:
            whole = (trajectories, len(description.times), *frame)
            _field(group.create_dataset(name, whole, np.float32, chunks=(1, 1, *frame)), len(description.axes))
        for name in constants:
            stored = group.create_dataset(name, (trajectories, *frame), np.float32)
            _field(stored, len(description.axes), time=False)
    return file


def store(file: Stored, description: Description, place: tuple[int, int], frame: np.ndarray) -> None:
    """Put a frame `(channels, *grid)` at its trajectory and time; the components of a vector follow one another."""
    axes, start = len(description.axes), 0
    for name, order in description.fields.items():
        components = frame[start : start + axes**order]
        start += axes**order
        shape = (*description.grid, *[axes] * order)
        file[f"t{order}_fields/{name}"][place] = np.moveaxis(components, 0, -1).reshape(shape)


def store_constants(file: Stored, description: Description, trajectory: int, medium: np.ndarray) -> None:
    """Put the constant fields `(constants, *grid)` of a trajectory at its place."""
    for name, values in zip(description.constants, medium, strict=True):
        file[f"t0_fields/{name}"][trajectory] = values


def _dimensions(group: Stored, description: Description) -> None:
    _name(group, "spatial_dims", description.axes)
    _flag(group.create_dataset("time", data=description.times.astype(np.float32)), time=True)
    for axis, places in description.axes.items():
        _flag(group.create_dataset(axis, data=places.astype(np.float32)))


def _scalars(group: Stored, description: Description) -> None:
    _name(group, "field_names", description.scalars)
    for name, value in description.scalars.items():
        _flag(group.create_dataset(name, data=np.float32(value)))


def _boundaries(group: Stored, description: Description) -> None:
    for (axis, places), edge in zip(description.axes.items(), description.edges, strict=True):
        one = group.create_group(f"{axis}_{edge.lower()}")
        _name(one, "associated_dims", [axis])
        _name(one, "associated_fields", [])
        one.attrs["bc_type"] = edge
        _flag(one)
        mask = np.zeros(len(places), bool)
        mask[[0, -1]] = True
        one.create_dataset("mask", data=mask)


def _field(stored: Stored, axes: int, *, time: bool = True) -> None:
    _flag(stored, samples=True, time=time)
    stored.attrs["dim_varying"] = np.ones(axes, bool)


def _flag(item: Stored, *, samples: bool = False, time: bool = False) -> None:
    item.attrs["sample_varying"], item.attrs["time_varying"] = np.bool_(samples), np.bool_(time)


def _name(item: Stored, key: str, found: Sequence[str] | Mapping[str, Any]) -> None:
    item.attrs.create(key, list(found), dtype=h5py.string_dtype(), shape=(len(found),))


def notes_of(path: Path) -> dict[str, Any]:
    """The attributes of a file that say where its numbers came from: those that neither format nor scalars ask for."""
    with h5py.File(path, "r") as opened:
        file: Stored = opened
        parameters = [str(name) for name in file.attrs["simulation_parameters"]]
        return {name: value for name, value in file.attrs.items() if name not in (*ATTRIBUTES, *parameters)}
