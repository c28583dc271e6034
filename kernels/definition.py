"""A definition as a backend: computed in float64, with autograd's gradients, rounded once at the end."""

from collections.abc import Callable

import torch
from torch import Tensor

Definition = Callable[..., Tensor]


def evaluate(definition: Definition, *tensors: Tensor | None) -> Tensor:
    """The definition's result, contiguous, in the type of the first tensor."""
    first = tensors[0]
    assert first is not None
    return _rounded(definition(*(None if each is None else each.double() for each in tensors)), first.dtype)


def differentiate(definition: Definition, dy: Tensor, *tensors: Tensor | None) -> list[Tensor | None]:
    """The gradients by each tensor, each contiguous and in its own type; None for None."""

    def of_given(*given: Tensor) -> Tensor:
        rest = iter(given)
        return definition(*(None if each is None else next(rest) for each in tensors))

    # Autograd itself is off inside an operator; functorch's is not.
    pull_back = torch.func.vjp(of_given, *(each.double() for each in tensors if each is not None))[1]
    gradients = iter(pull_back(dy.double()))
    return [None if each is None else _rounded(next(gradients), each.dtype) for each in tensors]


def _rounded(exact: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.empty(exact.shape, dtype=dtype, device=exact.device).copy_(exact)
