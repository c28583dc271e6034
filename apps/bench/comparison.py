"""One operator beside the other ways to its result: first whether it is right, then how long each takes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...kernels.traffic import floor, floor_gradients
from .operations import Function, Operation, Size, draw, operation
from .timing import measure

SETS = 3  # of inputs, which take turns
# Largest error of the output and of the gradients, relative to the largest exact value.
TOLERANCE = {torch.float32: (1e-5, 1e-4), torch.bfloat16: (1e-2, 1e-2), torch.float16: (2e-3, 2e-3)}


@dataclass(frozen=True)
class Row:
    """What one way to one step took."""

    operator: str
    step: str  # forward or gradients
    by: str
    ms: float
    times_ours: float
    share_of_floor: float
    peak_bytes: float | None
    error: float

    def cells(self) -> list[str | float]:
        """As the table shows them."""
        peak = float("nan") if self.peak_bytes is None else self.peak_bytes / 1e6
        numbers = [self.ms, self.times_ours, self.share_of_floor, peak]
        return [self.operator, self.step, self.by, *numbers, f"{self.error:.1e}"]


def compare(
    name: str, size: Size, dtype: torch.dtype, device: torch.device, bandwidth: float, repeats: int
) -> Iterator[Row]:
    """Rows of one operator: forward by all ways, ours first, then gradients.

    Raises:
        ValueError: Ours is not right; nothing has been timed then.
    """
    one = operation(name, size)
    inputs = [draw(one, dtype, device) for _ in range(SETS)]
    ways = {"fredholm": one.ours, one.unfused: one.exact, **one.rivals}
    errors = _errors(one, ways, inputs[0])
    _check(name, errors["fredholm"], dtype)
    y = one.ours(*inputs[0])
    for step, make, least, which in (("forward", _forward, floor, 0), ("gradients", _gradients, floor_gradients, 1)):
        ours_ms, least_ms = None, 1000 * least(inputs[0], y).bytes / bandwidth
        for by, function in ways.items():
            found = measure([make(function, each) for each in inputs], device, repeats)
            ours_ms = ours_ms or found.ms
            share = least_ms / found.ms
            yield Row(name, step, by, found.ms, found.ms / ours_ms, share, found.peak_bytes, errors[by][which])


def _forward(function: Function, inputs: list[Tensor]) -> Callable[[], object]:
    def run() -> Tensor:
        with torch.no_grad():
            return function(*inputs)

    return run


def _gradients(function: Function, inputs: list[Tensor]) -> Callable[[], object]:
    """The way back alone: the way there is gone once, and kept."""
    leaves = [each.detach().requires_grad_() for each in inputs]
    y = function(*leaves)
    dy = torch.ones_like(y)
    return lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True)


def _errors(one: Operation, ways: dict[str, Function], inputs: list[Tensor]) -> dict[str, tuple[float, float]]:
    """Of the output and of the gradients, for each way; the largest relative to the largest exact value."""
    truth = _results(one.exact, [each.double() for each in inputs])
    found = {by: _results(function, inputs) for by, function in ways.items()}
    errors = {by: [_error(*pair) for pair in zip(each, truth, strict=True)] for by, each in found.items()}
    return {by: (first, max(others)) for by, (first, *others) in errors.items()}


def _results(function: Function, inputs: list[Tensor]) -> list[Tensor]:
    leaves = [each.detach().requires_grad_() for each in inputs]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, torch.ones_like(y))]


def _error(found: Tensor, exact: Tensor) -> float:
    scale = exact.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    return float((found.double() - exact).abs().max() / scale)


def _check(name: str, errors: tuple[float, float], dtype: torch.dtype) -> None:
    for what, error, tolerance in zip(("output", "gradients"), errors, TOLERANCE[dtype], strict=True):
        if not error <= tolerance:
            raise ValueError(f"{name} is wrong here: error of its {what} {error:.1e}, at most {tolerance:.0e} is right")
