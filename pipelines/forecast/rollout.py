"""Running on: a surrogate makes frame after frame out of its own, and they go to a file as they come.

What a step needs is read from the file and what it makes is written there: memory holds the known frames of one batch,
however long the rollout is, and going on after an interruption is what every step does.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import torch
from torch import Tensor

from ..files import replacing
from ..well.continuation import Continuation, Extent, finish, lay_out, partial
from ..well.windows import Window, Windows
from ..well.write import notes_of
from .stepping import Surroundings
from .surrogate import Predictor

PREFIX = "rollout_"  # of the attributes that say how a file was made
STOPPED = PREFIX + "stopped"


@dataclass(frozen=True)
class Starts:
    """Where trajectories start: their first windows, read when they are asked for.

    Args:
        windows: Of the data.
        numbers: The first window of each trajectory.
    """

    windows: Windows
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, trajectory: int) -> Window:
        return self.windows[self.numbers[trajectory]]

    def digest(self) -> str:
        """The sha256 of all that a rollout is given."""
        found = hashlib.sha256()
        for trajectory in range(len(self)):
            window = self[trajectory]
            for part in (window.history, window.constants, window.scalars, window.time_step):
                found.update(part.contiguous().numpy().tobytes())
        return found.hexdigest()


def write_rollout(
    target: Path,
    source: Path,
    starts: Starts,
    extent: Extent,
    notes: Mapping[str, Any],
    run_on: Callable[[Continuation], None],
) -> None:
    """Write a rollout as a file in The Well's format, or go on with one that was stopped.

    Args:
        target: The file; until it is whole it is called `partial(target)`.
        source: The file whose trajectories are continued.
        starts: Where they start.
        extent: How far they go.
        notes: How the numbers are made; a file that was made in another way is neither continued nor replaced.
        run_on: Fills the file.

    Raises:
        ValueError: There is a file that was made in another way.
        FloatingPointError: A prediction is not finite; the file holds what comes before it.
    """
    notes = {PREFIX + name: value for name, value in notes.items()}
    beside = partial(target)
    if target.exists():
        stopped = _expect_made_so(target, notes).get(STOPPED)
        if stopped is not None:
            raise FloatingPointError(stopped)
        return
    if beside.exists():
        _expect_made_so(beside, notes)
    else:
        _begin(beside, source, starts, extent, notes)
    try:
        with h5py.File(beside, "r+") as file:
            run_on(Continuation(file))
    except FloatingPointError as error:
        stopped = f"{error}; {target} holds what comes before"
        with h5py.File(beside, "r+") as file:
            file.attrs[STOPPED] = stopped
        finish(target)
        raise FloatingPointError(stopped) from None
    finish(target)


def _begin(path: Path, source: Path, starts: Starts, extent: Extent, notes: Mapping[str, Any]) -> None:
    with replacing(path) as fresh:
        lay_out(fresh, source, extent, notes)
        with h5py.File(fresh, "r+") as file:
            found = Continuation(file)
            for trajectory in range(len(starts)):
                for frame, values in enumerate(starts[trajectory].history):
                    found.put(range(trajectory, trajectory + 1), frame, values[None])
            found.seal(extent.known)


def _expect_made_so(path: Path, notes: Mapping[str, Any]) -> Mapping[str, Any]:
    found = notes_of(path)
    other = [name.removeprefix(PREFIX) for name, value in notes.items() if found.get(name) != value]
    if other:
        raise ValueError(f"{path} was made with another {', '.join(other)}: give another -o, or remove it")
    return found


def roll_out(
    file: Continuation,
    predict: Predictor,
    batches: Sequence[tuple[range, Surroundings]],
    known: int,
    channels: Sequence[str],
    told: Callable[[], None] = lambda: None,
) -> None:
    """Fill a file from the frames that it has to its end.

    Args:
        file: Its first `known` frames are written.
        predict: Makes the next frame.
        batches: Trajectories that go together, each number once, and what surrounds them.
        known: Frames that a step looks back on.
        channels: Their names.
        told: Called after each step.

    Raises:
        FloatingPointError: A prediction is not finite; step, trajectory and field are named, and what was written
            before that step is untouched.
    """
    for frame in range(file.written, file.frames):
        for numbers, around in batches:
            following = predict(file.last(numbers, known), around)
            _expect_finite(following, frame - known + 1, numbers, channels)
            file.put(numbers, frame, following)
        file.seal(frame + 1)
        told()


def _expect_finite(frames: Tensor, step: int, numbers: range, channels: Sequence[str]) -> None:
    bad = ~torch.isfinite(frames).flatten(1, -2).all(1)
    if bad.any():
        trajectory, channel = bad.nonzero()[0].tolist()
        raise FloatingPointError(
            f"{channels[channel]} is not finite at step {step} of trajectory {numbers[trajectory]}"
        )
