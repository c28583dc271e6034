r"""VRMSE and its kin.

For each frame and channel, over space::

    VRMSE(x, y) = sqrt( mean (x - y)^2 / (mean (y - mean y)^2 + 1e-7 std^2) )

so that the spatial mean scores 1. The small term, in units of the field's standard deviation in training, keeps a frame
that hardly varies from ruling all means; with it as without it the score has no unit.

The Well's own code differs: its variance divides by n - 1, and 1e-7 is added in whatever unit the field has, so that
fields with small values score too well. `well_vrmse` is that, for comparison with scores made by it.

Source: arXiv:2412.00568, its section on metrics.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..scores import Metric

VRMSE = Metric("VRMSE", 4)
WELL_EPSILON = 1e-7
WELL_STEPS = 100  # after which its trainer ends a rollout
PUBLISHED_WINDOWS = ((6, 12), (13, 30))  # of its tables; taken here as counted from 0, the first predicted step


def vrmse(prediction: Tensor, truth: Tensor, std: Tensor) -> Tensor:
    """VRMSE of each frame and channel.

    Args:
        prediction: `(frames, *grid, channels)`.
        truth: The same.
        std: Of each channel in training.

    Returns:
        `(frames, channels)`, float64.
    """
    error, variance = _moments(prediction, truth)
    return (error / (variance + WELL_EPSILON * std.double() ** 2)).sqrt()


def well_vrmse(prediction: Tensor, truth: Tensor) -> Tensor:
    """The same as The Well's code counts it."""
    error, variance = _moments(prediction, truth)
    samples = truth[0, ..., 0].numel()
    return (error / (variance * (samples / max(1, samples - 1)) + WELL_EPSILON)).sqrt()


def _moments(prediction: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    if prediction.shape != truth.shape:
        raise ValueError(f"prediction has shape {tuple(prediction.shape)}, truth {tuple(truth.shape)}")
    space = tuple(range(1, truth.ndim - 1))
    prediction, truth = prediction.double(), truth.double()
    return (prediction - truth).square().mean(space), truth.var(space, correction=0)


def band_errors(prediction: Tensor, truth: Tensor, std: Tensor, bands: int = 3) -> Tensor:
    """Share of the truth's variance that is missed in each band of wave numbers: `(frames, bands, channels)`.

    Wave numbers are counted in waves along the box; the bands' edges are spaced evenly in their logarithm from 1 to the
    highest that all axes have. A band's error is the energy of the difference over the energy of the truth in it, to
    which the small term of VRMSE is added.

    Args:
        prediction: `(frames, *grid, channels)`.
        truth: The same.
        std: Of each channel in training.
        bands: How many.
    """
    grid, axes = truth.shape[1:-1], tuple(range(1, truth.ndim - 1))
    radius = _wave_numbers(grid)
    edges = torch.logspace(0, torch.log10(torch.tensor(max(2.0, min(grid) / 2), dtype=torch.float64)), bands + 1)
    edges[-1] = torch.inf
    error, energy = (torch.fft.fftn(field.double(), dim=axes).abs().square() for field in (prediction - truth, truth))
    least = WELL_EPSILON * std.double() ** 2 * math.prod(grid) ** 2
    found = []
    for low, high in itertools.pairwise(edges.tolist()):
        band = ((radius >= low - 1e-9) & (radius < high - 1e-9)).flatten()
        missed, there = (values.flatten(1, -2)[:, band].sum(1) for values in (error, energy))
        found.append((missed / (there + least)).sqrt())
    return torch.stack(found, 1)


def spectrum(field: Tensor) -> Tensor:
    """Energy of the waves of each whole number along the box, from 1 up: `(frames, waves, channels)`, float64.

    Args:
        field: `(frames, *grid, channels)`.
    """
    grid, axes = field.shape[1:-1], tuple(range(1, field.ndim - 1))
    energy = (torch.fft.fftn(field.double(), dim=axes).abs() / math.prod(grid)).square().flatten(1, -2)
    shell = _wave_numbers(grid).round().long().flatten()
    found = energy.new_zeros(len(field), int(shell.max()) + 1, field.shape[-1]).index_add_(1, shell, energy)
    return found[:, 1 : max(2, min(grid) // 2 + 1)]


def trainer_windows(steps: int) -> list[tuple[int, int]]:
    """The windows of steps that The Well's own trainer scores in a rollout of so many, the first step being 0."""
    steps = min(steps, WELL_STEPS)
    edges = [0, *(int(math.exp(place * math.log(steps) / 4) + 1e-9) for place in range(5))]
    return [pair for pair in itertools.pairwise(edges) if pair[0] < pair[1]]


def _wave_numbers(grid: Sequence[int]) -> Tensor:
    """How many waves along the box each coefficient of a Fourier transform stands for."""
    waves = torch.meshgrid(*(torch.fft.fftfreq(n, 1 / n, dtype=torch.float64) for n in grid), indexing="ij")
    return torch.stack([wave**2 for wave in waves]).sum(0).sqrt()
