"""What a convolution moves through a GPU's memory and computes, counted pass by pass.

A pass reads each of its operands once and writes each result once: what a program reads again comes from the cache.
`python -m fredholm.kernels.fftconv.traffic` prints the table.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import traffic
from ..traffic import Cost
from .plan import Plan
from .waves import Wave, is_small, kernel_waves, signal_waves

COMPLEX = 8  # bytes
REAL = 4


@dataclass(frozen=True)
class Case:
    """A float32 convolution with a shared kernel and a shortcut."""

    batch: int
    channels: int
    plan: Plan

    @classmethod
    def of(cls, batch: int, channels: int, grid: Sequence[int], *, periodic: bool = False) -> "Case":
        """A kernel as long as it can act: 2 n - 1 taps, on periodic axes n."""
        return cls(batch, channels, Plan.of(grid, [n if periodic else 2 * n - 1 for n in grid], [periodic] * len(grid)))

    @property
    def signal(self) -> tuple[int, ...]:
        """Samples of each axis."""
        return tuple(axis.samples for axis in self.plan.axes)

    @property
    def taps(self) -> tuple[int, ...]:
        """Taps of each axis."""
        return tuple(axis.positions for axis in self.plan.axes)

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """x, the kernel and the shortcut, of which only the shapes are there."""
        shapes = (self.batch, self.channels, *self.signal), (1, self.channels, *self.taps), (self.channels,)
        x, kernel, shortcut = (torch.empty(shape, device="meta") for shape in shapes)
        return x, kernel, shortcut

    @property
    def frequencies(self) -> tuple[int, ...]:
        """Coefficients of each axis, half of them along the last."""
        return self.plan.spectrum_shape


def floor(case: Case) -> Cost:
    """What no way forward goes below."""
    return traffic.floor(case.tensors(), case.tensors()[0])


def floor_gradients(case: Case) -> Cost:
    """What no way back goes below."""
    return traffic.floor_gradients(case.tensors(), case.tensors()[0])


def fused(case: Case) -> Cost:
    """What `triton.py` does forward, the kernel's spectrum included."""
    return _into(case.channels, kernel_waves(case.plan)) + _around(case)


def fused_gradients(case: Case) -> Cost:
    """What `triton.py` does backward: the kernel's spectrum, both gradients' spectra, the way back from each."""
    kernel = _into(case.channels, kernel_waves(case.plan))
    return kernel + _correlation(case) + _around(case) + kernel


def unfused(case: Case) -> Cost:
    """Forward as a chain of PyTorch calls: pad, `rfftn`, product, `irfftn`, crop, shortcut."""
    rows, channels = case.batch * case.channels, case.channels
    coefficients = math.prod(case.frequencies)
    product = Cost(COMPLEX * (2 * rows + channels) * coefficients, 6 * rows * coefficients)
    shortcut = Cost(REAL * 3 * rows * math.prod(case.signal), 2 * rows * math.prod(case.signal))
    return (
        _pad(case, rows, case.signal)
        + _pad(case, channels, case.taps)
        + _fft(case, rows)
        + _fft(case, channels)
        + product
        + _fft(case, rows)
        + _crop(case, rows, case.signal)
        + shortcut
    )


def unfused_gradients(case: Case) -> Cost:
    """Backward of the same, with the spectra of x and of the kernel kept from forward."""
    rows, channels = case.batch * case.channels, case.channels
    coefficients = math.prod(case.frequencies)
    by_x = Cost(COMPLEX * (2 * rows + channels) * coefficients, 6 * rows * coefficients)
    by_kernel = Cost(COMPLEX * 3 * rows * coefficients, 6 * rows * coefficients)
    batch_sum = Cost(COMPLEX * (rows + channels) * coefficients, 2 * rows * coefficients)
    shortcut = Cost(REAL * 3 * rows * math.prod(case.signal), 2 * rows * math.prod(case.signal))
    return (
        _pad(case, rows, case.signal)
        + _fft(case, rows)
        + by_x
        + _fft(case, rows)
        + _crop(case, rows, case.signal)
        + by_kernel
        + (batch_sum if case.batch > 1 else Cost())
        + _fft(case, channels)
        + _crop(case, channels, case.taps)
        + shortcut
    )


def table(cases: Iterable[Case]) -> str:
    """Gigabytes and GFLOP of each case, in Markdown."""
    lines = [
        "| op | batch x channels x grid | floor GB | fused GB | unfused GB | ratio | fused GFLOP | unfused GFLOP |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        shape = f"{case.batch} x {case.channels} x {' x '.join(map(str, case.signal))}"
        if case.plan.axes[0].periodic:
            shape += ", periodic"
        lines += [_line(name, shape, *(count(case) for count in counts)) for name, counts in OPERATIONS.items()]
    return "\n".join(lines)


def _line(name: str, shape: str, least: Cost, ours: Cost, theirs: Cost) -> str:
    giga = [f"{each / 1e9:.3f}" for each in (least.bytes, ours.bytes, theirs.bytes)]
    operations = [f"{each.flops / 1e9:.1f}" for each in (ours, theirs)]
    return f"| {' | '.join([name, shape, *giga, f'{ours.bytes / theirs.bytes:.2f}', *operations])} |"


OPERATIONS: dict[str, tuple[Callable[[Case], Cost], ...]] = {
    "forward": (floor, fused, unfused),
    "gradients": (floor_gradients, fused_gradients, unfused_gradients),
}
CASES = (
    Case.of(1, 48, (48, 48, 48)),  # MixerUNETR's stages at windows of 96^3 ...
    Case.of(1, 96, (24, 24, 24)),
    Case.of(1, 192, (12, 12, 12)),
    Case.of(1, 384, (6, 6, 6)),
    Case.of(1, 48, (64, 64, 64)),  # ... and the first one's at 128^3
    Case.of(1, 128, (64, 64, 64)),
    Case.of(1, 128, (64, 64, 64), periodic=True),  # a surrogate of a periodic box
    Case.of(8, 64, (64, 64)),
    Case.of(8, 64, (512,)),
)


def _into(rows: int, waves: Sequence[Wave]) -> Cost:
    """Samples or taps to spectra; the way back costs the same."""
    samples, between, coefficients = _sizes(waves)
    planes = Cost(REAL * samples + COMPLEX * between, _plane_flops(waves))
    if waves[0].period == 1:
        return rows * planes
    return rows * (planes + Cost(COMPLEX * (between + coefficients), _line_flops(waves)))


def _around(case: Case) -> Cost:
    """Samples to samples, times the kernel's spectrum, plus shortcut times x."""
    rows, waves = case.batch * case.channels, signal_waves(case.plan)
    samples, between, coefficients = _sizes(waves)
    kernel = Cost(case.channels * COMPLEX * coefficients)
    arithmetic = Cost(0, 6 * coefficients + 2 * samples)
    if waves[0].period == 1:
        return kernel + rows * (arithmetic + Cost(REAL * 2 * samples, 2 * _plane_flops(waves)))
    if is_small(waves):
        return kernel + rows * (arithmetic + Cost(REAL * 2 * samples, 2 * _small_flops(waves)))
    moved = REAL * 3 * samples + COMPLEX * 4 * between  # x comes again for the shortcut
    return kernel + rows * (arithmetic + Cost(moved, 2 * _plane_flops(waves) + 2 * _line_flops(waves)))


def _correlation(case: Case) -> Cost:
    """D conj(X) from dy and x."""
    rows, waves = case.batch * case.channels, signal_waves(case.plan)
    samples, between, coefficients = _sizes(waves)
    written = Cost(case.channels * COMPLEX * coefficients, rows * 8 * coefficients)
    if waves[0].period == 1:
        return written + 2 * rows * Cost(REAL * samples, _plane_flops(waves))
    if is_small(waves):
        return written + 2 * rows * Cost(REAL * samples, _small_flops(waves))
    by_x = Cost(REAL * samples + COMPLEX * 2 * between, _plane_flops(waves) + _line_flops(waves))
    return written + rows * (by_x + Cost(COMPLEX * between, _line_flops(waves)))  # dy's planes serve dx too


def _sizes(waves: Sequence[Wave]) -> tuple[int, int, int]:
    """Samples, complex numbers between the axes, and coefficients, of one channel."""
    first, second, last = waves
    side_by_side = second.frequencies * last.frequencies
    samples = first.positions * second.positions * last.positions
    return samples, first.positions * side_by_side, first.frequencies * side_by_side


def _plane_flops(waves: Sequence[Wave]) -> int:
    """Two axes of all planes, one way."""
    first, second, last = waves
    return first.positions * 8 * second.half * last.kept * (last.half + second.kept)


def _line_flops(waves: Sequence[Wave]) -> int:
    """The first axis, one way."""
    first, second, last = waves
    return 8 * first.half * first.kept * second.frequencies * last.kept


def _small_flops(waves: Sequence[Wave]) -> int:
    """All three, the last two as one."""
    first, second, last = waves
    together = second.frequencies * last.kept
    return 8 * first.half * together * ((second.positions * last.positions + 1) // 2 + first.kept)


def _periods(case: Case) -> tuple[int, ...]:
    return tuple(axis.frequencies for axis in case.plan.axes)


def _pad(case: Case, rows: int, positions: Sequence[int]) -> Cost:
    """Samples read and written among zeros; periodic axes need none."""
    if tuple(positions) == _periods(case):
        return Cost()
    return Cost(rows * REAL * (math.prod(positions) + math.prod(_periods(case))))


def _crop(case: Case, rows: int, positions: Sequence[int]) -> Cost:
    """What is kept read and written."""
    if tuple(positions) == _periods(case):
        return Cost()
    return Cost(rows * REAL * 2 * math.prod(positions))


def _fft(case: Case, rows: int) -> Cost:
    """A real FFT, one pass for each axis, either way; 5 m log2 m operations for m complex points."""
    real, coefficients = REAL * math.prod(_periods(case)), COMPLEX * math.prod(case.frequencies)
    passes = real + coefficients + 2 * coefficients * (len(case.signal) - 1)
    operations = 2.5 * math.prod(_periods(case)) * math.log2(max(2, math.prod(_periods(case))))
    return Cost(rows * passes, rows * operations)


if __name__ == "__main__":
    print(table(CASES))
