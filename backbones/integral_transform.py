r"""ITNet's layer: integrate a learned kernel of pairs over a grid or a cloud.

With heads h, which share the channels among them::

    y(x) = W_O concat over h of ( integral of kappa_h(x, y) u_h(y) dmu(y) )  +  W u(x)

kappa is a part, see `kappa.py` and `known_kappa.py`; so is the strategy that puts samples in the place of all sources.
In a `ResidualBlock` it is ITNet's block: a norm before, a residual round it, a perceptron behind.

Source: ITNet, arXiv:2606.19538, definition 1, and its sections on heads and on importance-weighted Monte Carlo.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..kernels import Selection, draw_by_score, draw_near, draw_uniform
from .kappa import MLPKernel

Measure = Tensor | Selection
Strategy = Callable[[Tensor, Tensor, Tensor, int | None], Measure]


@dataclass(frozen=True)
class UniformSamples:
    """Where a cloud has more points than `limit`, that many stand for all; up to there the integral is exact.

    The samples are the same for all targets, which leaves the inner loop a product of matrices.
    """

    limit: int = 512

    def __call__(self, u: Tensor, positions: Tensor, measure: Tensor, seed: int | None) -> Measure:
        """All sources, or some with the weights that make their sum unbiased."""
        few = measure.shape[1] <= self.limit
        return measure if few else draw_uniform(measure, self.limit, seed=seed)


@dataclass(frozen=True)
class NearSamples:
    """Each target draws `limit` sources of its own, near ones rather than far ones, where there are more than that.

    Args:
        limit: Sources for each target.
        reach: Distance to which sources are likely, in units of the positions.
    """

    limit: int = 64
    reach: float = 0.1

    def __call__(self, u: Tensor, positions: Tensor, measure: Tensor, seed: int | None) -> Measure:
        """All sources, or some for each target with the weights that make their sum unbiased."""
        if measure.shape[1] <= self.limit:
            return measure
        return draw_near(positions, positions, measure, self.limit, reach=self.reach, seed=seed)


class LearnedSamples(nn.Module):
    """Where a cloud has more points than `limit`, that many stand for all, drawn by what a perceptron makes of each.

    At first every point that has weight is as likely as any other. `draw_by_score` says what the perceptron learns; it
    takes features and positions as they are, and nothing before it learns for its sake.

    Args:
        dim: Channels of the features, all heads together.
        axes: Axes of the positions.
        limit: Samples, the same for all targets and heads.
        width: Of the perceptron.
    """

    def __init__(self, dim: int, axes: int, *, limit: int = 512, width: int = 32) -> None:
        super().__init__()
        self.limit = limit
        last = nn.Linear(width, 1, bias=False)
        nn.init.zeros_(last.weight)
        self.score = nn.Sequential(nn.Linear(dim + axes, width), nn.GELU(), last)

    def forward(self, u: Tensor, positions: Tensor, measure: Tensor, seed: int | None) -> Measure:
        """All sources, or some with the weights that make their sum unbiased."""
        if measure.shape[1] <= self.limit:
            return measure
        scores = self.score(torch.cat([u.detach(), positions.detach().to(u.dtype)], -1))[..., 0]
        return draw_by_score(scores, measure, self.limit, seed=seed)


class IntegralTransform(nn.Module):
    """Mix the points of a grid or a cloud by a kernel that sees both points' positions and features.

    Args:
        dim: Channels in and out.
        spatial_dims: Axes of the positions.
        kernel: Builds a head's kernel from its channels and the axes.
        heads: Heads; they divide `dim`.
        strategy: From features, positions, measure and a seed, None in training, to the measure that is used, such as
            `UniformSamples`, `NearSamples` and `LearnedSamples`; None uses all sources.
            In evaluation chance starts at the same place in each call, so the same input gives the same output.
        spacing: Distance of neighbouring cells where the input is a grid; None makes the longest axis 1.

    Raises:
        ValueError: The heads do not divide the channels.
    """

    def __init__(
        self,
        dim: int,
        spatial_dims: int,
        *,
        kernel: Callable[[int, int], nn.Module] = MLPKernel,
        heads: int = 1,
        strategy: Strategy | None = None,
        spacing: float | None = None,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"{heads} heads do not divide {dim} channels")
        self.spatial_dims = spatial_dims
        self.strategy, self.spacing = strategy, spacing
        self.kernels = nn.ModuleList(kernel(dim // heads, spatial_dims) for _ in range(heads))
        self.residual = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, positions: Tensor | None = None, measure: Measure | None = None) -> Tensor:
        """From `(batch, *grid, dim)` or, with positions, from `(batch, points, dim)` to the same.

        Args:
            x: The features.
            positions: `(batch, points, spatial_dims)`; None for a grid, see `cell_centres`.
            measure: Weight of each point `(batch, points)`, 0 where there is none, or a `Selection` such as neighbours,
                which no strategy touches. None is the mean, so that the whole domain measures 1.

        Raises:
            ValueError: Positions do not fit the points, or the grid has another number of axes.
        """
        u = x.flatten(1, -2)
        if positions is None:
            positions = self._on_grid(x)
        if positions.shape != (*u.shape[:2], self.spatial_dims) or (x.ndim != 3 and x.ndim != 2 + self.spatial_dims):
            raise ValueError(
                f"expected positions (batch, points, {self.spatial_dims}) for features {tuple(x.shape)}, "
                f"got {tuple(positions.shape)}"
            )
        measure = self._measure(u, positions, measure)
        mixed = [
            kernel(part, positions, measure)
            for kernel, part in zip(self.kernels, u.chunk(len(self.kernels), -1), strict=True)
        ]
        return (self.out(torch.cat(mixed, -1)) + self.residual(u)).view(x.shape)

    def _on_grid(self, x: Tensor) -> Tensor:
        grid = x.shape[1:-1]
        if len(grid) != self.spatial_dims:
            raise ValueError(f"expected a grid of {self.spatial_dims} axes or positions, got features {tuple(x.shape)}")
        return cell_centres(grid, self.spacing, x.device).expand(len(x), -1, -1)

    def _measure(self, u: Tensor, positions: Tensor, measure: Measure | None) -> Measure:
        if measure is None:
            real = torch.float64 if u.dtype == torch.float64 else torch.float32
            measure = torch.full(u.shape[:2], 1 / max(u.shape[1], 1), dtype=real, device=u.device)
        if self.strategy is None or isinstance(measure, Selection):
            return measure
        return self.strategy(u, positions, measure, None if self.training else 0)


def cell_centres(grid: Sequence[int], spacing: float | None = None, device: torch.device | None = None) -> Tensor:
    """Positions `(1, points, axes)` of a grid's cells, `spacing` apart, by default so that the longest axis is 1."""
    spacing = 1 / max(grid) if spacing is None else spacing
    axes = [(torch.arange(n, dtype=torch.float32, device=device) + 0.5) * spacing for n in grid]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)[None]
