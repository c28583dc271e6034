"""The operators of `anchor_mix` as PyTorch sees them: opaque, with gradients of their own, autocast off inside."""

import torch
from torch import Tensor

from ..backend import implementation
from .parts import Parts


@torch.library.custom_op("fredholm::anchor_mix", mutates_args=())
def apply(parts: list[Tensor], epsilon: float) -> Tensor:
    """The mix."""
    with torch.autocast(parts[0].device.type, enabled=False):
        return implementation(__name__, parts[0]).apply(Parts(*parts), epsilon)


@torch.library.custom_op("fredholm::anchor_mix_gradients", mutates_args=())
def gradients(dy: Tensor, parts: list[Tensor], epsilon: float) -> list[Tensor]:
    """Its gradients by all parts."""
    with torch.autocast(parts[0].device.type, enabled=False):
        return implementation(__name__, parts[0]).gradients(dy, Parts(*parts), epsilon)


@apply.register_fake
def _(parts: list[Tensor], epsilon: float) -> Tensor:
    x = parts[0]
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@gradients.register_fake
def _(dy: Tensor, parts: list[Tensor], epsilon: float) -> list[Tensor]:
    return [part.new_empty(part.shape) for part in parts]


def _save(ctx, inputs, output) -> None:
    parts, ctx.epsilon = inputs
    ctx.save_for_backward(*parts)


def _backward(ctx, dy: Tensor):
    return gradients(dy, list(ctx.saved_tensors), ctx.epsilon), None


apply.register_autograd(_backward, setup_context=_save)
