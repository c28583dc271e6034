r"""A gated product with a root-mean-square norm: the element-wise part of HyenaND, channels last.

The formula::

    u = n(x) * a(control);    y = scale * u / sqrt(mean over channels of u^2 + epsilon)

`n` divides by the Euclidean norm over channels, or does nothing; `a` is SiLU or the sigmoid. The inner gate of HyenaND
is `gate(q, k, scale, activation="silu", unit=True)`, its outer one `gate(h, v, scale, activation="sigmoid")`.

Source: arXiv:2607.19378.
"""

from typing import Literal

from torch import Tensor

from . import ops

__all__ = ["gate"]


def gate(
    x: Tensor,
    control: Tensor,
    scale: Tensor | None = None,
    *,
    activation: Literal["silu", "sigmoid"],
    unit: bool = False,
    epsilon: float = 1e-6,
) -> Tensor:
    """Gate `x` by `control` and normalise the product.

    Args:
        x: `(..., channels)`, any floating type, any strides.
        control: As `x`.
        scale: `(channels,)`, or None for ones.
        activation: What opens the gate.
        unit: Whether x is first divided by its Euclidean norm over channels.
        epsilon: Added under each root; keeps a row of zeros at zero.

    Returns:
        A contiguous tensor with the shape and dtype of `x`. Sums are float32, for float64 input float64, under
        autocast too. Differentiable once by x, control and scale, of which nothing else is kept.

    Raises:
        ValueError: Shapes do not fit or the activation is unknown.
    """
    if x.shape != control.shape or x.ndim == 0:
        raise ValueError(f"x and control must have one shape, got {tuple(x.shape)} and {tuple(control.shape)}")
    if scale is not None and scale.shape != x.shape[-1:]:
        raise ValueError(f"scale must have shape {tuple(x.shape[-1:])}, got {tuple(scale.shape)}")
    if activation not in ("silu", "sigmoid"):
        raise ValueError(f'activation must be "silu" or "sigmoid", got {activation!r}')
    return ops.apply(x, control, scale, activation, unit, epsilon)
