r"""A convolution kernel that is a function of position, sampled on a grid.

The function is a SIREN, sines of sines, joint over the axes, times a Gaussian window for each channel::

    h_0 = sin(W_0 c + b_0);    h_j = gamma_j sin(W_j h_{j-1} + b_j) + beta_j;    k = W_out h + b_out
    kernel[channel, c] = k[channel] exp(-1/2 sum over axes d of (c_d / sigma[d, channel])^2)

gamma and beta (FiLM) are one pair per hidden layer and sample; without them gamma = 1, beta = 0. Frequencies are part
of W_0. Each `(1 or batch, channels, *taps)` result serves `fftconv` as it is.

Source: "Native Multi-Dimensional Subquadratic Operators via Input Dependent Long Convolutions", arXiv:2607.19378;
SIREN: Sitzmann et al. 2020, arXiv:2006.09661.
"""

from collections.abc import Sequence

from torch import Tensor

from . import ops

__all__ = ["implicit_kernel"]


def implicit_kernel(
    axes: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    *,
    film: Tensor | None = None,
    sigma: Tensor | None = None,
) -> Tensor:
    """Sample the kernel at every combination of the axes' coordinates.

    Args:
        axes: One to three tensors `(taps,)`, the coordinates along each axis; no gradient flows into them.
        weights: `(width, axes)`, then `(width, width)` for each hidden layer, then `(channels, width)`; two or more.
        biases: `(width,)` for each but the last, which is `(channels,)`.
        film: `(batch, hidden layers, 2, width)`, gamma at 0 and beta at 1 of the third axis; None is the identity.
        sigma: `(axes, channels)`, widths of the window in units of the coordinates; None is no window.

    Returns:
        `(1, channels, *taps)`, or `(batch, channels, *taps)` with film, in the type of the weights. Sums are float32,
        for float64 weights float64, under autocast too. Differentiable once by weights, biases, film and sigma.

    Raises:
        ValueError: Shapes do not fit; the message names them.
    """
    _check(axes, weights, biases, film, sigma)
    return ops.synthesise(list(axes), list(weights), list(biases), film, sigma)


def _check(
    axes: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    film: Tensor | None,
    sigma: Tensor | None,
) -> None:
    if not 1 <= len(axes) <= 3 or any(axis.ndim != 1 or len(axis) == 0 for axis in axes):
        raise ValueError(f"expected one to three axes of coordinates (taps,), got {[tuple(a.shape) for a in axes]}")
    if len(weights) < 2 or len(weights) != len(biases):
        raise ValueError(f"expected two or more weights and as many biases, got {len(weights)} and {len(biases)}")
    inputs = [len(axes), *(len(weight) if weight.ndim else 0 for weight in weights[:-1])]
    for layer, (weight, bias, width) in enumerate(zip(weights, biases, inputs, strict=True)):
        if weight.ndim != 2 or weight.shape[1] != width or bias.shape != (weight.shape[0],):
            raise ValueError(
                f"layer {layer}: expected weight (*, {width}) and bias (*,), "
                f"got {tuple(weight.shape)} and {tuple(bias.shape)}"
            )
    if film is not None and len({len(weight) for weight in weights[:-1]}) > 1:
        raise ValueError(f"film needs hidden layers of one width, got {[len(weight) for weight in weights[:-1]]}")
    if film is not None and film.shape[1:] != (len(weights) - 2, 2, weights[0].shape[0]):
        raise ValueError(f"film must be (batch, {len(weights) - 2}, 2, {weights[0].shape[0]}), got {tuple(film.shape)}")
    if sigma is not None and sigma.shape != (len(axes), weights[-1].shape[0]):
        raise ValueError(f"sigma must be ({len(axes)}, {weights[-1].shape[0]}), got {tuple(sigma.shape)}")
