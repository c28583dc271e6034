r"""Learned kernels of pairs for `IntegralTransform`: perceptrons, and sums of products.

Every kernel here and in `known_kappa.py` is a module that integrates: from features u `(batch, points, dim)`, positions
`(batch, points, axes)` and a measure, weights `(batch, points)` or a `Selection`, to the integral, as u.

Source: ITNet, arXiv:2606.19538, section 2.1 and its section on low rank.
"""

import math

import torch
from torch import Tensor, nn

from ..kernels import LowRankKappa, Points, Selection, fourier_features, integral_transform, itnet_kappa


class MLPKernel(nn.Module):
    """ITNet's own: a matrix from a perceptron of [g(x); g(y); g(x - y); |x - y|; u(x); u(y); u(x) * u(y)].

    Args:
        dim: Channels in and out.
        axes: Axes of the positions.
        width: Width of the hidden layer.
        frequencies: Rows of B in g(p) = [cos(2 pi B p), sin(2 pi B p)].
        sigma: Standard deviation of B, in turns per unit of the positions. 10 suits positions that fill a box of about
            size 1; with few points it tells apart what lies closer than any two of them.
    """

    frequencies: Tensor

    def __init__(self, dim: int, axes: int, *, width: int = 128, frequencies: int = 64, sigma: float = 10.0) -> None:
        super().__init__()
        self.register_buffer("frequencies", sigma * torch.randn(frequencies, axes))
        self.hidden = nn.Linear(6 * frequencies + 1 + 3 * dim, width)
        shape = self.values(dim)
        self.weight = nn.Parameter(torch.randn(*shape, width) / math.sqrt(width * math.prod(shape[1:])))
        self.bias = nn.Parameter(torch.zeros(shape))

    @staticmethod
    def values(dim: int) -> tuple[int, ...]:
        """Shape of kappa for one pair."""
        return dim, dim

    def forward(self, u: Tensor, positions: Tensor, measure: Tensor | Selection) -> Tensor:
        """The integral, shaped as u."""
        points = Points(positions, u)
        first = self.hidden.weight, self.hidden.bias
        kappa = itnet_kappa(points, points, self.frequencies, first, (self.weight, self.bias))
        return integral_transform(kappa, u, measure)


class DiagonalKernel(MLPKernel):
    """The same perceptron with a number for each channel: channels are mixed by W_O alone, as neural operators do."""

    @staticmethod
    def values(dim: int) -> tuple[int, ...]:
        """Shape of kappa for one pair."""
        return (dim,)


class LowRankKernel(nn.Module):
    """kappa(x, y) = sum over r of phi_r(x) psi_r(y), columns times rows of perceptrons of [g(p); u(p)]: O(points).

    Args:
        dim: Channels in and out.
        axes: Axes of the positions.
        rank: Terms of the sum.
        width: Width of the hidden layers.
        frequencies: As in `MLPKernel`.
        sigma: As in `MLPKernel`; smoother by default, for a sum of few products cannot tell near points apart.
    """

    frequencies: Tensor

    def __init__(
        self, dim: int, axes: int, *, rank: int = 16, width: int = 128, frequencies: int = 64, sigma: float = 1.0
    ) -> None:
        super().__init__()
        self.register_buffer("frequencies", sigma * torch.randn(frequencies, axes))

        def side() -> nn.Sequential:
            layers = nn.Linear(2 * frequencies + dim, width), nn.GELU(), nn.Linear(width, rank * dim)
            return nn.Sequential(*layers, nn.Unflatten(-1, (rank, dim)))

        self.phi, self.psi = side(), side()

    def forward(self, u: Tensor, positions: Tensor, measure: Tensor | Selection) -> Tensor:
        """The integral, shaped as u."""
        z = torch.cat([*fourier_features(positions, self.frequencies, u.dtype), u], -1)
        return integral_transform(LowRankKappa(self.phi(z), self.psi(z)), u, measure)
