r"""kappa as a two-layer perceptron of the pair.

The formula::

    kappa(x, y) = second( GELU( left(x) + right(y) + products(x, y) + distances(x, y) ) )

The first layer is linear, so what concerns one point alone is summed for each point, in `left` and `right`; only terms
of both remain for each pair.

Source: ITNet, arXiv:2606.19538, section 2.1, "Kernel parametrisation".
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from . import ops
from .kappa import take
from .parts import Parts


@dataclass(frozen=True)
class Points:
    """A batch of clouds: positions `(batch, points, axes)` and features `(batch, points, channels)`.

    Positions are best float32 or float64: half precision cannot tell near points apart.
    """

    positions: Tensor
    features: Tensor


@dataclass(frozen=True)
class Products:
    """First-layer terms `sum over rank r and feature f of weight[r, k, f] x[r, f] y[f]`.

    Args:
        x: `(batch, targets, rank, features)`.
        y: `(batch, sources, features)`.
        weight: `(rank, width, features)`.
    """

    x: Tensor
    y: Tensor
    weight: Tensor

    def fits(self, batch: int, targets: int, sources: int, width: int) -> bool:
        """Whether the shapes are those of such a kappa."""
        rank, _, features = self.weight.shape
        shapes = (batch, targets, rank, features), (batch, sources, features), (rank, width, features)
        return (self.x.shape, self.y.shape, self.weight.shape) == shapes


@dataclass(frozen=True)
class Distances:
    """First-layer terms `weight[k] |x - y|`.

    Args:
        x: `(batch, targets, axes)`.
        y: `(batch, sources, axes)`.
        weight: `(width,)`.
    """

    x: Tensor
    y: Tensor
    weight: Tensor

    def fits(self, batch: int, targets: int, sources: int, width: int) -> bool:
        """Whether the shapes are those of such a kappa."""
        shapes = (batch, targets, self.x.shape[-1]), (batch, sources, self.x.shape[-1]), (width,)
        return (self.x.shape, self.y.shape, self.weight.shape) == shapes


@dataclass(frozen=True)
class MLPKappa:
    """A perceptron of pairs.

    Args:
        left: `(batch, targets, width)`, the first layer's terms of the target alone.
        right: `(batch, sources, width)`, those of the source alone.
        weight: The second layer, `(out, in, width)` for matrices or `(channels, width)` for diagonals.
        bias: `(out, in)` or `(channels,)`.
        products: The first layer's terms of both points' factors; None for none.
        distances: Those of their distance; None for none.

    Raises:
        ValueError: Shapes do not fit; the message names them.
    """

    left: Tensor
    right: Tensor
    weight: Tensor
    bias: Tensor
    products: Products | None = None
    distances: Distances | None = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def pairs(self) -> tuple[int, int, int]:
        """How many clouds, targets and sources."""
        return self.left.shape[0], self.left.shape[1], self.right.shape[1]

    def integrate(self, u: Tensor, measure: Tensor, index: Tensor | None) -> Tensor:
        """As `Kappa`; one opaque step, differentiable once by every tensor."""
        if u.shape[-1] != self.bias.shape[-1]:
            raise ValueError(f"u has {u.shape[-1]} channels, kappa's second layer {tuple(self.weight.shape)} others")
        return ops.integrate(list(self._parts(u, measure)), index)

    def select(self, index: Tensor) -> "MLPKappa":
        """As `Kappa`."""
        products, distances = self.products, self.distances
        if products is not None:
            products = Products(products.x, take(products.y, index), products.weight)
        if distances is not None:
            distances = Distances(distances.x, take(distances.y, index), distances.weight)
        return MLPKappa(self.left, take(self.right, index), self.weight, self.bias, products, distances)

    def _parts(self, u: Tensor, measure: Tensor) -> Parts:
        batch, targets, sources = self.pairs
        width = self.left.shape[2]
        products = self.products or Products(
            u.new_empty(batch, targets, 1, 0), u.new_empty(batch, sources, 0), u.new_empty(1, width, 0)
        )
        distances = self.distances or Distances(
            u.new_empty(batch, targets, 0), u.new_empty(batch, sources, 0), u.new_empty(width)
        )
        second = torch.cat([self.weight, self.bias[..., None]], -1)
        return Parts(
            self.left,
            self.right,
            *(products.x, products.y, products.weight),
            *(distances.x, distances.y, distances.weight),
            second,
            u,
            measure,
        )


def itnet_kappa(
    x: Points, y: Points, frequencies: Tensor, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
) -> MLPKappa:
    """ITNet's perceptron of `[g(x); g(y); g(x - y); |x - y|; u(x); u(y); u(x) * u(y)]`.

    g(p) = `[cos(2 pi B p); sin(2 pi B p)]` are random Fourier features. Differences of positions and their phases are
    taken in float64, so that points far from the origin are told apart as well as others.

    Args:
        x: The targets, with channels as the sources have.
        y: The sources.
        frequencies: B `(frequencies, axes)`.
        first: Weight `(width, 6 frequencies + 1 + 3 channels)`, its columns in the order above, and bias `(width,)`.
        second: Weight `(out, in, width)` or `(channels, width)`, and bias `(out, in)` or `(channels,)`.

    Raises:
        ValueError: Shapes do not fit; the message names them.
    """
    _check_points(x, y, frequencies)
    count, channels = len(frequencies), x.features.shape[-1]
    weight, bias = first
    if weight.ndim != 2 or weight.shape[1] != 6 * count + 1 + 3 * channels:
        raise ValueError(
            f"{count} frequencies and {channels} channels need a first weight (width, {6 * count + 1 + 3 * channels}), "
            f"got {tuple(weight.shape)}"
        )
    with torch.autocast(weight.device.type, enabled=False):
        return _expand(_in_sum_type(x), _in_sum_type(y), frequencies, weight, bias, second)


def _expand(
    x: Points, y: Points, frequencies: Tensor, weight: Tensor, bias: Tensor, second: tuple[Tensor, Tensor]
) -> MLPKappa:
    """Sort the seven groups by whether they are of one point or of both."""
    real, count, channels = x.features.dtype, len(frequencies), x.features.shape[-1]
    sizes = [2 * count, 2 * count, count, count, 1, channels, channels, channels]
    of_x, of_y, cosine, sine, distance, features_x, features_y, product = weight.to(real).split(sizes, dim=1)
    (cos_x, sin_x), (cos_y, sin_y) = (fourier_features(points.positions, frequencies, real) for points in (x, y))
    all_x, all_y = torch.cat([cos_x, sin_x, x.features], -1), torch.cat([cos_y, sin_y, y.features], -1)
    left = F.linear(all_x, torch.cat([of_x, features_x], 1), bias.to(real))
    right = F.linear(all_y, torch.cat([of_y, features_y], 1))
    # cos(a - b) = cos a cos b + sin a sin b;    sin(a - b) = sin a cos b - cos a sin b
    turned = torch.cat([sin_x, -cos_x, torch.zeros_like(x.features)], -1)
    weights = [torch.cat([cosine, cosine, product], 1), torch.cat([sine, sine, torch.zeros_like(product)], 1)]
    products = Products(torch.stack([all_x, turned], -2), all_y, torch.stack(weights))
    centre = y.positions.detach().mean(1, keepdim=True)  # what is left after rounding is then as fine as can be
    distances = Distances((x.positions - centre).to(real), (y.positions - centre).to(real), distance[:, 0])
    return MLPKappa(left, right, *second, products, distances)


def fourier_features(positions: Tensor, frequencies: Tensor, real: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos(2 pi B p) and sin(2 pi B p), `(*, frequencies)` each, in the type `real`.

    Phases are reduced to one turn in float64 before they are rounded, so that points far from the origin are told apart
    as well as others.

    Args:
        positions: `(*, axes)`.
        frequencies: B `(frequencies, axes)`.
        real: The type of the result.
    """
    turns = positions.double() @ frequencies.double().T
    phases = (2 * math.pi * (turns - turns.detach().round())).to(real)
    return torch.cos(phases), torch.sin(phases)


def _in_sum_type(points: Points) -> Points:
    real = torch.float64 if points.features.dtype == torch.float64 else torch.float32
    return Points(points.positions, points.features.to(real))


def _check(kappa: MLPKappa) -> None:
    left, right, weight, bias = kappa.left, kappa.right, kappa.weight, kappa.bias
    if left.ndim != 3 or right.ndim != 3 or left.shape[::2] != right.shape[::2]:
        raise ValueError(
            f"left and right must be (batch, points, width), got {tuple(left.shape)} and {tuple(right.shape)}"
        )
    batch, targets, width = left.shape
    if weight.ndim not in (2, 3) or weight.shape[-1] != width or bias.shape != weight.shape[:-1]:
        raise ValueError(
            f"the second layer must be (out, in, {width}) or (channels, {width}), with a bias for each but the last, "
            f"got {tuple(weight.shape)} and {tuple(bias.shape)}"
        )
    for name, term in (("products", kappa.products), ("distances", kappa.distances)):
        if term is not None and not term.fits(batch, targets, right.shape[1], width):
            shapes = [tuple(each.shape) for each in (term.x, term.y, term.weight)]
            raise ValueError(
                f"{name} do not fit {batch} clouds of {targets} targets and {right.shape[1]} sources with width "
                f"{width}: got {shapes}"
            )


def _check_points(x: Points, y: Points, frequencies: Tensor) -> None:
    for points in (x, y):
        positions, features = points.positions.shape, points.features.shape
        if len(positions) != 3 or positions[:2] != features[:2] or features[2:] != x.features.shape[2:]:
            raise ValueError(
                "points must have positions (batch, points, axes) and features (batch, points, channels), targets and "
                f"sources alike, got {tuple(positions)} and {tuple(features)}"
            )
        if frequencies.ndim != 2 or positions[2] != frequencies.shape[1]:
            raise ValueError(
                f"frequencies must be (frequencies, {positions[2]}), as positions have axes, "
                f"got {tuple(frequencies.shape)}"
            )
