"""The definition of `implicit_kernel`, all positions at once."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..definition import Definition, differentiate, evaluate


def implicit_kernel_reference(
    axes: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    *,
    film: Tensor | None = None,
    sigma: Tensor | None = None,
) -> Tensor:
    """As `implicit_kernel`, in the arguments' own type and by autograd."""
    coordinates = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    h = torch.sin(F.linear(coordinates, weights[0], biases[0]))[None]
    for layer, (weight, bias) in enumerate(zip(weights[1:-1], biases[1:-1], strict=True)):
        h = torch.sin(F.linear(h, weight, bias))
        if film is not None:
            gamma, beta = (film[:, layer, part].view(len(film), *(1 for _ in axes), -1) for part in (0, 1))
            h = gamma * h + beta
    kernel = F.linear(h, weights[-1], biases[-1])
    if sigma is not None:
        kernel = kernel * torch.exp(-0.5 * ((coordinates[..., None] / sigma) ** 2).sum(-2))
    return kernel.movedim(-1, 1)


def synthesise(
    axes: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    film: Tensor | None,
    sigma: Tensor | None,
) -> Tensor:
    """The kernel, as `cpu.synthesise`."""
    return evaluate(_on(axes), *weights, *biases, film, sigma)


def gradients(
    dkernel: Tensor,
    axes: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    film: Tensor | None,
    sigma: Tensor | None,
) -> tuple[list[Tensor | None], list[Tensor | None], Tensor | None, Tensor | None]:
    """Gradients by weights, biases, film and sigma, as `cpu.gradients`."""
    n, grads = len(weights), differentiate(_on(axes), dkernel, *weights, *biases, film, sigma)
    return grads[:n], grads[n : 2 * n], grads[-2], grads[-1]


def _on(axes: Sequence[Tensor]) -> Definition:
    exact = [axis.double() for axis in axes]

    def definition(*parts: Tensor) -> Tensor:
        n = len(parts) // 2 - 1
        return implicit_kernel_reference(exact, parts[:n], parts[n : 2 * n], film=parts[-2], sigma=parts[-1])

    return definition
