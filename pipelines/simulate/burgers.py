r"""Burgers' equation of a viscous flow with shocks, in a square between two walls that it slides along.

With velocity u and viscosity nu::

    du/dt = -(u . grad) u + nu lap u

Periodic along x; at the walls, at the ends of y, nothing flows through and nothing holds the flow back. So the flow is
half of one in a periodic rectangle twice as wide, that is its own mirror image. Pseudo-spectral in float64, products
cut at two thirds of the waves; diffusion is advanced exactly, advection to second order (`etd`).

Source: Burgers 1948, Advances in Applied Mechanics 1, 171.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .etd import etd2
from .simulator import Edge, Simulator, generator_of
from .waves import Rectangle

COURANT = 0.2  # samples that the fastest flow goes in a step: it is fastest at its start
INTERVAL = 0.02
FASTEST_WAVE = 3
VISCOSITIES = (0.01, 0.02, 0.04)


@dataclass(frozen=True, kw_only=True)
class Burgers(Simulator):
    """A simulation, apart from its start.

    Args:
        viscosity: nu, of speed and side 1.
        grid: Samples along each axis.
        steps: The solver's steps from one frame to the next, 0.02 apart; 0 for as many as the grid needs.
    """

    viscosity: float
    grid: int = 64
    steps: int = 0

    @property
    def name(self) -> str:
        """Of the data set."""
        return "burgers_2d"

    @property
    def fields(self) -> dict[str, int]:
        """Name and order of each."""
        return {"velocity": 1}

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Periodic along x, walls at the ends of y."""
        return ("PERIODIC", "WALL")

    @property
    def axes(self) -> dict[str, np.ndarray]:
        """Where the samples lie, along y half a sample from the walls."""
        x = np.arange(self.grid) / self.grid
        return {"x": x, "y": x + 0.5 / self.grid}

    @property
    def interval(self) -> float:
        """Time from one frame to the next."""
        return INTERVAL

    @property
    def scalars(self) -> dict[str, float]:
        """Parameters."""
        return {"viscosity": self.viscosity}

    def start(self, seed: tuple[int, ...]) -> Tensor:
        """A velocity `(2, *grid)` of a few waves of random size and phase, 1 where it is fastest."""
        generator = generator_of(seed)
        x, y = torch.meshgrid(*(torch.as_tensor(places) for places in self.axes.values()), indexing="ij")
        numbers = torch.arange(FASTEST_WAVE + 1, dtype=torch.float64).view(-1, 1, 1)
        shape = (2, FASTEST_WAVE + 1, FASTEST_WAVE + 1)
        sizes = torch.randn(shape, generator=generator, dtype=torch.float64)
        phases = torch.rand(shape, generator=generator, dtype=torch.float64)
        along = torch.cos(2 * math.pi * (numbers[:, None] * x + phases[..., None, None]))
        between = torch.stack((torch.cos(math.pi * numbers * y), torch.sin(math.pi * numbers * y)))
        velocity = torch.einsum("ckm,ckmxy,cmxy->cxy", sizes, along, between)
        return velocity / velocity.square().sum(0).max().sqrt()

    def frames(self, start: Tensor, count: int) -> Iterator[Tensor]:
        """`count` frames `(2, *grid)` of the velocity, the first of them the start's.

        Raises:
            FloatingPointError: The solution is no longer finite.
        """
        steps = self.steps or math.ceil(INTERVAL * self.grid / COURANT)
        both = Rectangle((self.grid, 2 * self.grid), 1 / self.grid)
        diffusion = -self.viscosity * torch.stack([number**2 for number in both.numbers()]).sum(0)
        advance = etd2(diffusion, lambda wave: both.advection(wave, wave), INTERVAL / steps)
        mirrored = start.flip(-1) * torch.tensor([1.0, -1.0]).view(2, 1, 1)
        wave = both.waves(torch.cat((start, mirrored), -1)) * both.kept()
        for frame in range(count):
            state = both.fields(wave)[..., : self.grid]
            if not torch.isfinite(state).all():
                raise FloatingPointError(f"Burgers' flow is not finite at frame {frame}: try a finer grid")
            yield state
            for _ in range(steps if frame + 1 < count else 0):
                wave = advance(wave)
