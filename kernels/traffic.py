"""What any way to a result costs: bytes moved through a GPU's memory, and arithmetic.

The floor of an operator moves each of its tensors once. `fftconv/traffic.py` counts what lies above it; `fredholm bench
kernels` divides by a copy's bandwidth and holds times against it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Cost:
    """Bytes moved and floating-point operations done."""

    bytes: float = 0
    flops: float = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.bytes + other.bytes, self.flops + other.flops)

    def __rmul__(self, times: int) -> "Cost":
        return Cost(times * self.bytes, times * self.flops)


def floor(inputs: Sequence[Tensor], output: Tensor) -> Cost:
    """Inputs read and the output written, nothing more; the arithmetic is not counted."""
    return Cost(_bytes_of([*inputs, output]))


def floor_gradients(inputs: Sequence[Tensor], output: Tensor) -> Cost:
    """As `floor`: inputs and the output's gradient read, the inputs' gradients written."""
    return Cost(_bytes_of([*inputs, *inputs, output]))


def _bytes_of(tensors: Iterable[Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)
