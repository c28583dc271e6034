r"""The integral of a learned kernel over a cloud of points: ITNet's operator.

For targets x, sources y with features u(y), and a measure mu, which on points is a weight for each source::

    y(x) = sum over sources y of kappa(x, y) u(y) mu(y)

kappa gives each pair a matrix, a diagonal or a number, and may look at whatever both points have: positions, features.
It is a record of tensors, made anew for each input:

- `MLPKappa`: a two-layer perceptron of the pair; `itnet_kappa` makes the paper's with its seven groups of inputs;
- `PairwiseKappa`: any function of a pair's tensors, for convolutions, recurrences and whatever else;
- `SoftmaxKappa`: attention;
- `LowRankKappa`: a sum of products of a target's and a source's part.

So is the measure: the weights of all sources, or a `Selection` of some: neighbours, or samples drawn by `draw_uniform`,
`draw_near` or `draw_by_score` with the weights that make their sum an unbiased estimate.

Clouds of different size share a batch by padding with points of measure 0. Weights are needed anyway, a point without
weight is absent by the definition itself, and the batch keeps its axis, as everywhere in this package; offsets into one
long list would save the work on padding, and cost all that.

Nothing of the size targets x sources is ever held, neither here nor in the gradients, which make kappa anew.

Source: ITNet, arXiv:2606.19538, definition 1; `cpu.py` says how its sum is reordered. The term W u(x) is the caller's.
"""

import torch
from torch import Tensor

from .kappa import Kappa, take
from .low_rank import LowRankKappa
from .mlp import Distances, MLPKappa, Points, Products, fourier_features, itnet_kappa
from .pairwise import PairwiseKappa
from .selection import Selection, draw_by_score, draw_near, draw_uniform
from .softmax import SoftmaxKappa

__all__ = [
    "Distances",
    "Kappa",
    "LowRankKappa",
    "MLPKappa",
    "PairwiseKappa",
    "Points",
    "Products",
    "Selection",
    "SoftmaxKappa",
    "draw_by_score",
    "draw_near",
    "draw_uniform",
    "fourier_features",
    "integral_transform",
    "itnet_kappa",
    "take",
]


def integral_transform(kappa: Kappa, u: Tensor, measure: Tensor | Selection | None = None) -> Tensor:
    """Integrate `kappa` times `u` over the sources.

    Args:
        kappa: What each pair of a target and a source multiplies with.
        u: `(batch, sources, in)`, any floating type. Padding must be finite, for 0 times infinity is no number.
        measure: `(batch, sources)`, the weight of each source, area or volume; 0 where there is no point. Or a
            `Selection` of sources for each target, with weights of its own. None is the mean, 1 / sources each.

    Returns:
        `(batch, targets, out)` in the dtype of `u`. Sums are float32, for float64 input float64, under autocast too.
        Differentiable by u, the measure and the tensors of kappa.

    Raises:
        ValueError: Shapes do not fit; the message names them.
        TypeError: `u` or the measure is no floating tensor, or kappa cannot integrate over a selection.
    """
    batch, targets, sources = kappa.pairs
    if u.ndim != 3 or u.shape[:2] != (batch, sources):
        raise ValueError(f"u must be ({batch}, {sources}, channels), as kappa has it, got {tuple(u.shape)}")
    if measure is None:
        real = torch.float64 if u.dtype == torch.float64 else torch.float32
        measure = torch.full((batch, sources), 1 / max(sources, 1), dtype=real, device=u.device)
    weights = measure.weights if isinstance(measure, Selection) else measure
    if not (u.is_floating_point() and weights.is_floating_point()):
        raise TypeError(f"u and the measure must be floating tensors, got {u.dtype} and {weights.dtype}")
    if isinstance(measure, Selection):
        return _over_selection(kappa, u, measure, (batch, targets))
    if measure.shape != (batch, sources):
        raise ValueError(f"the measure must be ({batch}, {sources}), one weight per source, got {tuple(measure.shape)}")
    return kappa.integrate(u, measure, None)


def _over_selection(kappa: Kappa, u: Tensor, selection: Selection, size: tuple[int, int]) -> Tensor:
    batch, targets = size
    if len(selection.index) != batch or selection.index.shape[1] not in (1, targets):
        raise ValueError(
            f"a selection for {batch} clouds must have a list for each of {targets} targets or one for all, "
            f"got {tuple(selection.index.shape)}"
        )
    if selection.index.shape[1] == targets:
        return kappa.integrate(u, selection.weights, selection.index)
    common = selection.index[:, 0]
    return kappa.select(common).integrate(take(u, common), selection.weights[:, 0], None)
