"""The operators of `anchor_mix` as PyTorch sees them: opaque, with gradients of their own, autocast off inside."""

import torch
from torch import Tensor

from ..backend import implementation


@torch.library.custom_op("fredholm::anchor_mix", mutates_args=())
def apply(
    x: Tensor,
    branch: Tensor,
    anchors: Tensor,
    measure: Tensor,
    masses: Tensor,
    alpha: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    epsilon: float,
) -> Tensor:
    """The mix."""
    with torch.autocast(x.device.type, enabled=False):
        return implementation(__name__, x).apply(x, branch, anchors, measure, masses, alpha, weight, bias, epsilon)


@torch.library.custom_op("fredholm::anchor_mix_gradients", mutates_args=())
def gradients(
    dy: Tensor,
    x: Tensor,
    branch: Tensor,
    anchors: Tensor,
    measure: Tensor,
    masses: Tensor,
    alpha: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    epsilon: float,
) -> list[Tensor]:
    """Its gradients by x, branch, anchors, measure, masses, alpha, weight and bias."""
    with torch.autocast(x.device.type, enabled=False):
        module = implementation(__name__, x)
        return module.gradients(dy, x, branch, anchors, measure, masses, alpha, weight, bias, epsilon)


@apply.register_fake
def _(
    x: Tensor,
    branch: Tensor,
    anchors: Tensor,
    measure: Tensor,
    masses: Tensor,
    alpha: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    epsilon: float,
) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@gradients.register_fake
def _(
    dy: Tensor,
    x: Tensor,
    branch: Tensor,
    anchors: Tensor,
    measure: Tensor,
    masses: Tensor,
    alpha: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    epsilon: float,
) -> list[Tensor]:
    tensors = (x, branch, anchors, measure, masses, alpha, weight, bias)
    return [x.new_empty(0) if t is None else t.new_empty(t.shape) for t in tensors]


def _save(ctx, inputs, output) -> None:
    *tensors, ctx.epsilon = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx, dy: Tensor):
    tensors = ctx.saved_tensors
    grads = gradients(dy, *tensors, ctx.epsilon)
    return *(None if t is None else grad for grad, t in zip(grads, tensors, strict=True)), None


apply.register_autograd(_backward, setup_context=_save)
