r"""Dice and cross entropy together, without ever holding a one-hot label map.

For logits z, p = softmax(z), label y, over the voxels v of a sample::

    dice_c = (2 sum_v p_c [y = c] + s) / (sum_v p_c + sum_v [y = c] + s)
    loss = mean_v -log p[y(v), v] + mean_c (1 - dice_c)

The mean over classes includes the background; s = 1e-5. Where classes have weights, the mean over voxels is weighted by
those of their labels; the Dice counts each class alike in any case. Sums are float32 whatever the logits' type. A voxel
whose label is none of the classes, as K + 1 for those that nobody labelled, takes part in no sum.

Source: Milletari et al. 2016, arXiv:1606.04797 (Dice), with the cross entropy added as in nnU-Net, arXiv:1904.08128.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

SMOOTH = 1e-5


def dice_cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """The loss of one output.

    Args:
        logits: `(batch, classes, *grid)`, any floating type.
        labels: `(batch, *grid)`, class indices, any integer type; voxels with more than the last class are left out.
        weights: `(classes,)`, of a class's voxels in the cross-entropy; None counts every voxel alike.

    Returns:
        A float32 scalar.

    Raises:
        ValueError: Batch or grid differ.
    """
    if logits.shape[:1] + logits.shape[2:] != labels.shape:
        raise ValueError(f"logits {tuple(logits.shape)} and labels {tuple(labels.shape)} differ in batch or grid")
    flat = labels.flatten(1).long()
    logarithm = F.log_softmax(logits.float().flatten(2), dim=1)
    probability = logarithm.exp()
    known = flat < logits.shape[1]
    if not known.all():
        probability = probability * known[:, None]
        flat = flat.where(known, 0)
    own = logarithm.gather(1, flat[:, None])[:, 0] * known
    overlap = probability.new_zeros(logits.shape[:2]).scatter_add(1, flat, own.exp() * known)
    volume = probability.new_zeros(logits.shape[:2]).scatter_add_(1, flat, known.to(probability))
    dice = 1 - (2 * overlap + SMOOTH) / (probability.sum(-1) + volume + SMOOTH)
    if weights is None:
        return dice.mean() - own.sum() / known.sum().clamp(min=1)
    shares = weights.to(own)[flat] * known
    return dice.mean() - (shares * own).sum() / shares.sum().clamp(min=SMOOTH)


def deeply_supervised(
    outputs: Tensor | Sequence[Tensor], labels: Tensor, class_weights: Tensor | None = None
) -> Tensor:
    """The loss of several outputs, finest first, each half as fine as the one before and half as heavy.

    Labels for the coarser ones are every second voxel, every fourth and so on; weights sum to 1.
    """
    if isinstance(outputs, Tensor):
        return dice_cross_entropy(outputs, labels, class_weights)
    weights = [0.5**level for level in range(len(outputs))]
    losses = []
    for level, output in enumerate(outputs):
        step = (slice(None), *(slice(None, None, 2**level) for _ in labels.shape[1:]))
        losses.append(weights[level] * dice_cross_entropy(output, labels[step], class_weights))
    return torch.stack(losses).sum() / sum(weights)
