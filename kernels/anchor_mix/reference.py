"""The definition of `anchor_mix`, by autograd in the arguments' own type."""

import torch.nn.functional as F
from torch import Tensor

from .measure import anchor_measure


def anchor_mix_reference(
    x: Tensor,
    branch: Tensor,
    anchors: Tensor,
    alpha: Tensor,
    *,
    projection: tuple[Tensor, Tensor] | None = None,
    shares: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """As `anchor_mix`."""
    p = anchor_measure(anchors)
    c = branch if projection is None else F.linear(branch, *projection)
    mean = (p * c).sum(-1, keepdim=True)
    variance = (p * (c - mean).square()).sum(-1, keepdim=True)
    c = (c - mean) / (variance + epsilon).sqrt()
    w = p * c.exp() if shares is None else p * shares * c.exp()
    w = w / w.sum(-1, keepdim=True)
    return (1 - alpha) * x + alpha * (w @ anchors)
