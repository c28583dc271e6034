r"""Rotary positions: queries and keys are turned by where they stand, so that attention sees how far two are apart.

Pairs of channels are shared among the axes; a pair of axis a at position p is turned by p theta^(-i / pairs).

Source: Su et al. 2021, arXiv:2104.09864; by axes as in Heo et al. 2024, arXiv:2403.13298.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class AxialRotary(nn.Module):
    """Turn features by their place on a grid.

    Args:
        dim: Channels of a head.
        axes: Axes of the grid.
        theta: The slowest pair turns almost so many times more slowly than the fastest, which turns by 1 a sample.

    Raises:
        ValueError: There is no pair of channels for each axis.
    """

    rates: Tensor

    def __init__(self, dim: int, axes: int, theta: float = 100.0) -> None:
        super().__init__()
        pairs = dim // (2 * axes)
        if pairs < 1:
            raise ValueError(f"{axes} axes need heads of {2 * axes} channels or more, got {dim}")
        self.register_buffer("rates", theta ** -(torch.arange(pairs) / pairs), persistent=False)

    def forward(self, x: Tensor, grid: Sequence[int]) -> Tensor:
        """From `(..., positions, dim)`, the grid's positions in order, to the same; channels left over stay."""
        places = torch.cartesian_prod(*(torch.arange(n, device=x.device) for n in grid)).view(-1, len(grid))
        angles = (places[:, :, None] * self.rates).flatten(1)
        pairs = angles.shape[1]
        a, b, rest = x.split([pairs, pairs, x.shape[-1] - 2 * pairs], dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)
