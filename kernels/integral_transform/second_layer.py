"""The perceptron's second layer on what its first one gave, summed over the sources.

Moments `(targets, width + 1, in)` are the hidden values times the features, the last of them with a constant 1. The
weight is `(out, in, width + 1)` for matrices, `(channels, width + 1)` for diagonals, its last column the bias.
"""

import torch
from torch import Tensor


def apply(moments: Tensor, weight: Tensor) -> Tensor:
    """The integral `(targets, out)`."""
    return torch.einsum("xkc,ck->xc" if weight.ndim == 2 else "xkj,ijk->xi", moments, weight)


def moments_gradient(dy: Tensor, weight: Tensor) -> Tensor:
    """Gradient by the moments, of which it does not depend; `dy` `(targets, out)`."""
    return torch.einsum("xc,ck->xkc" if weight.ndim == 2 else "xi,ijk->xkj", dy, weight).contiguous()


def weight_gradient(dy: Tensor, moments: Tensor, weight: Tensor) -> Tensor:
    """Gradient by the weight."""
    return torch.einsum("xc,xkc->ck" if weight.ndim == 2 else "xi,xkj->ijk", dy, moments)
