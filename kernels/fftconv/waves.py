r"""DFT matrices of one axis for the Triton kernels: cosines and sines of one half, in float32.

Samples are folded about an origin first, as in `dft.py`, into their even and their odd part. With the angle
t = 2 pi k (p - origin) / m and sums over the upper half of the samples::

    E[k] = sum of cos t (x[up] + x[down])       X[+k] = E[k] - i O[k]
    O[k] = sum of sin t (x[up] - x[down])       X[-k] = E[k] + i O[k]

which is a quarter of the arithmetic of a complex matrix, and the way back has the same form. The origin of a signal is
its middle and cancels between the way in and the way out; that of a kernel is its lag zero, wherever it lies. Padding,
crop and wrapping are in the numbers of rows and columns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from .plan import Axis, Plan

SMALL = 16  # positions of each axis of a box that one program convolves
POINT = Axis(1, 1, periodic=False)


@dataclass(frozen=True)
class Wave:
    """The transform of one axis.

    Args:
        positions: Samples or taps.
        period: m.
        centre: Twice the origin.
        order: Where negative frequencies lie: `"half"` nowhere, since the signal is real; `"fft"` as PyTorch's FFT has
            them; `"mirrored"` as `dft.py` does.
    """

    positions: int
    period: int
    centre: int
    order: str

    @property
    def frequencies(self) -> int:
        """How many coefficients are kept."""
        return self.kept if self.order == "half" else self.period

    @property
    def kept(self) -> int:
        """Frequencies from zero up."""
        return self.period // 2 + 1

    @property
    def half(self) -> int:
        """Positions in the longer of the halves above and below the origin."""
        return max(self.positions - (self.centre + 1) // 2, self.centre // 2 + 1)

    def angles(self, frequencies: Tensor) -> Tensor:
        """2 pi k (p - origin) / m for every position and some frequencies, less full turns."""
        # Reduced in whole numbers, so that no digit is lost at high frequencies.
        turns = torch.outer(2 * torch.arange(self.positions) - self.centre, frequencies) % (2 * self.period)
        return turns.double() * (math.pi / self.period)

    def signed_frequencies(self) -> Tensor:
        """Those kept, in the order in which their coefficients lie."""
        k = torch.arange(self.frequencies)
        if self.order == "half":
            return k
        return torch.where(k < self.kept, k, self.kept - 1 - k if self.order == "mirrored" else k - self.period)


class Fold(NamedTuple):
    """An axis as kernels take it, or two axes at once."""

    into: Tensor  # (2, half, kept): cosines and sines
    back: Tensor  # the same, scaled for the way back
    positions: int
    upper: int  # the first position of the upper half
    lower: int  # that of the lower, which goes down from there; the same if the origin lies on a position
    half: int
    kept: int  # frequencies from zero up
    period: int
    negative: int  # the coefficient of frequency -k lies at negative + step k
    step: int


# Kept matrices serve training too, so they must not be made as inference tensors.
@lru_cache(maxsize=256)
@torch.inference_mode(False)
def fold(wave: Wave, device: torch.device) -> Fold:
    """The matrices of an axis, on a device."""
    angles = wave.angles(torch.arange(wave.kept))
    weights = (_multiplicity(wave.period) if wave.order == "half" else torch.ones(wave.kept)) / wave.period
    negative, step = (wave.kept - 1, 1) if wave.order == "mirrored" else (wave.period, -1)
    return _fold(angles, weights, wave.centre, device, wave.period, negative, step)


@lru_cache(maxsize=64)
@torch.inference_mode(False)
def fold_pair(first: Wave, last: Wave, device: torch.device) -> Fold:
    """The matrices of a signal's last two axes as if they were one, of which no half is spared but by the fold.

    Seen from the middle of a plane, what lies opposite has the opposite angle, as on an axis.
    """
    angles = first.angles(first.signed_frequencies())[:, None, :, None]
    angles = angles + last.angles(last.signed_frequencies())[None, :, None, :]
    weights = (_multiplicity(last.period) / (first.period * last.period)).expand(first.period, -1)
    positions = first.positions * last.positions
    return _fold(angles.flatten(2).flatten(0, 1), weights.flatten(), positions - 1, device, 1, 0, 1)


def _fold(
    angles: Tensor, weights: Tensor, centre: int, device: torch.device, period: int, negative: int, step: int
) -> Fold:
    upper, lower = (centre + 1) // 2, centre // 2
    below, above = angles[: lower + 1].flip(0), angles[upper:]
    longer = above if len(above) >= len(below) else -below
    into = torch.stack((longer.cos(), longer.sin()))
    back = into * weights
    if upper == lower:  # the sample in the middle is its own partner
        into[:, 0] /= 2
    into, back = (each.to(device, torch.float32).contiguous() for each in (into, back))
    return Fold(into, back, len(angles), upper, lower, len(longer), len(weights), period, negative, step)


def _multiplicity(m: int) -> Tensor:
    """How often each kept frequency of a real signal counts: for itself and for its conjugate."""
    k = torch.arange(m // 2 + 1)
    return 1.0 + ((k > 0) & (2 * k < m)).double()


def signal_waves(plan: Plan) -> list[Wave]:
    """The transforms of the samples, of three axes."""
    return [Wave(axis.samples, axis.frequencies, axis.samples - 1, order) for axis, order in _with_orders(plan)]


def kernel_waves(plan: Plan) -> list[Wave]:
    """The transforms of the taps that `effective_taps` leaves, of three axes."""
    return [
        Wave(len(_useful(axis)), axis.frequencies, 2 * (axis.taps // 2 - _useful(axis).start), order)
        for axis, order in _with_orders(plan)
    ]


def is_small(waves: Sequence[Wave]) -> bool:
    """Whether one program convolves a box of three axes."""
    return waves[0].period > 1 and max(wave.positions for wave in waves) <= SMALL


def effective_taps(kernel: Tensor, plan: Plan) -> Tensor:
    """A view of the taps that can meet a sample, of `(..., *taps)`."""
    for dim, axis in enumerate(plan.axes, start=-len(plan.axes)):
        kernel = kernel.narrow(dim, _useful(axis).start, len(_useful(axis)))
    return kernel


def _useful(axis: Axis) -> range:
    middle = axis.taps // 2
    return range(middle - axis.reach, min(axis.taps, middle + axis.reach + 1))


def _with_orders(plan: Plan) -> list[tuple[Axis, str]]:
    """Three axes: a line is a plane with one row, a plane a box with one plane.

    The orders are those of `dft.py`, so that a kept spectrum serves either backend.
    """
    axes = (POINT,) * (3 - len(plan.axes)) + plan.axes
    orders = ["mirrored" if axis.kernel.mirrored else "fft" for axis in axes[:-1]]
    return list(zip(axes, [*orders, "half"], strict=True))
