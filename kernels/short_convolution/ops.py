"""The operators of `short_convolution` as PyTorch sees them: with gradients of their own, autocast off inside."""

import torch
from torch import Tensor

from . import cpu


@torch.library.custom_op("fredholm::short_convolution", mutates_args=())
def apply(x: Tensor, weight: Tensor, padding: list[int]) -> Tensor:
    """The convolution."""
    with torch.autocast(x.device.type, enabled=False):
        return cpu.apply(x, weight, padding)


@torch.library.custom_op("fredholm::short_convolution_gradients", mutates_args=())
def gradients(dy: Tensor, x: Tensor, weight: Tensor, padding: list[int]) -> tuple[Tensor, Tensor]:
    """Its gradients by x and weight."""
    with torch.autocast(x.device.type, enabled=False):
        return cpu.gradients(dy, x, weight, padding)


@apply.register_fake
def _(x: Tensor, weight: Tensor, padding: list[int]) -> Tensor:
    grid = [n + 2 * p - t + 1 for n, p, t in zip(x.shape[1:-1], padding, weight.shape[2:], strict=True)]
    return x.new_empty(x.shape[0], *grid, x.shape[-1])


@gradients.register_fake
def _(dy: Tensor, x: Tensor, weight: Tensor, padding: list[int]) -> tuple[Tensor, Tensor]:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device), weight.new_empty(weight.shape)


def _save(ctx, inputs, output) -> None:
    x, weight, ctx.padding = inputs
    ctx.save_for_backward(x, weight)


def _backward(ctx, dy: Tensor):
    x, weight = ctx.saved_tensors
    return *gradients(dy, x, weight, ctx.padding), None


apply.register_autograd(_backward, setup_context=_save)
