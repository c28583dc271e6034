"""The operators of `gate` as PyTorch sees them: opaque, with gradients of their own, autocast off inside."""

import torch
from torch import Tensor

from ..backend import implementation


@torch.library.custom_op("fredholm::gate", mutates_args=())
def apply(x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float) -> Tensor:
    """The gate."""
    with torch.autocast(x.device.type, enabled=False):
        return implementation(__name__, x).apply(x, control, scale, activation, unit, epsilon)


@torch.library.custom_op("fredholm::gate_gradients", mutates_args=())
def gradients(
    dy: Tensor, x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Its gradients by x, control and scale."""
    with torch.autocast(x.device.type, enabled=False):
        return implementation(__name__, x).gradients(dy, x, control, scale, activation, unit, epsilon)


@apply.register_fake
def _(x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@gradients.register_fake
def _(
    dy: Tensor, x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    dx, dcontrol = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (x, control))
    return dx, dcontrol, x.new_empty(0) if scale is None else scale.new_empty(scale.shape)


def _save(ctx, inputs, output) -> None:
    x, control, scale, *ctx.options = inputs
    ctx.save_for_backward(x, control, scale)


def _backward(ctx, dy: Tensor):
    x, control, scale = ctx.saved_tensors
    dx, dcontrol, dscale = gradients(dy, x, control, scale, *ctx.options)
    return dx, dcontrol, None if scale is None else dscale, None, None, None


apply.register_autograd(_backward, setup_context=_save)
