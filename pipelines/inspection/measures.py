r"""Numbers that tell how a layer fares, as functions of tensors alone.

    entropy          H = - sum p log2 p, the mean over rows, in bits
    focus            1 - H / log2 N: 0 where all N are looked at alike, 1 where one is
    effective rank   exp( - sum s ln s ), s the singular values of centred features as shares of their sum
    extent           root mean square distance from lag zero, weighted by the kernel's squares, in samples
    frequency        mean frequency, weighted by the power spectrum, in cycles per sample

Source: entropy and focus, "Universal interpolation for deep residual self-attention networks"; rank, Roy and Vetterli
2007, "The effective rank".
"""

import math

import torch
from torch import Tensor


def entropy_bits(probabilities: Tensor) -> float:
    """The mean entropy of the rows of `(..., n)`, which sum to 1, in bits."""
    return float(-torch.xlogy(probabilities, probabilities).sum(-1).mean() / math.log(2))


def focus(entropy: float, count: int) -> float:
    """The focus score of an entropy in bits over so many; 1 where there is but one to look at."""
    return 1 - entropy / math.log2(count) if count > 1 else 1.0


def effective_rank(features: Tensor) -> float:
    """Of `(samples, channels)`, from 1 to the number of channels; 1 where nothing varies."""
    values = torch.linalg.svdvals((features - features.mean(0)).double())
    shares = values / values.sum().clamp(min=torch.finfo(torch.float64).tiny)
    return float(torch.exp(-torch.xlogy(shares, shares).sum()))


def extents(kernel: Tensor) -> list[float]:
    """Along each axis of `(channels, *taps)`, the mean over channels; lag zero lies at `taps // 2`."""
    energy = kernel.double().square()
    found = []
    for axis in range(1, kernel.ndim):
        along = _along(energy, axis)
        lag = torch.arange(along.shape[1]) - along.shape[1] // 2
        found.append(float(((along * lag.square()).sum(1) / along.sum(1)).sqrt().nanmean()))
    return found


def spectrum(kernel: Tensor, axis: int) -> Tensor:
    """Power by frequency along one axis of `(channels, *taps)`, of all channels together, as shares of their sum."""
    power = torch.fft.rfft(kernel.double(), dim=axis).abs().square()
    whole = _along(power, axis).sum(0)
    return whole / whole.sum()


def mean_frequency(power: Tensor) -> float:
    """Of a spectrum from 0 to about half a cycle per sample."""
    return float((power * torch.linspace(0, 0.5, len(power), dtype=power.dtype)).sum())


def _along(values: Tensor, axis: int) -> Tensor:
    """Sums over all axes but channels and one, `(channels, n)`."""
    return values.movedim(axis, 1).flatten(2).sum(2) if values.ndim > 2 else values
