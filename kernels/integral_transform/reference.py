"""The definition of `integral_transform`: every pair's kappa at once, in the arguments' own type and by autograd."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ..definition import differentiate, evaluate
from .mlp import Distances, MLPKappa, Points, Products
from .parts import Parts


def integral_transform_reference(kappa: Tensor, u: Tensor, measure: Tensor) -> Tensor:
    """`y(x) = sum over sources y of kappa(x, y) u(y) mu(y)`.

    Args:
        kappa: `(batch, targets, sources)` numbers, `(..., channels)` diagonals or `(..., out, in)` matrices.
        u: `(batch, sources, in)`.
        measure: `(batch, sources)` or `(batch, targets, sources)`.
    """
    if measure.ndim == 2:
        measure = measure[:, None]
    if kappa.ndim < 5:
        kappa = torch.diag_embed((kappa if kappa.ndim == 4 else kappa[..., None]).expand(-1, -1, -1, u.shape[2]))
    return (kappa @ u[:, None, :, :, None] * measure[..., None, None]).sum(2)[..., 0]


def mlp_reference(kappa: MLPKappa) -> Tensor:
    """The values of an `MLPKappa` for every pair."""
    first = kappa.left[:, :, None] + kappa.right[:, None]
    if kappa.products is not None:
        products = kappa.products.x[:, :, None] * kappa.products.y[:, None, :, None]
        first = first + torch.einsum("bxyrf,rkf->bxyk", products, kappa.products.weight)
    if kappa.distances is not None:
        difference = kappa.distances.x[:, :, None] - kappa.distances.y[:, None]
        first = first + difference.norm(dim=-1, keepdim=True) * kappa.distances.weight
    return _second(first, kappa.weight, kappa.bias)


def itnet_reference(
    x: Points, y: Points, frequencies: Tensor, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
) -> Tensor:
    """The values of ITNet's kappa for every pair, from its seven groups of inputs as the paper lists them."""

    def g(p: Tensor) -> Tensor:
        angles = 2 * math.pi * p @ frequencies.T
        return torch.cat([torch.cos(angles), torch.sin(angles)], -1)

    p_x, p_y, u_x, u_y = x.positions[:, :, None], y.positions[:, None], x.features[:, :, None], y.features[:, None]
    pairs = (p_x.shape[0], p_x.shape[1], p_y.shape[2], -1)
    groups = [g(p_x), g(p_y), g(p_x - p_y), (p_x - p_y).norm(dim=-1, keepdim=True), u_x, u_y, u_x * u_y]
    z = torch.cat([group.expand(pairs) for group in groups], -1)
    return _second(F.linear(z, *first), *second)


def integrate(parts: Parts, index: Tensor | None) -> Tensor:
    """The perceptron's integral, as `cpu.integrate`."""
    return evaluate(lambda u, *every: _integral(Parts(*every), index), parts.u, *parts)


def gradients(dy: Tensor, parts: Parts, index: Tensor | None) -> list[Tensor | None]:
    """Gradients by all parts, as `cpu.gradients`."""
    return differentiate(lambda *every: _integral(Parts(*every), index), dy, *parts)


def _integral(parts: Parts, index: Tensor | None) -> Tensor:
    products = Products(parts.factors_x, parts.factors_y, parts.factor_weight) if parts.factors_y.shape[2] else None
    distances = Distances(parts.points_x, parts.points_y, parts.distance_weight) if parts.points_y.shape[2] else None
    kappa = MLPKappa(parts.left, parts.right, parts.weight[..., :-1], parts.weight[..., -1], products, distances)
    measure = parts.measure
    if index is not None:
        measure = measure.new_zeros(*kappa.pairs).scatter_add(2, index, measure)
    return integral_transform_reference(mlp_reference(kappa), parts.u, measure)


def _second(first: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    kappa = F.linear(F.gelu(first), weight.flatten(0, -2), bias.flatten())
    return kappa.unflatten(-1, bias.shape)
