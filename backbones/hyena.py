r"""HyenaND: gates round one convolution as large as the grid, in the grid's own dimensions.

For `x` `(batch, *grid, dim)`::

    q, k, v = short(project(x))
    y = out( RMSNorm( sigmoid(v) * ( K(x) conv RMSNorm( l2(q) * SiLU(k) ) ) ) )

K is a kernel made from coordinates (`ImplicitKernel`), static or conditioned on the pooled registers of x. It stands
where self-attention stands in a pre-norm residual block.

Source: arXiv:2607.19378; `project` and `out` are its linear maps, `short` its depthwise convolution.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..kernels import Boundary, Spectrum, fftconv, gate, short_convolution, spectrum
from .implicit_kernel import ImplicitKernel
from .registers import RegisterPool

LARGE_KERNEL_BYTES = 64 << 20


class Gates(Protocol):
    """What happens to q and k before the long convolution, and with v after it; all `(batch, *grid, dim)`."""

    def inner(self, q: Tensor, k: Tensor) -> Tensor:
        """The convolution's input."""
        ...

    def outer(self, h: Tensor, v: Tensor) -> Tensor:
        """The mixer's output from the convolution's."""
        ...


class UnitGates(nn.Module):
    """The gates of the paper: `RMSNorm(l2(q) * SiLU(k))` and `RMSNorm(sigmoid(v) * h)`, each norm with its scale."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.inner_scale = nn.Parameter(torch.ones(dim))
        self.outer_scale = nn.Parameter(torch.ones(dim))

    def inner(self, q: Tensor, k: Tensor) -> Tensor:
        """The convolution's input."""
        return gate(q, k, self.inner_scale, activation="silu", unit=True)

    def outer(self, h: Tensor, v: Tensor) -> Tensor:
        """The mixer's output from the convolution's."""
        return gate(h, v, self.outer_scale, activation="sigmoid")


class ProductGates(nn.Module):
    """Plain products: `norm(LayerNorm(q) * LayerNorm(k))` and `v * h`, as MONAI's port has them.

    `norm` is taken over channels and grid together.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.q_norm, self.k_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.norm = nn.GroupNorm(1, dim)

    def inner(self, q: Tensor, k: Tensor) -> Tensor:
        """The convolution's input."""
        u = self.q_norm(q) * self.k_norm(k)
        u = u if u.dtype == torch.float64 else u.float()
        u = F.layer_norm(u, u.shape[1:], eps=self.norm.eps)  # as accurate as `GroupNorm`, channels last
        return (u * self.norm.weight + self.norm.bias).to(q.dtype)

    def outer(self, h: Tensor, v: Tensor) -> Tensor:
        """The mixer's output from the convolution's."""
        return h * v


class ShortConvolution(nn.Module):
    """A depthwise convolution with few taps, channels last, on the same boundaries as the long one.

    Args:
        channels: Channels.
        boundary: One for each axis.
        taps: Taps along each axis, an odd number.
    """

    def __init__(self, channels: int, boundary: Sequence[Boundary], taps: int = 3) -> None:
        super().__init__()
        if taps % 2 == 0:
            raise ValueError(f"taps must be odd, so that the convolution has a middle, got {taps}")
        self.boundary = tuple(boundary)
        self.weight = nn.Parameter(torch.empty(channels, 1, *(taps for _ in boundary)))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """From `(batch, *grid, channels)` to the same."""
        reach = self.weight.shape[-1] // 2
        for axis, boundary in enumerate(self.boundary, start=1):
            if boundary == "periodic":
                x = wrap(x, reach, axis)
        return short_convolution(x, self.weight, [reach if boundary == "zero" else 0 for boundary in self.boundary])


def wrap(x: Tensor, reach: int, axis: int) -> Tensor:
    """Lay `reach` samples from the other side before and behind an axis, round again where it is shorter."""
    places = torch.arange(-reach, x.shape[axis] + reach, device=x.device) % x.shape[axis]
    return x.index_select(axis, places)


def whole_grid(samples: int, boundary: Boundary) -> int:
    """Taps that let every voxel meet every other and lie evenly about lag zero.

    2 n - 1 with zeros outside; where it wraps the first odd number from n on, whose ends meet where n is even.
    """
    return 2 * samples - 1 if boundary == "zero" else 2 * (samples // 2) + 1


def half_grid(samples: int, boundary: Boundary) -> int:
    """Taps that reach half the grid to either side, whatever the boundary: the odd one of n and n - 1."""
    return 2 * ((samples + 1) // 2) - 1


class HyenaND(nn.Module):
    """Mix all positions of a grid in O(N log N); its parts are passed in.

    Args:
        dim: Channels in and out.
        boundary: What lies outside the grid, one for each axis.
        kernel: Makes the long kernel, `kernel(taps, condition)`.
        gates: What stands round the convolution; the paper's by default.
        short: The short convolution of q, k and v together; three taps by default.
        pool: Makes the condition from the registers at the head of the grid; None for a static kernel.
        extent: How many taps the kernel has on an axis, from its samples and boundary.
    """

    gates: Gates

    def __init__(
        self,
        dim: int,
        boundary: Sequence[Boundary],
        kernel: ImplicitKernel,
        *,
        gates: Gates | None = None,
        short: nn.Module | None = None,
        pool: RegisterPool | None = None,
        extent: Callable[[int, Boundary], int] = whole_grid,
    ) -> None:
        super().__init__()
        self.boundary = tuple(boundary)
        self.project = nn.Linear(dim, 3 * dim, bias=False)
        self.short = short or ShortConvolution(3 * dim, self.boundary)
        self.kernel = kernel
        self.shortcut = nn.Parameter(torch.empty(dim).uniform_(-1, 1) / math.sqrt(dim))
        self.gates = gates or UnitGates(dim)
        self.pool = pool
        self.extent = extent
        self.out = nn.Linear(dim, dim, bias=False)
        self._kept: tuple[Tensor, Spectrum] | None = None

    def forward(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """From `(batch, *grid, dim)` to the same; with a pool the grid starts with the registers' planes.

        Args:
            x: The grid.
            condition: `(batch, width)`, what the kernel depends on where there is no pool to make it.
        """
        q, k, v = self.short(self.project(x)).chunk(3, dim=-1)
        u = self.gates.inner(q, k).movedim(-1, 1).contiguous()
        h = self._long(u, condition if self.pool is None else self.pool(x))
        return self.out(self.gates.outer(h.movedim(1, -1), v))

    def long_kernel(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """The long kernel that `forward` convolves with for the same arguments, `(1 or batch, dim, *taps)`."""
        return self.kernel(self._taps(x.shape[1:-1]), condition if self.pool is None else self.pool(x))

    def _long(self, u: Tensor, condition: Tensor | None) -> Tensor:
        """The long convolution. For gradients a large kernel, eight times the grid, is made again and not kept."""
        if torch.is_grad_enabled() and 4 * u.shape[1] * math.prod(self._taps(u.shape[2:])) > LARGE_KERNEL_BYTES:
            return checkpoint(self._convolve, u, condition, use_reentrant=False, preserve_rng_state=False)
        static = condition is None and u.dtype != torch.float64
        if static and not torch.is_grad_enabled() and not torch.compiler.is_exporting():
            return fftconv(u, self._keep(u.shape[2:]), boundary=self.boundary, shortcut=self.shortcut)
        return self._convolve(u, condition)

    def _convolve(self, u: Tensor, condition: Tensor | None) -> Tensor:
        kernel = self.kernel(self._taps(u.shape[2:]), condition)
        return fftconv(u, kernel, boundary=self.boundary, shortcut=self.shortcut)

    def _taps(self, grid: Sequence[int]) -> list[int]:
        return [self.extent(n, boundary) for n, boundary in zip(grid, self.boundary, strict=True)]

    def _keep(self, grid: Sequence[int]) -> Spectrum:
        """The static kernel's spectrum, kept from one input to the next until the weights or the grid change.

        An exported program keeps nothing: it makes the kernel in every run, unless its runtime folds constants.
        """
        weights = torch.cat([weight.detach().flatten() for weight in self.kernel.parameters()])
        kept = self._kept
        if kept is None or kept[1].grid != tuple(grid) or not _same(kept[0], weights):
            kept = self._kept = (weights, spectrum(self.kernel(self._taps(grid)), grid, self.boundary))
        return kept[1]


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether a kernel's few thousand weights are as they were; no count of versions sees every change."""
    return a.device == b.device and a.dtype == b.dtype and torch.equal(a, b)
