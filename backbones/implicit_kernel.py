r"""A convolution kernel as a trained function of position, and the parts it is made of.

`kernel(taps, condition)` samples it on a grid of taps. Coordinates, window and FiLM are parts that can be exchanged.

Source: arXiv:2607.19378, the sections on kernel synthesis and on input dependence.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from ..kernels import implicit_kernel


class Coordinates(Protocol):
    """Where the taps of one axis lie, `(taps,)`; lag zero, at `taps // 2`, lies at 0."""

    def __call__(self, taps: int, device: torch.device) -> Tensor:
        """The coordinates of `taps` taps."""
        ...


@dataclass(frozen=True)
class UnitCoordinates:
    """The whole kernel spans [-1, 1] on any grid: a kernel trained at 64^3 runs at 96^3 as the same function."""

    def __call__(self, taps: int, device: torch.device) -> Tensor:
        """The coordinates of `taps` taps."""
        return StepCoordinates(1 / max(1, taps // 2))(taps, device)


@dataclass(frozen=True)
class StepCoordinates:
    """Neighbouring taps lie `step` apart on any grid: the kernel keeps its extent in voxels."""

    step: float

    def __call__(self, taps: int, device: torch.device) -> Tensor:
        """The coordinates of `taps` taps."""
        return (torch.arange(taps, device=device) - taps // 2) * self.step


class GaussianWindow(nn.Module):
    """A learned width per axis and channel, `exp(-1/2 sum_d (c_d / sigma_{d, channel})^2)`.

    Widths start log-spaced over the channels, from a window that has fallen to `narrow` at the first grid step to one
    that has fallen to `narrow` at the border, and stay between the first and one still at `wide` at the border.

    Args:
        channels: Channels of the kernel.
        axes: Axes of the grid.
        step: Distance of neighbouring taps in the coordinates, on the grid that the bounds are meant for.
        narrow: Height of the narrowest window one step off its middle.
        wide: Height of the widest window at the border, coordinate 1.
    """

    def __init__(self, channels: int, axes: int, *, step: float, narrow: float = 0.1, wide: float = 0.95) -> None:
        super().__init__()
        self.least, self.most = _width(narrow, step), _width(wide, 1.0)
        first, last = (min(max(width, self.least), self.most) for width in (self.least, _width(narrow, 1.0)))
        spread = torch.logspace(math.log10(first), math.log10(last), channels)
        self.sigma = nn.Parameter(spread.repeat(axes, 1))

    def forward(self) -> Tensor:
        """The widths `(axes, channels)` within their bounds; the gradient passes the bounds, so none gets stuck."""
        bounded = self.sigma.clamp(self.least, self.most)
        return self.sigma + (bounded - self.sigma).detach()


def without_window(channels: int, axes: int, *, step: float) -> None:
    """The kernel reaches as far as it is sampled, with full height: for what lies at the other end of the grid."""


def _width(height: float, distance: float) -> float:
    """The width of a Gaussian that has fallen to `height` at `distance`."""
    return distance / math.sqrt(-2 * math.log(height))


class Film(nn.Module):
    """From a condition `(batch, dim)` to gamma and beta of each hidden layer, `(batch, layers, 2, width)`.

    A two-layer perceptron (GELU) whose last layer starts at weight 0 and bias (1, 0): the identity, exactly.
    """

    def __init__(self, dim: int, layers: int, width: int) -> None:
        super().__init__()
        self.shape = (layers, 2, width)
        self.hidden = nn.Linear(dim, dim)
        self.last = nn.Linear(dim, layers * 2 * width)
        nn.init.zeros_(self.last.weight)
        with torch.no_grad():
            self.last.bias.view(self.shape).copy_(torch.tensor([1.0, 0.0]).view(1, 2, 1).expand(self.shape))

    def forward(self, condition: Tensor) -> Tensor:
        """Gamma and beta for each row of the condition."""
        return self.last(nn.functional.gelu(self.hidden(condition))).unflatten(-1, self.shape)


@dataclass(frozen=True, kw_only=True)
class Siren:
    """The network of sines.

    Args:
        width: Width of the hidden layers; a multiple of `bands`.
        hidden: Number of hidden layers after the first, each modulated by FiLM where there is one.
        frequencies: Lowest and highest frequency in cycles per unit of the coordinates, omega_0.
        bands: Blocks of frequencies, spaced linearly.
    """

    width: int = 32
    hidden: int = 2
    frequencies: tuple[float, float] = (1.0, 12.0)
    bands: int = 4

    def __post_init__(self) -> None:
        if self.width % self.bands:
            raise ValueError(f"width {self.width} must be a multiple of the number of bands {self.bands}")


class ImplicitKernel(nn.Module):
    """A SIREN joint over the axes, times a window, one filter for each channel.

    First-layer weights are U(-1/sqrt(axes), 1/sqrt(axes)), which gives the angle a variance of 1/9 whatever the number
    of axes, times 2 pi and the frequency of their row. Hidden layers start block-diagonal, so that the bands of
    frequencies stay apart at first. At the start each channel's kernel has about unit energy on the grid that `step`
    stands for.

    Args:
        channels: Channels of the kernel.
        axes: Axes of the grid, 1 to 3.
        siren: The network of sines.
        step: Distance of neighbouring taps in the coordinates on the grid meant to be usual; 1/31 for a grid of 32.
        coordinates: Where the taps lie; `UnitCoordinates` by default.
        condition: Width of a condition that makes the kernel depend on the input; None for a static kernel.
        window: Makes the window from channels, axes and step; `without_window` for none.
    """

    def __init__(
        self,
        channels: int,
        axes: int,
        *,
        siren: Siren | None = None,
        step: float = 1 / 31,
        coordinates: Coordinates | None = None,
        condition: int | None = None,
        window: Callable[..., GaussianWindow | None] = GaussianWindow,
    ) -> None:
        super().__init__()
        siren = siren or Siren()
        self.coordinates = coordinates or UnitCoordinates()
        self.first = nn.Linear(axes, siren.width)
        self.hidden = nn.ModuleList(nn.Linear(siren.width, siren.width) for _ in range(siren.hidden))
        self.last = nn.Linear(siren.width, channels)
        self.window = window(channels, axes, step=step)
        self.film = None if condition is None else Film(condition, siren.hidden, siren.width)
        self._start(siren, step)

    @torch.no_grad()
    def _start(self, siren: Siren, step: float) -> None:
        width, bands, axes = siren.width, siren.bands, self.first.in_features
        omega = torch.linspace(*siren.frequencies, bands).repeat_interleave(width // bands)
        self.first.weight.uniform_(-1 / math.sqrt(axes), 1 / math.sqrt(axes)).mul_(2 * math.pi * omega[:, None])
        nn.init.uniform_(self.first.bias, -math.pi, math.pi)  # without phases every kernel would be 0 at lag zero
        block = torch.block_diag(*[torch.ones(width // bands, width // bands)] * bands)
        for layer in self.hidden_layers:
            bound = math.sqrt(6 / (width // bands))
            layer.weight.uniform_(-bound, bound).mul_(block)
            nn.init.zeros_(layer.bias)
        bound = math.sqrt(6 / width)
        self.last.weight.uniform_(-bound, bound)
        nn.init.zeros_(self.last.bias)
        if self.window is None:
            taps = torch.tensor([(2 / step + 1) ** axes])
        else:
            # Under the window lie sigma sqrt(pi) / step taps' worth of energy along each axis, but at least one.
            taps = (self.window() * math.sqrt(math.pi) / step).clamp(min=1).prod(0)
        self.last.weight.mul_(taps.rsqrt()[:, None])

    @property
    def hidden_layers(self) -> list[nn.Linear]:
        """The hidden layers after the first."""
        return [layer for layer in self.hidden if isinstance(layer, nn.Linear)]

    def forward(self, taps: Sequence[int], condition: Tensor | None = None) -> Tensor:
        """Sample the kernel.

        Args:
            taps: Taps along each axis.
            condition: `(batch, dim)`, where the kernel was made to depend on one.

        Returns:
            `(1, channels, *taps)` for a static kernel, else `(batch, channels, *taps)`.

        Raises:
            ValueError: A condition is missing, or given to a static kernel.
        """
        if (condition is None) != (self.film is None):
            raise ValueError("a static kernel takes no condition, and one made with `condition` needs it")
        layers = [self.first, *self.hidden_layers, self.last]
        return implicit_kernel(
            [self.coordinates(n, self.first.weight.device) for n in taps],
            [layer.weight for layer in layers],
            [layer.bias for layer in layers],
            film=None if self.film is None else self.film(condition).to(self.first.weight.dtype),
            sigma=None if self.window is None else self.window(),
        )
