r"""Two layers of an incompressible fluid that slide past one another, with a tracer; a periodic square of side 1.

With vorticity w, tracer s and stream function psi::

    dw/dt = -(u . grad) w + lap w / Re;    ds/dt = -(u . grad) s + lap s / (Re Sc)
    lap psi = -w;                          u = (d psi / dy, -d psi / dx)

Pseudo-spectral in float64, products cut at two thirds of the waves; diffusion is advanced exactly, advection to second
order (`etd`). The mean velocity is zero.

Source: equations of The Well's shear_flow, arXiv:2412.00568.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from .etd import etd2
from .simulator import Edge, Simulator, generator_of
from .waves import Rectangle

COURANT = 0.2  # samples that the layers, of speed 1, go in a step
INTERVAL = 0.1
FASTEST_WAVE = 4
REGIMES = [(reynolds, schmidt) for reynolds in (250, 500, 1000) for schmidt in (0.5, 1.0)]


@dataclass(frozen=True, kw_only=True)
class ShearFlow(Simulator):
    """A simulation, apart from its start.

    Args:
        reynolds: Re, of speed and side 1.
        schmidt: Sc, viscosity over the tracer's diffusion.
        grid: Samples along each axis.
        steps: The solver's steps from one frame to the next, 0.1 apart; 0 for as many as the grid needs.
    """

    reynolds: float
    schmidt: float
    grid: int = 64
    steps: int = 0

    @property
    def name(self) -> str:
        """Of the data set."""
        return "shear_flow_2d"

    @property
    def fields(self) -> dict[str, int]:
        """Name and order of each."""
        return {"tracer": 0, "velocity": 1}

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Periodic all round."""
        return ("PERIODIC", "PERIODIC")

    @property
    def axes(self) -> dict[str, np.ndarray]:
        """Where the samples lie."""
        return {axis: np.arange(self.grid) / self.grid for axis in "xy"}

    @property
    def interval(self) -> float:
        """Time from one frame to the next."""
        return INTERVAL

    @property
    def scalars(self) -> dict[str, float]:
        """Parameters."""
        return {"Reynolds": self.reynolds, "Schmidt": self.schmidt}

    def start(self, seed: tuple[int, ...]) -> Tensor:
        """Vorticity and tracer `(2, *grid)`: two layers of random width, waves of random phase across them."""
        generator = generator_of(seed)
        width = 0.03 + 0.03 * float(torch.rand((), generator=generator, dtype=torch.float64))
        phases, sizes = torch.rand(2, FASTEST_WAVE, generator=generator, dtype=torch.float64)
        x, y = self._places()
        rise, fall = torch.tanh((y - 0.25) / width), torch.tanh((y - 0.75) / width)
        layer = rise - fall - 1
        slope = (fall**2 - rise**2) / width
        across = torch.zeros_like(x)
        for wave, (phase, size) in enumerate(zip(phases, sizes, strict=True), 1):
            angle = 2 * math.pi * wave * (x + phase)
            across = across + 0.05 * size * 2 * math.pi * wave * torch.cos(angle)  # d/dx of the velocity along y
        vorticity = across - slope
        return torch.stack((vorticity - vorticity.mean(), layer))

    def frames(self, start: Tensor, count: int) -> Iterator[Tensor]:
        """`count` frames `(3, *grid)` of tracer and velocity, the first of them the start's.

        Raises:
            FloatingPointError: The solution is no longer finite.
        """
        steps = self.steps or math.ceil(INTERVAL * self.grid / COURANT)
        square = Rectangle((self.grid, self.grid), 1 / self.grid)
        advance = etd2(self._diffusion(square), partial(_advection, square), INTERVAL / steps)
        wave = square.waves(start) * square.kept()
        for frame in range(count):
            state = square.fields(torch.cat((wave[1:], _velocity(square, wave[0]))))
            if not torch.isfinite(state).all():
                raise FloatingPointError(f"shear flow is not finite at frame {frame}: try a lower Reynolds number")
            yield state
            for _ in range(steps if frame + 1 < count else 0):
                wave = advance(wave)

    def _places(self) -> tuple[Tensor, Tensor]:
        x = torch.arange(self.grid, dtype=torch.float64) / self.grid
        return tuple(torch.meshgrid(x, x, indexing="ij"))  # pyright: ignore[reportReturnType]

    def _diffusion(self, square: Rectangle) -> Tensor:
        x, y = square.numbers()
        diffusivities = (1 / self.reynolds, 1 / (self.reynolds * self.schmidt))
        return -torch.stack([diffusivity * (x**2 + y**2) for diffusivity in diffusivities])


def _velocity(square: Rectangle, vorticity: Tensor) -> Tensor:
    x, y = square.numbers()
    laplacian = x**2 + y**2
    laplacian[0, 0] = 1  # no mean
    stream = vorticity / laplacian
    return torch.stack((1j * y * stream, -1j * x * stream))


def _advection(square: Rectangle, wave: Tensor) -> Tensor:
    return square.advection(_velocity(square, wave[0]), wave)
