"""The operators of `implicit_kernel` as PyTorch sees them: opaque, with gradients of their own, autocast off inside."""

import torch
from torch import Tensor

from ..backend import implementation


@torch.library.custom_op("fredholm::implicit_kernel", mutates_args=())
def synthesise(
    axes: list[Tensor], weights: list[Tensor], biases: list[Tensor], film: Tensor | None, sigma: Tensor | None
) -> Tensor:
    """The kernel."""
    with torch.autocast(weights[0].device.type, enabled=False):
        return implementation(__name__, weights[0]).synthesise(axes, weights, biases, film, sigma)


@torch.library.custom_op("fredholm::implicit_kernel_gradients", mutates_args=())
def gradients(
    dkernel: Tensor,
    axes: list[Tensor],
    weights: list[Tensor],
    biases: list[Tensor],
    film: Tensor | None,
    sigma: Tensor | None,
) -> list[Tensor]:
    """Its gradients: weights, biases, then film and sigma where there are such."""
    with torch.autocast(weights[0].device.type, enabled=False):
        made = implementation(__name__, weights[0]).gradients(dkernel, axes, weights, biases, film, sigma)
    dweights, dbiases, dfilm, dsigma = made
    return [*dweights, *dbiases, *(grad for grad in (dfilm, dsigma) if grad is not None)]


@synthesise.register_fake
def _(
    axes: list[Tensor], weights: list[Tensor], biases: list[Tensor], film: Tensor | None, sigma: Tensor | None
) -> Tensor:
    samples = 1 if film is None else film.shape[0]
    return weights[-1].new_empty(samples, weights[-1].shape[0], *(axis.shape[0] for axis in axes))


@gradients.register_fake
def _(
    dkernel: Tensor,
    axes: list[Tensor],
    weights: list[Tensor],
    biases: list[Tensor],
    film: Tensor | None,
    sigma: Tensor | None,
) -> list[Tensor]:
    likes = [*weights, *biases, *(each for each in (film, sigma) if each is not None)]
    return [torch.empty(like.shape, dtype=like.dtype, device=like.device) for like in likes]


def _save(ctx, inputs, output) -> None:
    ctx.axes, weights, biases, film, sigma = inputs
    ctx.layers = len(weights)
    ctx.save_for_backward(film, sigma, *weights, *biases)


def _backward(ctx, dkernel: Tensor):
    film, sigma, *rest = ctx.saved_tensors
    n = ctx.layers
    grads = gradients(dkernel, ctx.axes, rest[:n], rest[n:], film, sigma)
    tail = grads[2 * n :]
    dfilm = tail.pop(0) if film is not None else None
    dsigma = tail.pop(0) if sigma is not None else None
    return [None] * len(ctx.axes), grads[:n], grads[n : 2 * n], dfilm, dsigma


synthesise.register_autograd(_backward, setup_context=_save)
