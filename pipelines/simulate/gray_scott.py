r"""Gray-Scott reaction and diffusion in a periodic box, pseudo-spectral in float64.

The equations::

    dA/dt = 2e-5 lap A - A B^2 + F (1 - A);    dB/dt = 1e-5 lap B + A B^2 - (F + k) B

Diffusion and decay are advanced exactly, the reaction to second order (`etd`). Neighbouring samples lie 1/64 apart, as
in The Well's box of side 2 with 128 samples, so that a smaller grid is a smaller box and no coarser.

Source: Pearson 1993, Science 261, 189; regimes and constants of The Well's gray_scott_reaction_diffusion,
arXiv:2412.00568.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .etd import etd2
from .simulator import Edge, Simulator, generator_of

DIFFUSION = (2e-5, 1e-5)
SPACING = 1 / 64
REGIMES = {
    "gliders": (0.014, 0.054),
    "bubbles": (0.098, 0.057),
    "maze": (0.029, 0.057),
    "worms": (0.058, 0.065),
    "spirals": (0.018, 0.051),
    "spots": (0.03, 0.062),
}


@dataclass(frozen=True, kw_only=True)
class GrayScott(Simulator):
    """A simulation, apart from its start.

    Args:
        feed: F.
        kill: k.
        dim: Axes of the box, 1 to 3.
        grid: Samples along each axis.
        step: The solver's time step.
        every: Steps from one frame to the next.
    """

    feed: float
    kill: float
    dim: int = 2
    grid: int = 64
    step: float = 1.0
    every: int = 10

    @property
    def name(self) -> str:
        """Of the data set."""
        return f"gray_scott_{self.dim}d"

    @property
    def fields(self) -> dict[str, int]:
        """Name and order of each."""
        return {"A": 0, "B": 0}

    @property
    def axes(self) -> dict[str, np.ndarray]:
        """Where the samples lie."""
        return {axis: SPACING * np.arange(self.grid) for axis in "xyz"[: self.dim]}

    @property
    def interval(self) -> float:
        """Time from one frame to the next."""
        return self.step * self.every

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Periodic all round."""
        return ("PERIODIC",) * self.dim

    @property
    def scalars(self) -> dict[str, float]:
        """Parameters."""
        return {"F": self.feed, "k": self.kill}

    def start(self, seed: tuple[int, ...]) -> Tensor:
        """A = 1, B = 0 but for Gaussian clusters in which B has taken A's place; the same for the same seed.

        Weaker clusters die out in some regimes.

        Returns:
            `(2, *grid)`.
        """
        generator = generator_of(seed)
        count = max(3, round((self.grid / 16) ** self.dim / 2))
        centres = torch.rand(count, self.dim, generator=generator, dtype=torch.float64) * self.grid
        width = 3.0  # samples
        axis = torch.arange(self.grid, dtype=torch.float64)
        spots = torch.zeros((self.grid,) * self.dim, dtype=torch.float64)
        for centre in centres:
            distances = [(axis - c + self.grid / 2).remainder(self.grid) - self.grid / 2 for c in centre]
            square = sum(d**2 for d in torch.meshgrid(*distances, indexing="ij"))
            spots = torch.maximum(spots, torch.exp(-torch.as_tensor(square) / (2 * width**2)))
        return torch.stack((1 - spots, spots))

    def frames(self, start: Tensor, count: int) -> Iterator[Tensor]:
        """`count` frames `(2, *grid)`, the first of them the start.

        Raises:
            FloatingPointError: The solution is no longer finite.
        """
        axes = tuple(range(1, self.dim + 1))
        advance = etd2(self._linear(), self._reaction, self.step)
        wave = torch.fft.rfftn(start, dim=axes)
        for frame in range(count):
            state = torch.fft.irfftn(wave, s=start.shape[1:], dim=axes)
            if not torch.isfinite(state).all():
                raise FloatingPointError(f"Gray-Scott is not finite at frame {frame}: try a smaller step")
            yield state
            for _ in range(self.every if frame + 1 < count else 0):
                wave = advance(wave)

    def _linear(self) -> Tensor:
        full = torch.fft.fftfreq(self.grid, SPACING, dtype=torch.float64)
        half = torch.fft.rfftfreq(self.grid, SPACING, dtype=torch.float64)
        waves = torch.meshgrid(*[full] * (self.dim - 1), half, indexing="ij")
        laplacian = -((2 * math.pi) ** 2) * torch.stack([k**2 for k in waves]).sum(0)
        decay = (self.feed, self.feed + self.kill)
        return torch.stack([d * laplacian - rate for d, rate in zip(DIFFUSION, decay, strict=True)])

    def _reaction(self, wave: Tensor) -> Tensor:
        axes, grid = tuple(range(1, self.dim + 1)), (self.grid,) * self.dim
        a, b = torch.fft.irfftn(wave, s=grid, dim=axes)
        rate = a * b**2
        return torch.fft.rfftn(torch.stack((self.feed - rate, rate)), dim=axes)
