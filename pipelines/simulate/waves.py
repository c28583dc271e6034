"""Fields of a periodic rectangle as sums of waves, for solvers that differentiate them exactly.

Source: two thirds of the waves: Orszag 1971, Journal of the Atmospheric Sciences 28, 1074.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rectangle:
    """A periodic rectangle and its waves, those of a real field: the last axis has the half of them.

    Args:
        shape: Samples along each of the two axes.
        spacing: From one sample to the next.
    """

    shape: tuple[int, int]
    spacing: float

    def numbers(self) -> tuple[Tensor, Tensor]:
        """Radians per length of each wave along each axis, float64, `(nx, ny // 2 + 1)`."""
        nx, ny = self.shape
        full = torch.fft.fftfreq(nx, self.spacing, dtype=torch.float64)
        half = torch.fft.rfftfreq(ny, self.spacing, dtype=torch.float64)
        x, y = torch.meshgrid(2 * math.pi * full, 2 * math.pi * half, indexing="ij")
        return x, y

    def kept(self) -> Tensor:
        """The two thirds whose products do not fold back onto one another."""
        x, y = self.numbers()
        return torch.maximum(x.abs(), y.abs()) < 2 * math.pi / (3 * self.spacing)

    def waves(self, fields: Tensor) -> Tensor:
        """Of fields `(channels, nx, ny)`."""
        return torch.fft.rfftn(fields, dim=(1, 2))

    def fields(self, waves: Tensor) -> Tensor:
        """Of waves `(channels, nx, ny // 2 + 1)`."""
        return torch.fft.irfftn(waves, s=self.shape, dim=(1, 2))

    def advection(self, velocity: Tensor, waves: Tensor) -> Tensor:
        """Waves of `-(velocity . grad)` of what has these waves, cut at two thirds.

        Args:
            velocity: Its waves, `(2, nx, ny // 2 + 1)`.
            waves: Of what is carried, `(channels, nx, ny // 2 + 1)`.
        """
        (x, y), (u, v) = self.numbers(), self.fields(velocity)
        return -self.waves(u * self.fields(1j * x * waves) + v * self.fields(1j * y * waves)) * self.kept()
