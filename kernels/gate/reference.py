"""The definition of `gate`, by autograd in the arguments' own type."""

import torch
import torch.nn.functional as F
from torch import Tensor


def gate_reference(
    x: Tensor, control: Tensor, scale: Tensor | None, *, activation: str, unit: bool, epsilon: float
) -> Tensor:
    """As `gate`."""
    if unit:
        x = x * torch.rsqrt(x.square().sum(-1, keepdim=True) + epsilon)
    u = x * {"silu": F.silu, "sigmoid": torch.sigmoid}[activation](control)
    u = u * torch.rsqrt(u.square().mean(-1, keepdim=True) + epsilon)
    return u if scale is None else u * scale
