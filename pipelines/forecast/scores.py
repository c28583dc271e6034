r"""VRMSE and its kin.

For each frame and channel, over space::

    VRMSE(x, y) = sqrt( mean (x - y)^2 / mean (y - mean y)^2 )

so that the spatial mean scores 1 and the score has no unit. Where the truth does not vary there is no score, NaN.
The Well's own code differs: its variance divides by n - 1, and 1e-7 is added to it in whatever unit the field has, so
that fields with small values score too well. `well_vrmse` is that, for comparison with scores made by it.

Source: arXiv:2412.00568, its section on metrics.
"""

import itertools

import torch
from torch import Tensor

from ..scores import Metric

VRMSE = Metric("VRMSE", 4)
WELL_EPSILON = 1e-7


def vrmse(prediction: Tensor, truth: Tensor) -> Tensor:
    """VRMSE of fields `(..., *grid, channels)` with a leading axis of frames: `(frames, channels)`, float64."""
    error, variance = _moments(prediction, truth)
    return torch.where(variance > 0, (error / variance).sqrt(), torch.nan)


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


def band_errors(prediction: Tensor, truth: Tensor, bands: int = 3) -> Tensor:
    """Share of the truth's variance that is missed in each band of wave numbers: `(frames, bands, channels)`.

    Wave numbers are counted in waves along the box; the bands' edges are spaced evenly in their logarithm from 1 to the
    highest that all axes have. A band's error is the energy of the difference over the energy of the truth in it.

    Args:
        prediction: `(frames, *grid, channels)`.
        truth: The same.
        bands: How many.
    """
    grid = truth.shape[1:-1]
    axes = tuple(range(1, truth.ndim - 1))
    waves = torch.meshgrid(*(torch.fft.fftfreq(n, 1 / n, dtype=torch.float64) for n in grid), indexing="ij")
    radius = torch.stack([wave**2 for wave in waves]).sum(0).sqrt()
    edges = torch.logspace(0, torch.log10(torch.tensor(max(2.0, min(grid) / 2), dtype=torch.float64)), bands + 1)
    edges[-1] = torch.inf
    error, energy = (torch.fft.fftn(field.double(), dim=axes).abs().square() for field in (prediction - truth, truth))
    found = []
    for low, high in itertools.pairwise(edges.tolist()):
        band = ((radius >= low - 1e-9) & (radius < high - 1e-9)).flatten()
        parts = [values.flatten(1, -2)[:, band].sum(1) for values in (error, energy)]
        found.append(torch.where(parts[1] > 0, (parts[0] / parts[1]).sqrt(), torch.nan))
    return torch.stack(found, 1)
