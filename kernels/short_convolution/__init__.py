r"""Depthwise convolution with a few taps, channels last: the short convolution of HyenaND.

For each channel c and position p, with zeros outside the grid::

    y[p, c] = sum over t of weight[c, t] x[p + t - padding, c]

A correlation, as `torch.nn.ConvNd` has it. `torch.nn.functional.conv3d` gives the same numbers; what is ours is the way
back, which PyTorch takes many times slower than the way there: the gradient by x is the same convolution with the taps
turned round, and the one by the weight is summed in float32.

Source: Poli et al. 2023, Hyena Hierarchy, arXiv:2302.10866, section 3.1; in several dimensions arXiv:2607.19378.
"""

from collections.abc import Sequence

from torch import Tensor

from . import ops

__all__ = ["short_convolution"]


def short_convolution(x: Tensor, weight: Tensor, padding: Sequence[int]) -> Tensor:
    """Convolve each channel with its own few taps.

    Args:
        x: `(batch, *grid, channels)` with one to three axes, any floating type, any strides.
        weight: `(channels, 1, *taps)`; taken in the type of `x`.
        padding: Zeros in front of and behind each axis; `taps // 2` keeps the grid.

    Returns:
        Contiguous `(batch, *grid + 2 padding - taps + 1, channels)` in the type of `x`, under autocast too.
        Differentiable once by x and weight.

    Raises:
        ValueError: Ranks or channels do not fit, or an axis with its padding is shorter than its taps.
    """
    axes = x.ndim - 2
    if not 1 <= axes <= 3 or weight.ndim != x.ndim or len(padding) != axes:
        raise ValueError(
            f"expected x (batch, *grid, channels), weight (channels, 1, *taps) and a padding for each of one to three "
            f"axes, got {tuple(x.shape)}, {tuple(weight.shape)} and {tuple(padding)}"
        )
    if tuple(weight.shape[:2]) != (x.shape[-1], 1):
        raise ValueError(f"weight must be ({x.shape[-1]}, 1, *taps) for x {tuple(x.shape)}, got {tuple(weight.shape)}")
    if any(n + 2 * p < t for n, p, t in zip(x.shape[1:-1], padding, weight.shape[2:], strict=True)):
        raise ValueError(f"grid {tuple(x.shape[1:-1])}, padded by {tuple(padding)}, is shorter than {weight.shape[2:]}")
    return ops.apply(x, weight, list(padding))
