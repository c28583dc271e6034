r"""Universal interpolation: a residual that moves features towards anchors which all layers share.

In the place of the plain residual x + b of a branch b = mixer(norm(x))::

    y = (1 - alpha) base(x, b) + alpha sum over i of w_i(b) A_i;    alpha = sigmoid(beta d(l) + gamma)

w_i are a softmax of a linear map of the branch, see `kernels.anchor_mix`; the sum stays in the anchors' convex hull. d
is the layer's place, l / L or log l. The paper's base is x alone, `without_branch`; x + b is ours and the default, for
with alpha at 0 it is the plain residual, so that a network which learned without anchors goes on from what it was.

Source: "Universal interpolation for deep residual self-attention networks", its block and its learned alpha.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from ..kernels import anchor_measure, anchor_mix

Residual = Callable[[Tensor, Tensor], Tensor]
OUTSIDE = 0.3  # share of an anchor that came from outside, beside 1 of a learned one


def linear_depth(layer: int, layers: int) -> float:
    """The layer's number as a share of all, l / L, from 1 / L to 1."""
    return layer / layers


def logarithmic_depth(layer: int, layers: int) -> float:
    """Log l, which the paper has for long texts."""
    return math.log(layer)


DEPTHS: Mapping[str, Callable[[int, int], float]] = {"linear": linear_depth, "logarithmic": logarithmic_depth}


def without_branch(x: Tensor, branch: Tensor) -> Tensor:
    """The paper's base: what the branch says shows in the anchors' weights alone."""
    return x


class Points(Protocol):
    """Where a layer finds its anchors."""

    dim: int

    @property
    def shares(self) -> Tensor:
        """What each weighs beside the others, `(anchors,)`."""
        ...

    def __call__(self) -> Tensor:
        """The anchors, `(anchors, dim)`."""
        ...


class Anchors(nn.Module):
    """Points that all layers share.

    Args:
        dim: Channels.
        count: Learned anchors; the paper takes 16 and 24, multiples of 8.
        outside: Anchors from elsewhere `(anchors, dim)`, such as embeddings of the classes' names; they do not learn,
            and each weighs 0.3 of a learned one.

    Raises:
        ValueError: The anchors from outside have other channels.
    """

    outside: Tensor
    shares: Tensor

    def __init__(self, dim: int, count: int = 16, outside: Tensor | None = None) -> None:
        super().__init__()
        self.dim = dim
        outside = torch.empty(0, dim) if outside is None else outside
        if outside.ndim != 2 or outside.shape[1] != dim:
            raise ValueError(f"anchors from outside must be (anchors, {dim}), got {tuple(outside.shape)}")
        self.learned = nn.Parameter(torch.randn(count, dim) / math.sqrt(dim))
        self.register_buffer("outside", outside)
        self.register_buffer("shares", torch.tensor([1.0] * count + [OUTSIDE] * len(outside)))

    def forward(self) -> Tensor:
        """All anchors, the learned ones first."""
        return torch.cat([self.learned, self.outside.to(self.learned.dtype)])


class Lifted(nn.Module):
    """The same anchors in a layer of other channels, by a linear map that starts as an isometry where these are more.

    Args:
        points: The anchors.
        dim: Channels of the layer.
    """

    def __init__(self, points: Points, dim: int) -> None:
        super().__init__()
        self.points, self.dim = points, dim
        self.lift = nn.Linear(points.dim, dim, bias=False)
        nn.init.orthogonal_(self.lift.weight)

    @property
    def shares(self) -> Tensor:
        """What each weighs beside the others."""
        return self.points.shares

    def forward(self) -> Tensor:
        """The anchors, `(anchors, dim)`."""
        return self.lift(self.points())


class Lent:
    """Anchors that another layer owns; with that one they learn, move and are stored, once for all layers."""

    def __init__(self, points: Points) -> None:
        self.points, self.dim = points, points.dim

    @property
    def shares(self) -> Tensor:
        """What each weighs beside the others."""
        return self.points.shares

    def __call__(self) -> Tensor:
        """The anchors."""
        return self.points()


class UniversalInterpolation(nn.Module):
    """The residual of one layer, to be given to a block in place of the sum.

    Args:
        anchors: Those of the network; the first layer owns them, the others have them `Lent`.
        place: d(l), see `linear_depth`.
        base: What is moved towards the anchors, from x and the branch.
    """

    def __init__(self, anchors: Points, place: float, *, base: Residual = torch.add) -> None:
        super().__init__()
        self.anchors, self.place, self.base = anchors, place, base
        self.project = nn.Linear(anchors.dim, len(anchors.shares))
        nn.init.kaiming_normal_(self.project.weight, nonlinearity="linear")
        nn.init.zeros_(self.project.bias)
        self.beta, self.gamma = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(-1.0))

    @property
    def alpha(self) -> Tensor:
        """How far features are moved, from 0 to 1."""
        return torch.sigmoid(self.beta * self.place + self.gamma)

    def weights(self, branch: Tensor) -> Tensor:
        """The weight of each anchor in the sum, `(..., anchors)`; no gradient needs it."""
        measure, c = anchor_measure(self.anchors()), self.project(branch)
        c = c - (measure * c).sum(-1, keepdim=True)
        c = c / ((measure * c.square()).sum(-1, keepdim=True) + 1e-5).sqrt()
        return (c + (measure * self.anchors.shares).log()).softmax(-1)

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        """From x and its branch, `(..., dim)` both, to the same."""
        projection = self.project.weight, self.project.bias
        moved = self.base(x, branch)
        return anchor_mix(moved, branch, self.anchors(), self.alpha, projection=projection, shares=self.anchors.shares)


@dataclass(frozen=True, kw_only=True)
class Interpolation:
    """How a deep stack interpolates.

    Args:
        anchors: Learned anchors.
        from_layer: The first layer that does, counted from 1; those before keep the plain residual.
        depth: Alpha's schedule: "linear" or "logarithmic".
        outside: Anchors from elsewhere; they are 0 until `Anchors.outside` of the first layer that interpolates is
            filled, and are stored with the weights.

    Raises:
        ValueError: The schedule is not known, or a number does not fit.
    """

    anchors: int = 16
    from_layer: int = 1
    depth: str = "linear"
    outside: int = 0

    def __post_init__(self) -> None:
        if self.depth not in DEPTHS:
            raise ValueError(f"depth is {' or '.join(DEPTHS)}, not {self.depth!r}")
        if self.anchors < 1 or self.from_layer < 1 or self.outside < 0:
            raise ValueError(
                f"anchors and from_layer are 1 or more and outside is 0 or more, "
                f"not {self.anchors}, {self.from_layer} and {self.outside}"
            )

    def residuals(self, dims: Sequence[int]) -> list[Residual]:
        """A residual for each layer of so many channels, with one set of anchors.

        The anchors have the channels of the first layer that interpolates; for others they are `Lifted`.

        Raises:
            ValueError: No layer is as deep as `from_layer`.
        """
        if self.from_layer > len(dims):
            raise ValueError(f"interpolation starts at layer {self.from_layer}, and there are {len(dims)}")
        plain = self.from_layer - 1
        anchors = Anchors(dims[plain], self.anchors, torch.zeros(self.outside, dims[plain]))
        seen: dict[int, Points] = {}
        residuals: list[Residual] = [torch.add] * plain
        for layer, dim in enumerate(dims[plain:], self.from_layer):
            place = DEPTHS[self.depth](layer, len(dims))
            own = seen[dim] if dim in seen else anchors if not seen else Lifted(Lent(anchors), dim)
            seen[dim] = Lent(own)
            residuals.append(UniversalInterpolation(own, place))
        return residuals


def residuals(interpolation: Interpolation | None, dims: Sequence[int]) -> list[Residual]:
    """A residual for each layer of so many channels: the plain sum, unless the stack interpolates."""
    return [torch.add] * len(dims) if interpolation is None else interpolation.residuals(dims)
