"""The perceptron's operators as PyTorch sees them: opaque, with gradients of their own, autocast off inside."""

import torch
from torch import Tensor

from ..backend import implementation
from .parts import Parts


@torch.library.custom_op("fredholm::integral_transform", mutates_args=())
def integrate(parts: list[Tensor], index: Tensor | None) -> Tensor:
    """The integral."""
    with torch.autocast(parts[0].device.type, enabled=False):
        every = Parts(*parts)
        return implementation(__name__, every.u).integrate(every, index)


@torch.library.custom_op("fredholm::integral_transform_gradients", mutates_args=())
def gradients(dy: Tensor, parts: list[Tensor], index: Tensor | None) -> list[Tensor]:
    """Its gradients by all parts."""
    with torch.autocast(parts[0].device.type, enabled=False):
        every = Parts(*parts)
        return list(implementation(__name__, every.u).gradients(dy, every, index))


@integrate.register_fake
def _(parts: list[Tensor], index: Tensor | None) -> Tensor:
    every = Parts(*parts)
    return every.u.new_empty(*every.left.shape[:2], every.weight.shape[0])


@gradients.register_fake
def _(dy: Tensor, parts: list[Tensor], index: Tensor | None) -> list[Tensor]:
    return [part.new_empty(part.shape) for part in parts]


def _save(ctx, inputs, output) -> None:
    parts, index = inputs
    ctx.save_for_backward(index, *parts)


def _backward(ctx, dy: Tensor):
    index, *parts = ctx.saved_tensors
    return gradients(dy, parts, index), None


integrate.register_autograd(_backward, setup_context=_save)
