"""A file in The Well's format that goes on where another one begins, a frame of every trajectory at a time.

Where each number lies is settled when the file is made, and the last number to be written is how many frames are whole:
a process that dies at any time leaves a file that can be read and gone on with. Until it is whole or cut to what it
holds, the file has another name.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from ..files import replacing
from .check import Stored, names

WRITTEN = "additional_information/frames_written"
GROUPS = tuple(f"t{order}_fields" for order in range(3))


@dataclass(frozen=True)
class Extent:
    """What a continuation takes from its source, and how far it goes.

    Args:
        known: Frames of each that are the source's.
        frames: Frames in all.
        time_steps: Time from one frame to the next after the known ones, of each trajectory.
    """

    known: int
    frames: int
    time_steps: Sequence[float]

    @property
    def trajectories(self) -> int:
        """How many, the first ones of the source."""
        return len(self.time_steps)


class Continuation:
    """An open file, frames of shape `(trajectories, *grid, channels)` with the channels in The Well's order."""

    def __init__(self, file: Stored) -> None:
        self.file = file
        self.frames = file["dimensions/time"].shape[-1]
        self.fields = [file[group][name] for group in GROUPS for name in names(file[group])]
        self.fields = [field for field in self.fields if field.attrs["time_varying"]]

    @property
    def written(self) -> int:
        """Frames that every trajectory has."""
        return int(self.file[WRITTEN][()])

    def put(self, numbers: range, frame: int, values: Tensor) -> None:
        """Write one frame of some trajectories."""
        start = 0
        for field in self.fields:
            width = self._width(field)
            part = values[..., start : start + width].numpy()
            field[numbers.start : numbers.stop, frame] = part.reshape(len(numbers), *field.shape[2:])
            start += width

    def seal(self, frames: int) -> None:
        """Say that so many frames of every trajectory are written."""
        self.file.flush()  # numbers first, then that they are there
        self.file[WRITTEN][()] = frames
        self.file.flush()

    def last(self, numbers: range, count: int) -> Tensor:
        """The last written frames of some trajectories, `(trajectories, count, *grid, channels)`, float32."""
        stop = self.written
        parts = []
        for field in self.fields:
            found = torch.from_numpy(field[numbers.start : numbers.stop, stop - count : stop])
            parts.append(found.reshape(*found.shape[: found.ndim - self._order(field)], self._width(field)))
        return torch.cat(parts, -1)

    def _order(self, field: Stored) -> int:
        return int(field.parent.name[2])

    def _width(self, field: Stored) -> int:
        return int(self.file.attrs["n_spatial_dims"]) ** self._order(field)


def partial(path: Path) -> Path:
    """Where the file is until it is finished."""
    return path.with_name(f"{path.name}.partial")


def lay_out(path: Path, source: Path, extent: Extent, notes: Mapping[str, Any]) -> None:
    """Make a file with all that stays as it is in `source`, and room for the frames.

    Parameters that change with time stay as they are in the last known frame.

    Args:
        path: The file to make.
        source: The file that is continued.
        extent: How far.
        notes: Attributes that say where the numbers come from.
    """
    steps = np.minimum(np.arange(extent.frames), extent.known - 1)
    later = np.maximum(np.arange(extent.frames) - (extent.known - 1), 0)
    with h5py.File(source, "r") as given:
        stored: Stored = given["dimensions/time"]
        step = np.array(extent.time_steps)[:, None] if stored.attrs["sample_varying"] else extent.time_steps[0]
        times = _taken(stored, extent.trajectories, steps) + later * step
        _lay_out(path, given, extent.trajectories, steps, times.astype(np.float32), notes)


def finish(path: Path) -> None:
    """Give a whole file its name, and one that could not be completed too, cut to the frames that it holds."""
    beside = partial(path)
    with h5py.File(beside, "r") as opened:
        file: Stored = opened
        found = Continuation(file)
        trajectories, frames, whole = int(file.attrs["n_trajectories"]), found.written, found.frames
    if frames < whole:
        with replacing(path) as cut:
            _cut(cut, beside, trajectories, frames)
        beside.unlink()
        return
    with beside.open("rb+") as plain:
        os.fsync(plain.fileno())
    os.replace(beside, path)


def _cut(path: Path, source: Path, trajectories: int, frames: int) -> None:
    with h5py.File(source, "r") as given:
        stored: Stored = given["dimensions/time"]
        _lay_out(path, given, trajectories, np.arange(frames), stored[..., :frames], {})
        with h5py.File(path, "r+") as file:
            old, new = Continuation(given), Continuation(file)
            for number in range(trajectories):
                for frame in range(frames):
                    for there, here in zip(old.fields, new.fields, strict=True):
                        here[number, frame] = there[number, frame]
            new.seal(frames)


def _lay_out(
    path: Path, given: Stored, trajectories: int, steps: np.ndarray, times: np.ndarray, notes: Mapping[str, Any]
) -> None:
    with h5py.File(path, "w") as opened:
        file: Stored = opened
        file.attrs.update({**given.attrs, **notes, "n_trajectories": trajectories})
        given.copy("boundary_conditions", file)
        for group in ("dimensions", "scalars", *GROUPS):
            file.create_group(group).attrs.update(given[group].attrs)
            for name, stored in given[group].items():
                where = f"{group}/{name}"
                if group in GROUPS and stored.attrs["time_varying"]:
                    made = _room(file, where, stored, (trajectories, len(steps)))
                else:
                    made = file.create_dataset(
                        where, data=times if name == "time" else _taken(stored, trajectories, steps)
                    )
                    made.attrs.update(stored.attrs)
        file.create_dataset(WRITTEN, data=np.int64(0))


def _room(file: Stored, where: str, stored: Stored, leading: tuple[int, int]) -> Stored:
    """Room for a changing field, laid out whole, its numbers still unwritten."""
    dimensions, axes = file["dimensions"], list(file["dimensions"].attrs["spatial_dims"])
    grid = [dimensions[axis].shape[-1] for axis in axes]
    shape = (*leading, *grid, *[len(axes)] * int(where[1]))
    room = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    room.set_layout(h5py.h5d.CONTIGUOUS)
    room.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    room.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    room.set_obj_track_times(False)  # the same numbers are the same bytes
    h5py.h5d.create(file.id, where.encode(), h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple(shape), room)
    made = file[where]
    made.attrs.update({**stored.attrs, "sample_varying": np.bool_(True), "dim_varying": np.ones(len(axes), bool)})
    return made


def _taken(stored: Stored, trajectories: int, steps: np.ndarray) -> np.ndarray:
    """What is stored of these trajectories and steps, as far as it depends on them."""
    samples = bool(stored.attrs["sample_varying"])
    values = stored[:trajectories] if samples else stored[()]
    return np.take(values, steps, axis=int(samples)) if stored.attrs["time_varying"] else values
