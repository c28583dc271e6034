"""The definition of `short_convolution`, a shift for each tap."""

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def short_convolution_reference(x: Tensor, weight: Tensor, padding: Sequence[int]) -> Tensor:
    """As `short_convolution`, by autograd in the arguments' own type."""
    taps = weight.shape[2:]
    x = F.pad(x, [0, 0, *(p for each in reversed(padding) for p in (each, each))])
    grid = [n - t + 1 for n, t in zip(x.shape[1:-1], taps, strict=True)]
    y = torch.zeros(x.shape[0], *grid, x.shape[-1], dtype=x.dtype, device=x.device)
    for tap in itertools.product(*map(range, taps)):
        shifted = x[(slice(None), *(slice(t, t + n) for t, n in zip(tap, grid, strict=True)))]
        y = y + weight[(slice(None), 0, *tap)] * shifted
    return y
