"""What a generator of data is: a simulation that knows its start, its frames, and how a file describes them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

Edge = Literal["WALL", "OPEN", "PERIODIC"]


class Simulator(Protocol):
    """A simulation with all its parameters; its `repr` is the recipe that a file keeps.

    Args:
        name: Of the data set.
        axes: Name of each axis and where its samples lie.
        interval: Time from one frame to the next.
        fields: Name of each field and its order: 0 a scalar, 1 a vector.
        edges: What lies at both ends of each axis.
        scalars: Its parameters.
        constants: Names of the fields, of order 0, that differ from start to start but do not change.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def axes(self) -> Mapping[str, np.ndarray]: ...  # noqa: D102

    @property
    def interval(self) -> float: ...  # noqa: D102

    @property
    def fields(self) -> Mapping[str, int]: ...  # noqa: D102

    @property
    def edges(self) -> Sequence[Edge]: ...  # noqa: D102

    @property
    def scalars(self) -> Mapping[str, float]: ...  # noqa: D102

    @property
    def constants(self) -> Sequence[str]:  # noqa: D102
        return ()

    def start(self, seed: tuple[int, ...]) -> Tensor:
        """A state to start from, the same for the same seed."""
        ...

    def frames(self, start: Tensor, count: int) -> Iterator[Tensor]:
        """`count` frames `(channels, *grid)`, float64, a vector's components one after the other."""
        ...

    def medium(self, start: Tensor) -> Tensor:
        """The constant fields of a start, `(constants, *grid)`."""
        return start[:0]


def generator_of(seed: tuple[int, ...]) -> torch.Generator:
    """Random numbers that differ wherever one number of the seed does."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
