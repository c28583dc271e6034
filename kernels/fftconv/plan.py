"""What a convolution does on each axis, worked out once from sizes and boundaries."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch.nn.functional as F
from torch import Tensor

from .dft import FULL_ABOVE, LONG_ABOVE, Size, good_frequencies


@dataclass(frozen=True)
class Axis:
    """One axis of a convolution.

    Args:
        samples: Length of the grid, 1 or more.
        taps: Length of the kernel, 1 or more; lag zero lies at index `taps // 2`.
        periodic: Whether the grid wraps round; else it has zeros outside.
    """

    samples: int
    taps: int
    periodic: bool

    @property
    def reach(self) -> int:
        """The largest lag, to either side, that is kept: with zeros outside, one that lets a tap meet a sample."""
        return self.taps // 2 if self.periodic else min(self.taps // 2, self.samples - 1)

    @property
    def positions(self) -> int:
        """Length of the centred kernel; with zeros outside an odd number, so that lag zero is the middle."""
        return self.taps if self.periodic else 2 * self.reach + 1

    @property
    def frequencies(self) -> int:
        """Coefficients that hold the result without aliasing into the samples."""
        return self.samples if self.periodic else good_frequencies(self.samples + self.reach)

    @property
    def signal(self) -> Size:
        """The transform of the samples."""
        return Size(self.samples, self.frequencies, 0, self._fast, mirrored=False)

    @property
    def kernel(self) -> Size:
        """The transform of the centred kernel."""
        full = 3 * self.positions > 2 * self.frequencies > 2 * FULL_ABOVE
        return Size(self.positions, self.frequencies, self.reach, self._fast or full, mirrored=not self._fast)

    @property
    def _fast(self) -> bool:
        return self.periodic or self.frequencies > LONG_ABOVE

    def centre(self, kernel: Tensor, dim: int) -> Tensor:
        """Bring the taps to the lags -reach ... reach; on a periodic axis they stay as they are."""
        before = self.reach - self.taps // 2
        return _pad_or_cut(kernel, dim, before, self.positions - self.taps - before)

    def uncentre(self, kernel: Tensor, dim: int) -> Tensor:
        """The transpose of `centre`."""
        before = self.taps // 2 - self.reach
        return _pad_or_cut(kernel, dim, before, self.taps - self.positions - before)


def _pad_or_cut(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    if before == 0 and after == 0:
        return x
    pad = [0, 0] * (x.ndim - 1 - dim % x.ndim) + [before, after]
    return F.pad(x, pad)  # negative amounts cut


@dataclass(frozen=True)
class Plan:
    """The axes of a convolution, in the order of the grid."""

    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, grid: Sequence[int], taps: Sequence[int], periodic: Sequence[bool]) -> "Plan":
        """The plan for a grid and a kernel of these lengths."""
        return cls(tuple(Axis(n, t, p) for n, t, p in zip(grid, taps, periodic, strict=True)))

    @cached_property
    def signal(self) -> tuple[Size, ...]:
        """The transforms of the grid."""
        return tuple(axis.signal for axis in self.axes)

    @cached_property
    def kernel(self) -> tuple[Size, ...]:
        """The transforms of the centred kernel."""
        return tuple(axis.kernel for axis in self.axes)

    @cached_property
    def spectrum_shape(self) -> tuple[int, ...]:
        """Shape of one channel's half spectrum."""
        frequencies = [axis.frequencies for axis in self.axes]
        return (*frequencies[:-1], frequencies[-1] // 2 + 1)

    @cached_property
    def spectrum_size(self) -> int:
        """Coefficients in one channel's half spectrum."""
        return math.prod(self.spectrum_shape)

    def centre(self, kernel: Tensor) -> Tensor:
        """Bring a kernel `(..., *taps)` to `(..., *positions)`."""
        for dim, axis in enumerate(self.axes, start=-len(self.axes)):
            kernel = axis.centre(kernel, dim)
        return kernel

    def uncentre(self, kernel: Tensor) -> Tensor:
        """The transpose of `centre`: from `(..., *positions)` to `(..., *taps)`."""
        for dim, axis in enumerate(self.axes, start=-len(self.axes)):
            kernel = axis.uncentre(kernel, dim)
        return kernel
