r"""Universal interpolation: a residual that moves features towards anchors which all layers share.

In the place of the plain residual x + b of a branch b = mixer(norm(x))::

    y = (1 - alpha) base(x, b) + alpha sum over i of w_i(b) A_i;    alpha = sigmoid(beta d(l) + gamma)

w_i are a softmax of a linear map of the branch, see `kernels.anchor_mix`; the sum stays in the anchors' convex hull. d
is the layer's place, l / L or log l. The paper's base is x alone, `without_branch`; x + b is ours and the default, for
with alpha at 0 it is the plain residual, so that a network which learned without anchors goes on from what it was.

Source: "Universal interpolation for deep residual self-attention networks", its block and its learned alpha.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..kernels import anchor_mix

Residual = Callable[[Tensor, Tensor], Tensor]
OUTSIDE = 0.3  # share of an anchor that came from outside, beside 1 of a learned one


def linear_depth(layer: int, layers: int) -> float:
    """L / L, from 1 / L to 1."""
    return layer / layers


def logarithmic_depth(layer: int, layers: int) -> float:
    """Log l, which the paper has for long texts."""
    return math.log(layer)


DEPTHS: Mapping[str, Callable[[int, int], float]] = {"linear": linear_depth, "logarithmic": logarithmic_depth}


def without_branch(x: Tensor, branch: Tensor) -> Tensor:
    """The paper's base: what the branch says shows in the anchors' weights alone."""
    return x


class Anchors(nn.Module):
    """Points that all layers of one width share.

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
        outside = torch.empty(0, dim) if outside is None else outside
        if outside.ndim != 2 or outside.shape[1] != dim:
            raise ValueError(f"anchors from outside must be (anchors, {dim}), got {tuple(outside.shape)}")
        self.learned = nn.Parameter(torch.randn(count, dim) / math.sqrt(dim))
        self.register_buffer("outside", outside)
        self.register_buffer("shares", torch.tensor([1.0] * count + [OUTSIDE] * len(outside)))

    def forward(self) -> Tensor:
        """All anchors, the learned ones first."""
        return torch.cat([self.learned, self.outside.to(self.learned.dtype)])


class UniversalInterpolation(nn.Module):
    """The residual of one layer, to be given to a block in place of the sum.

    Args:
        anchors: Those of the network; the same object for all its layers.
        place: d(l), see `linear_depth`.
        base: What is moved towards the anchors, from x and the branch.
    """

    def __init__(self, anchors: Anchors, place: float, *, base: Residual = torch.add) -> None:
        super().__init__()
        self.anchors, self.place, self.base = anchors, place, base
        self.project = nn.Linear(anchors.learned.shape[1], len(anchors.shares))
        nn.init.kaiming_normal_(self.project.weight, nonlinearity="linear")
        nn.init.zeros_(self.project.bias)
        self.beta, self.gamma = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(-1.0))

    @property
    def alpha(self) -> Tensor:
        """How far features are moved, from 0 to 1."""
        return torch.sigmoid(self.beta * self.place + self.gamma)

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

    Raises:
        ValueError: The schedule is not known, or a number does not fit.
    """

    anchors: int = 16
    from_layer: int = 1
    depth: str = "linear"

    def __post_init__(self) -> None:
        if self.depth not in DEPTHS:
            raise ValueError(f"depth is {' or '.join(DEPTHS)}, not {self.depth!r}")
        if self.anchors < 1 or self.from_layer < 1:
            raise ValueError(f"anchors and from_layer are 1 or more, not {self.anchors} and {self.from_layer}")

    def residuals(self, dim: int, layers: int) -> list[Residual]:
        """A residual for each layer, with one set of anchors."""
        shared = Anchors(dim, self.anchors)
        return [
            torch.add if layer < self.from_layer else UniversalInterpolation(shared, DEPTHS[self.depth](layer, layers))
            for layer in range(1, layers + 1)
        ]
