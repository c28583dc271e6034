"""Convolution on a GPU: DFTs as small matrix products on tensor cores, their spectra kept on the chip.

In one and two dimensions one kernel does it all: a program transforms a plane, multiplies by the kernel's spectrum and
transforms back, a few frequencies at a time, so that the spectrum is never in memory. A small box is a plane too, two
of its axes taken as one. In larger ones the last two axes are transformed first and last, by kernels of their own, and
the first one between them::

    planes into    x, real                -> (n0, m1, k2), complex      reads x
    lines          (n0, m1, k2)           -> the same, in place         reads the kernel's spectrum
    planes back    (n0, m1, k2)           -> y, real                    adds shortcut * x

Padding, crop and wrapping are in the shapes of the matrices, the product and the shortcut in the kernels' last lines.
Axes too long for one program's registers go by their spectra: made by one kernel, multiplied and brought back by
another. Axes of more than `LONGEST` frequencies go to PyTorch's FFT, O(m log m).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from ..launch import launch, products, vendor
from . import cpu
from .plan import Plan
from .triton_lines import lines_back, lines_convolve, lines_correlate, lines_into
from .triton_planes import Samples, planes_back, planes_convolve, planes_correlate, planes_into
from .waves import Fold, Wave, effective_taps, fold, fold_pair, is_small, kernel_waves, signal_waves

LONGEST = 1024  # frequencies of one axis; beyond, matrices take more arithmetic than they save memory traffic
ONE_PROGRAM = 64  # positions in half an axis, and as many in that of the other, that one program sums in registers
STAGES = 1  # what is loaded comes from the cache more often than not; to fetch it ahead takes registers


def convolve(x: Tensor, kernel: Tensor, shortcut: Tensor | None, plan: Plan) -> Tensor:
    """The convolution with a kernel, as `cpu.convolve`."""
    if not _serves(plan):
        return cpu.convolve(x, kernel, shortcut, plan)
    return _multiply(x, _kernel_spectrum(kernel, plan, products(x.dtype)), shortcut, plan, adjoint=False)


def convolve_spectrum(x: Tensor, wave: Tensor, shortcut: Tensor | None, plan: Plan, adjoint: bool) -> Tensor:
    """The convolution with a spectrum, or its transpose, as `cpu.convolve_spectrum`."""
    if not _serves(plan):
        return cpu.convolve_spectrum(x, wave, shortcut, plan, adjoint)
    return _multiply(x, torch.view_as_real(_box(wave)).contiguous(), shortcut, plan, adjoint)


def spectrum(kernel: Tensor, plan: Plan) -> Tensor:
    """The half spectrum of a kernel, as `cpu.spectrum`."""
    if not _serves(plan):
        return cpu.spectrum(kernel, plan)
    wave = torch.view_as_complex(_kernel_spectrum(kernel, plan, products(torch.float32)))
    return wave.view(*kernel.shape[:2], *plan.spectrum_shape)


def gradients(dy: Tensor, x: Tensor, kernel: Tensor, shortcut: Tensor | None, plan: Plan) -> tuple[Tensor, Tensor]:
    """Gradients by `x` and by the kernel, as `cpu.gradients`."""
    if not _serves(plan):
        return cpu.gradients(dy, x, kernel, shortcut, plan)
    axes, dx = _signal(plan, x), torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wave = _kernel_spectrum(kernel, plan, axes.precision)
    dy_box, x_box, dx_box = (axes.box(each) for each in (dy, x, dx))
    if axes.flat:
        dwave = axes.correlate_planes(dy_box, x_box, wave)
        axes.convolve_planes(dy_box, wave, dx_box, shortcut, adjoint=True)
    else:
        d = axes.planes_into(dy_box)
        dwave = axes.correlate_lines(d, axes.planes_into(x_box), wave)
        axes.planes_back(axes.convolve_lines(d, wave, adjoint=True), dx_box, dy_box, shortcut)
    return dx, _kernel_gradient(dwave, kernel, plan, axes.precision)


def _multiply(x: Tensor, wave: Tensor, shortcut: Tensor | None, plan: Plan, adjoint: bool) -> Tensor:
    axes, y = _signal(plan, x), torch.empty(x.shape, dtype=x.dtype, device=x.device)
    x_box, y_box = axes.box(x), axes.box(y)
    if axes.flat:
        axes.convolve_planes(x_box, wave, y_box, shortcut, adjoint)
    else:
        axes.planes_back(axes.convolve_lines(axes.planes_into(x_box), wave, adjoint), y_box, x_box, shortcut)
    return y


def _signal(plan: Plan, x: Tensor) -> "_Axes":
    """The axes of the samples."""
    waves = signal_waves(plan)
    first, second, last = (fold(wave, x.device) for wave in waves)
    if is_small(waves):
        point = fold(Wave(1, 1, 0, "fft"), x.device)
        return _Axes(point, first, fold_pair(waves[1], waves[2], x.device), products(x.dtype))
    return _Axes(first, second, last, products(x.dtype))


def _kernel(plan: Plan, kernel: Tensor, precision: str) -> "_Axes":
    """The axes of the taps."""
    first, second, last = (fold(wave, kernel.device) for wave in kernel_waves(plan))
    return _Axes(first, second, last, precision)


def _kernel_spectrum(kernel: Tensor, plan: Plan, precision: str) -> Tensor:
    """`(rows, channels, m0, m1, k2, 2)`."""
    axes = _kernel(plan, kernel, precision)
    s = axes.planes_into(_box(effective_taps(kernel, plan)))
    return s if axes.flat else axes.lines_into(s)


def _kernel_gradient(dwave: Tensor, kernel: Tensor, plan: Plan, precision: str) -> Tensor:
    axes = _kernel(plan, kernel, precision)
    whole = torch.zeros(kernel.shape, dtype=kernel.dtype, device=kernel.device)
    taps = _box(effective_taps(whole, plan))
    axes.planes_back(dwave if axes.flat else axes.lines_back(dwave), taps, taps, None)
    return whole


@dataclass(frozen=True)
class _Axes:
    """The transforms of three axes and the kernels that do them.

    Samples are `(batch, channels, n0, n1, n2)`, what lies between the axes `(batch, channels, n0, m1, k2, 2)`, spectra
    `(batch, channels, m0, m1, k2, 2)`. Axes in front may be points, and the last may be two at once, as `fold_pair`
    makes them: a small box is a plane.
    """

    first: Fold
    second: Fold
    last: Fold
    precision: str

    @property
    def flat(self) -> bool:
        """Whether there is nothing to do along the first axis."""
        return self.first.period == 1

    @property
    def lines(self) -> int:
        """How many lie side by side along the first axis."""
        return self.second.period * self.last.kept

    def box(self, x: Tensor) -> Tensor:
        """Samples with these axes: a view, unless the two that are one do not lie so."""
        x = _box(x)
        return x if x.shape[2] == self.first.positions else x.flatten(3).unsqueeze(2)

    def planes_into(self, x: Tensor) -> Tensor:
        """The last two axes of samples transformed."""
        s = self._empty(x.shape, x.shape[2], x.device)
        tiles = {"T1": _block(self.second.kept), "T2": 16}
        launch(
            planes_into, math.prod(x.shape[:3]) * _tiles(self.second.kept, self.last.kept, *tiles.values()),
            _samples(x), s, x.shape[1], x.shape[2], self.second, self.last,
            PRECISION=self.precision, **tiles, BLOCK=16, num_warps=4, num_stages=STAGES,
        )  # fmt: skip
        return s

    def planes_back(
        self,
        s: Tensor,
        y: Tensor,
        x: Tensor,
        shortcut: Tensor | None,
        wave: Tensor | None = None,
        adjoint: bool = False,
    ) -> None:
        """Write into `y` the samples of `s`, times a kernel's spectrum if there is one, plus shortcut times x."""
        halves = {"HALF1": _block(self.second.half, 32), "HALF2": _block(self.last.half, 32)}
        launch(
            planes_back, math.prod(y.shape[:3]) * _tiles(self.second.half, self.last.half, *halves.values()),
            s, wave, _samples(y), _samples(x), shortcut, _step(shortcut), y.shape[1], y.shape[2], _rows(wave),
            self.second, self.last,
            CONJUGATE=adjoint, PRECISION=self.precision, **halves, T1=16, T2=16, num_warps=4, num_stages=STAGES,
        )  # fmt: skip

    def convolve_planes(self, x: Tensor, wave: Tensor, y: Tensor, shortcut: Tensor | None, adjoint: bool) -> None:
        """Write into `y` the convolution of planes."""
        halves = {"HALF1": _block(self.second.half, LONGEST), "HALF2": _block(self.last.half, LONGEST)}
        if math.prod(halves.values()) > ONE_PROGRAM**2:
            self.planes_back(self.planes_into(x), y, x, shortcut, wave, adjoint)
            return
        launch(
            planes_convolve, math.prod(x.shape[:2]),
            _samples(x), wave, _samples(y), shortcut, _step(shortcut), x.shape[1], _rows(wave), self.second, self.last,
            CONJUGATE=adjoint, PRECISION=self.precision, **halves, T1=16, T2=16, BLOCK=16, num_warps=_many_warps(),
            num_stages=STAGES,
        )  # fmt: skip

    def correlate_planes(self, d: Tensor, x: Tensor, wave: Tensor) -> Tensor:
        """D conj(X) of planes, summed over the batch if the kernel's spectrum `wave` is shared."""
        s, rows = torch.empty_like(wave), _rows(wave)
        tiles = {"T1": _block(self.second.kept, 32), "T2": 16}
        launch(
            planes_correlate, rows * _tiles(self.second.kept, self.last.kept, *tiles.values()),
            _samples(d), _samples(x), s, x.shape[1], rows, math.prod(x.shape[:2]) // rows, self.second, self.last,
            PRECISION=self.precision, **tiles, BLOCK=16, num_warps=4, num_stages=STAGES,
        )  # fmt: skip
        return s

    def lines_into(self, s: Tensor) -> Tensor:
        """The first axis transformed."""
        wave, tiles = self._empty(s.shape, self.first.period, s.device), self._line_tiles(self.first.kept)
        launch(
            lines_into, _rows(s) * _tiles(self.first.kept, self.lines, *tiles),
            s, wave, self.first, self.lines,
            PRECISION=self.precision, T=tiles[0], LINES=tiles[1], BLOCK=16, num_warps=4, num_stages=STAGES,
        )  # fmt: skip
        return wave

    def lines_back(self, s: Tensor, wave: Tensor | None = None, adjoint: bool = False) -> Tensor:
        """The first axis of a spectrum, times a kernel's if there is one, brought back."""
        y, tiles = self._empty(s.shape, self.first.positions, s.device), self._line_tiles(self.first.half)
        launch(
            lines_back, _rows(s) * _tiles(self.first.half, self.lines, *tiles),
            s, wave, y, self.first, self.lines, _rows(wave),
            CONJUGATE=adjoint, PRECISION=self.precision, HALF=tiles[0], T=16, LINES=tiles[1], num_warps=4,
            num_stages=STAGES,
        )  # fmt: skip
        return y

    def convolve_lines(self, s: Tensor, wave: Tensor, adjoint: bool) -> Tensor:
        """The first axis through its spectrum; in place where it is short."""
        if self.first.half > ONE_PROGRAM:
            return self.lines_back(self.lines_into(s), wave, adjoint)
        half = _block(self.first.half)
        lines = _block(self.lines, 2048 // half)
        launch(
            lines_convolve, _rows(s) * triton.cdiv(self.lines, lines),
            s, wave, s, self.first, self.lines, _rows(wave),
            CONJUGATE=adjoint, PRECISION=self.precision, HALF=half, T=16, LINES=lines, num_warps=_many_warps(),
            num_stages=STAGES,
        )  # fmt: skip
        return s

    def correlate_lines(self, d: Tensor, x: Tensor, wave: Tensor) -> Tensor:
        """D conj(X) of lines, summed over the batch if the kernel's spectrum `wave` is shared."""
        s, rows, lines = torch.empty_like(wave), _rows(wave), _block(self.lines, 32)
        launch(
            lines_correlate, rows * _tiles(self.first.kept, self.lines, 16, lines),
            d, x, s, self.first, self.lines, rows, _rows(x) // rows,
            PRECISION=self.precision, T=16, LINES=lines, BLOCK=16, num_warps=4, num_stages=STAGES,
        )  # fmt: skip
        return s

    def _empty(self, shape: Sequence[int], first: int, device: torch.device) -> Tensor:
        shape = *shape[:2], first, self.second.period, self.last.kept, 2
        return torch.empty(shape, dtype=torch.float32, device=device)

    def _line_tiles(self, rows: int) -> tuple[int, int]:
        return _block(rows), _block(self.lines, 32)


def _serves(plan: Plan) -> bool:
    return all(axis.frequencies <= LONGEST for axis in plan.axes)


def _box(x: Tensor) -> Tensor:
    """A view with three axes."""
    return x[(slice(None), slice(None), *(None,) * (5 - x.ndim))]


def _samples(x: Tensor) -> Samples:
    return Samples(x, *x.stride())


def _rows(x: Tensor | None) -> int:
    """Batch entries times channels."""
    return 1 if x is None else x.shape[0] * x.shape[1]


def _tiles(rows: int, columns: int, tile_rows: int, tile_columns: int) -> int:
    return triton.cdiv(rows, tile_rows) * triton.cdiv(columns, tile_columns)


def _many_warps() -> int:
    """For sums that fill the registers of a multiprocessor; AMD's warps are twice as wide."""
    return 4 if vendor() == "hip" else 8


def _step(shortcut: Tensor | None) -> int:
    return 0 if shortcut is None else shortcut.stride(0)


def _block(size: int, most: int = 64) -> int:
    """A tile for an axis: a power of two, from the least that tensor cores take."""
    return min(most, max(16, triton.next_power_of_2(size)))
