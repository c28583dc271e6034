r"""How much each anchor counts.

With D_ij the squared distance of two anchors and m_i the number of anchors equal to anchor i, itself too::

    p_i = 1 / (m_i q_i);    q_i = sum over j of near_ij / m_j;    near_ij = exp(-D_ij / (NEAR (|A_i|^2 + |A_j|^2) / 2))

normalised to sum 1. q counts the places near anchor i: each place once, however many anchors lie there. So equal
anchors share one weight, exactly, and nothing changes for the others; two that come close count for ever less than two;
anchors in about orthogonal directions count one each. Multiplying all anchors by a number changes nothing.
"""

import torch
from torch import Tensor

NEAR = 0.1  # squared distance, as a part of the mean squared length, at which two anchors' nearness is 1 / e
TINY = 1e-12  # anchors start at zero, where lengths and distances are nothing


def anchor_measure(anchors: Tensor) -> Tensor:
    """The weights p `(anchors,)` of anchors `(anchors, channels)`, float32, for float64 float64; differentiable."""
    anchors = anchors.to(torch.float64 if anchors.dtype == torch.float64 else torch.float32)
    distances = (anchors[:, None] - anchors).square().sum(-1)  # differences, since equal anchors must give 0 exactly
    lengths = anchors.square().sum(-1)
    near = torch.exp(-distances / (NEAR / 2 * (lengths[:, None] + lengths) + TINY))
    equal = (distances == 0).sum(1).to(near.dtype)
    weights = 1 / (equal * (near / equal).sum(1))
    return weights / weights.sum()
