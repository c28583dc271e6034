r"""Instance norm with what follows it in a convolutional block: a residual and a leaky ReLU.

For each sample and channel, with mean and variance over the grid::

    y = leaky_relu( scale (x - mean) / sqrt(variance + epsilon) + offset + residual )

Between the convolutions of a segmentation network these steps move more memory than they compute; here they are two
walks through it. Source: Ulyanov et al. 2016, arXiv:1607.08022.
"""

from torch import Tensor

from . import ops

__all__ = ["instance_norm"]


def instance_norm(
    x: Tensor,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    *,
    residual: Tensor | None = None,
    slope: float = 1.0,
    epsilon: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample over its grid.

    Args:
        x: `(batch, channels, *grid)`, any floating type; channels-last memory saves a copy.
        scale: `(channels,)`, or None for ones.
        offset: `(channels,)`, or None for zeros.
        residual: Added before the activation, like `x`; None adds nothing.
        slope: Of the leaky ReLU below zero, more than 0; 1 is no activation.
        epsilon: Added to the variance.

    Returns:
        A tensor of the shape and dtype of `x` with channels-last memory. Sums are float32, for float64 input float64,
        under autocast too. Differentiable once by all four tensors. A grid of one voxel is its own mean and gives zero
        before offset and residual.

    Raises:
        ValueError: Shapes do not fit, or the slope is not positive.
    """
    if x.ndim < 3 or 0 in x.shape:
        raise ValueError(f"expected (batch, channels, *grid) with no axis of length 0, got {tuple(x.shape)}")
    for name, value in (("scale", scale), ("offset", offset)):
        if value is not None and value.shape != (x.shape[1],):
            raise ValueError(f"{name} must have shape ({x.shape[1]},), got {tuple(value.shape)}")
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"residual must have the shape of x {tuple(x.shape)}, got {tuple(residual.shape)}")
    if slope <= 0:
        raise ValueError(f"slope must be positive, so that the result tells its sign, got {slope}")
    return ops.apply(x, scale, offset, residual, slope, epsilon)[0]
