r"""Sound in a square of two materials that meet without a transition, between walls and open ends.

With pressure p, velocity u, density rho and speed of sound c::

    dp/dt = -rho c^2 div u;    du/dt = -grad p / rho

Finite volumes in float64: pressure in the middle of a cell, velocity on its faces, leapfrog in time; of second order,
also where two materials meet on faces, whose density is the mean of both. No wave passes a wall. At an open end waves
run out at the speed of sound there, those that meet it head on without an echo.

Source: Virieux 1984, Geophysics 49, 1933; open ends: Mur 1981, IEEE Transactions on Electromagnetic Compatibility 23,
377, of first order; equations of The Well's acoustic_scattering_discontinuous, arXiv:2412.00568.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .simulator import Edge, Simulator, generator_of

COURANT = 0.6  # samples that the fastest wave goes in a step; 0.7 is the limit in the plane
INTERVAL = 0.02
DENSITIES = (0.5, 2.0)
SPEEDS = (0.5, 2.0)
PULSES = 3


@dataclass(frozen=True, kw_only=True)
class Acoustics(Simulator):
    """A simulation, apart from its start.

    Args:
        grid: Samples along each axis, in the middle of as many cells of a square of side 1.
        ends: What lies at both ends of each axis, WALL or OPEN.
    """

    grid: int = 64
    ends: tuple[Edge, Edge] = ("WALL", "OPEN")

    @property
    def name(self) -> str:
        """Of the data set."""
        return "acoustics_2d"

    @property
    def fields(self) -> dict[str, int]:
        """Name and order of each."""
        return {"pressure": 0, "velocity": 1}

    @property
    def constants(self) -> tuple[str, ...]:
        """What the materials are."""
        return ("density", "speed_of_sound")

    @property
    def edges(self) -> tuple[Edge, Edge]:
        """What lies at both ends of each axis."""
        return self.ends

    @property
    def axes(self) -> dict[str, np.ndarray]:
        """Where the samples lie."""
        return {axis: (np.arange(self.grid) + 0.5) / self.grid for axis in "xy"}

    @property
    def interval(self) -> float:
        """Time from one frame to the next."""
        return INTERVAL

    @property
    def scalars(self) -> dict[str, float]:
        """None: density and speed are fields."""
        return {}

    def start(self, seed: tuple[int, ...]) -> Tensor:
        """Pulses of pressure at rest, and two materials on either side of a line.

        Returns:
            Pressure, density and speed of sound, `(3, *grid)`.
        """
        drawn = torch.rand(7 + 4 * PULSES, generator=generator_of(seed), dtype=torch.float64)
        x, y = torch.meshgrid(*(torch.as_tensor(places) for places in self.axes.values()), indexing="ij")
        angle, (across, along) = 2 * math.pi * drawn[0], 0.3 + 0.4 * drawn[1:3]
        beyond = ((x - across) * angle.cos() + (y - along) * angle.sin() > 0).long()
        density, speed = (
            (low * (high / low) ** share)[beyond]
            for (low, high), share in zip((DENSITIES, SPEEDS), drawn[3:7].view(2, 2), strict=True)
        )
        pressure = torch.zeros_like(x)
        for across, along, width, size in drawn[7:].view(PULSES, 4):
            square = (x - 0.1 - 0.8 * across) ** 2 + (y - 0.1 - 0.8 * along) ** 2
            pressure += (2 * size - 1) * torch.exp(-square / (2 * (0.04 + 0.04 * width) ** 2))
        return torch.stack((pressure, density, speed))

    def medium(self, start: Tensor) -> Tensor:
        """Density and speed of sound, `(2, *grid)`."""
        return start[1:]

    def frames(self, start: Tensor, count: int) -> Iterator[Tensor]:
        """`count` frames `(3, *grid)` of pressure and velocity, the first of them the start's."""
        pressure, density, speed = start
        steps = math.ceil(INTERVAL * self.grid * float(speed.max()) / COURANT)
        ratio, bulk = INTERVAL * self.grid / steps, density * speed**2
        faces = [_Faces(density, speed, axis, edge, ratio / 2) for axis, edge in enumerate(self.ends)]
        velocity = [pressure.new_zeros(self.grid, self.grid + 1) for _ in faces]
        for frame in range(count):
            yield torch.stack((pressure, *map(_Faces.centred, faces, velocity)))
            for _ in range(steps if frame + 1 < count else 0):
                velocity = [one.pushed(pressure, now) for one, now in zip(faces, velocity, strict=True)]
                pressure = pressure - ratio * bulk * sum(map(_Faces.divergence, faces, velocity))
                velocity = [one.pushed(pressure, now) for one, now in zip(faces, velocity, strict=True)]


class _Faces:
    """The faces of cells across one axis; velocities through them, `(grid, grid + 1)`, have that axis last.

    Args:
        density: Of the cells.
        speed: The same.
        axis: Which, 0 or 1.
        edge: What lies at both ends.
        ratio: A step of time over the distance of samples.
    """

    def __init__(self, density: Tensor, speed: Tensor, axis: int, edge: Edge, ratio: float) -> None:
        self.axis, self.open = axis, edge == "OPEN"
        density, reach = density.movedim(axis, -1), ratio * speed.movedim(axis, -1)[..., [0, -1]]
        self.ease = 2 * ratio / (density[..., 1:] + density[..., :-1])
        self.outflow = (reach - 1) / (reach + 1)

    def pushed(self, pressure: Tensor, velocity: Tensor) -> Tensor:
        """The velocity a step later."""
        inner = velocity[..., 1:-1] - self.ease * pressure.movedim(self.axis, -1).diff()
        ends = torch.zeros_like(self.outflow)
        if self.open:
            ends = velocity[..., [1, -2]] + self.outflow * (inner[..., [0, -1]] - velocity[..., [0, -1]])
        return torch.cat((ends[..., :1], inner, ends[..., 1:]), -1)

    def divergence(self, velocity: Tensor) -> Tensor:
        """What flows out of each cell, times the distance of samples."""
        return velocity.diff().movedim(-1, self.axis)

    def centred(self, velocity: Tensor) -> Tensor:
        """The velocity in the middle of each cell."""
        return (velocity[..., 1:] + velocity[..., :-1]).movedim(-1, self.axis) / 2
