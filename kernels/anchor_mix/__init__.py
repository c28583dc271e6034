r"""Universal interpolation: a residual that moves features towards anchors which all layers share.

With anchors A_i, each row of features x and of a branch b (attention's output, say)::

    y = (1 - alpha) x + alpha sum over i of w_i A_i
    w_i = p_i s_i exp(c_i) / sum over j of p_j s_j exp(c_j);    c = norm(W b + bias)

`norm` takes mean and variance over the anchors with the weights p. p says how much each anchor counts: less where
others lie close, so that a duplicate changes nothing; `measure.py` has its formula. s are shares given from outside,
else 1. The sum over i lies in the anchors' convex hull.

Source: "Universal interpolation for deep residual self-attention networks". It asks for a correction by the anchors'
squared distances and gives no formula; p is ours.
"""

import torch
from torch import Tensor

from . import ops
from .measure import anchor_measure

__all__ = ["anchor_measure", "anchor_mix"]


def anchor_mix(
    x: Tensor,
    branch: Tensor,
    anchors: Tensor,
    alpha: Tensor,
    *,
    projection: tuple[Tensor, Tensor] | None = None,
    shares: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Move each row of `x` the share `alpha` of the way to a mean of the anchors that the branch chooses.

    Args:
        x: `(..., channels)`, any floating type, any strides.
        branch: `(..., width)`, any floating type. Without a projection it holds W b + bias already, `(..., anchors)`.
        anchors: `(anchors, channels)`.
        alpha: `()`, from 0, where the result is `x`, to 1.
        projection: W `(anchors, width)` and bias `(anchors,)`; None where the branch is projected already.
        shares: `(anchors,)`, not negative and not all 0, each anchor's weight beside the others; None for ones.
        epsilon: Added to the variance over anchors.

    Returns:
        A contiguous tensor with the shape and dtype of `x`. Sums are float32, for float64 input float64, under
        autocast too. Differentiable once by every tensor, of which nothing else is kept.

    Raises:
        ValueError: Shapes do not fit; the message names them.
    """
    _check(x, branch, anchors, alpha, projection, shares)
    with torch.autocast(x.device.type, enabled=False):
        measure = anchor_measure(anchors)
        masses = measure if shares is None else measure * shares.to(measure.dtype)
    return ops.apply([x, branch, anchors, measure, masses, alpha, *(projection or ())], epsilon)


def _check(
    x: Tensor,
    branch: Tensor,
    anchors: Tensor,
    alpha: Tensor,
    projection: tuple[Tensor, Tensor] | None,
    shares: Tensor | None,
) -> None:
    if x.ndim == 0 or branch.shape[:-1] != x.shape[:-1]:
        raise ValueError(f"x and branch must agree in all but channels, got {tuple(x.shape)} and {tuple(branch.shape)}")
    if anchors.ndim != 2 or len(anchors) == 0 or anchors.shape[1] != x.shape[-1]:
        raise ValueError(f"anchors must be (anchors, {x.shape[-1]}), got {tuple(anchors.shape)}")
    count, width = len(anchors), branch.shape[-1]
    if alpha.ndim:
        raise ValueError(f"alpha must be one number, got {tuple(alpha.shape)}")
    if projection is None and width != count:
        raise ValueError(f"without a projection the branch must have {count} channels, one per anchor, got {width}")
    if projection is not None and [each.shape for each in projection] != [(count, width), (count,)]:
        shapes = [tuple(each.shape) for each in projection]
        raise ValueError(f"the projection must be ({count}, {width}) and ({count},), got {shapes}")
    if shares is not None and shares.shape != (count,):
        raise ValueError(f"shares must have shape ({count},), got {tuple(shares.shape)}")
