"""The definition of `gate`, by autograd in the arguments' own type."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..definition import Definition, differentiate, evaluate


def gate_reference(
    x: Tensor, control: Tensor, scale: Tensor | None, *, activation: str, unit: bool, epsilon: float
) -> Tensor:
    """As `gate`."""
    if unit:
        x = x * torch.rsqrt(x.square().sum(-1, keepdim=True) + epsilon)
    u = x * {"silu": F.silu, "sigmoid": torch.sigmoid}[activation](control)
    u = u * torch.rsqrt(u.square().mean(-1, keepdim=True) + epsilon)
    return u if scale is None else u * scale


def apply(x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float) -> Tensor:
    """The gate, as `cpu.apply`."""
    return evaluate(_with(activation, unit, epsilon), x, control, scale)


def gradients(
    dy: Tensor, x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float
) -> tuple[Tensor | None, ...]:
    """Gradients by x, control and scale, as `cpu.gradients`."""
    *others, dscale = differentiate(_with(activation, unit, epsilon), dy, x, control, scale)
    return *others, x.new_empty(0) if dscale is None else dscale


def _with(activation: str, unit: bool, epsilon: float) -> Definition:
    return lambda x, control, scale: gate_reference(
        x, control, scale, activation=activation, unit=unit, epsilon=epsilon
    )
