r"""PointITNet: a cloud of points in, a class out.

Every stage integrates over the neighbours of each point and then goes on with fewer points, that lie far from one
another, each with the largest features of its neighbourhood. The last integral is over all that are left::

    u = embed(p, features)
    stage:   u = blocks(u, p, neighbours);   u = max over neighbours of widen(u)   at fewer points
    class:   head( concat(max of u, mean of u) )     u = blocks(u, p, all points)

Points are put in order by their coordinates first, so that the order they come in changes no bit of the result.

Source: the layer is ITNet's, arXiv:2606.19538; the stages are those of PointNet++, Qi et al. 2017, arXiv:1706.02413.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ..kernels import Selection, farthest_points, nearest_points, take
from .integral_transform import IntegralTransform
from .kappa import MLPKernel
from .residual import ResidualBlock
from .universal_interpolation import Interpolation, residuals


@dataclass(frozen=True, kw_only=True)
class PointBody:
    """What differs between networks for clouds.

    Args:
        dims: Channels of each stage; the last one's integral is over all points.
        shrink: How many times fewer points each next stage has.
        neighbours: Neighbours that a point's integral is over, itself among them.
        depth: Blocks of each stage.
        heads: Heads of each integral; they divide the channels.
        width: Width of the perceptron that is the kernel.
        frequencies: Of the kernel's Fourier features.
        sigma: Their standard deviation, in turns per radius of the cloud.
        dropout: In the head.
        interpolation: Universal interpolation in the place of the integrals' plain residuals, its layers counted
            through all stages; None for none.
    """

    dims: tuple[int, ...] = (32, 64, 128)
    shrink: int = 4
    neighbours: int = 16
    depth: int = 1
    heads: int = 1
    width: int = 32
    frequencies: int = 16
    sigma: float = 2.0
    dropout: float = 0.4
    interpolation: Interpolation | None = None

    def __post_init__(self) -> None:
        for name in ("shrink", "neighbours", "depth", "heads", "width", "frequencies"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if not self.dims or any(dim < 1 or dim % self.heads for dim in self.dims):
            raise ValueError(f"dims must be multiples of the {self.heads} heads, got {self.dims}")


class Stage(nn.ModuleList):
    """Blocks one after another on the same points."""

    def forward(self, u: Tensor, *points: Tensor | Selection) -> Tensor:
        """From `(batch, points, dim)`, positions and a measure if there is one, to the features mixed."""
        for block in self:
            u = block(u, *points)
        return u


class PointITNet(nn.Module):
    """From positions `(batch, points, 3)` and features `(batch, points, features)` to logits `(batch, classes)`.

    Args:
        classes: Classes.
        features: Features of a point beside its position, such as the three of a normal.
        body: What else differs.
    """

    def __init__(self, classes: int, features: int = 0, body: PointBody | None = None) -> None:
        super().__init__()
        body = body or PointBody()
        self.shrink, self.neighbours = body.shrink, body.neighbours
        kernel = partial(MLPKernel, width=body.width, frequencies=body.frequencies, sigma=body.sigma)
        sums = iter(residuals(body.interpolation, [dim for dim in body.dims for _ in range(body.depth)]))

        def block(dim: int) -> ResidualBlock:
            mixer = IntegralTransform(dim, 3, kernel=kernel, heads=body.heads)
            return ResidualBlock(dim, mixer, mlp_ratio=2.0, residual=next(sums))

        def stage(dim: int) -> Stage:
            return Stage(block(dim) for _ in range(body.depth))

        self.embed = nn.Linear(3 + features, body.dims[0])
        self.stages = nn.ModuleList(stage(dim) for dim in body.dims[:-1])
        self.whole = stage(body.dims[-1])
        self.widen = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, wider), nn.GELU())
            for dim, wider in zip(body.dims, body.dims[1:], strict=False)
        )
        last = body.dims[-1]
        self.head = nn.Sequential(
            nn.LayerNorm(2 * last),
            nn.Linear(2 * last, last),
            nn.GELU(),
            nn.Dropout(body.dropout),
            nn.Linear(last, classes),
        )

    def forward(self, positions: Tensor, features: Tensor | None = None) -> Tensor:
        """The logits.

        Raises:
            ValueError: Every stage but the last needs as many points as a point has neighbours.
        """
        whole = positions if features is None else torch.cat([positions, features], -1)
        whole = take(whole, _order(whole))
        p, u = whole[..., :3], self.embed(whole)
        for blocks, widen in zip(self.stages, self.widen, strict=True):
            near = self._neighbours(p)
            u = blocks(u, p, near)
            kept = farthest_points(p, max(1, p.shape[1] // self.shrink))
            u, p = take(widen(u), take(near.index, kept)).amax(2), take(p, kept)
        u = self.whole(u, p)
        return self.head(torch.cat([u.amax(1), u.mean(1)], -1))

    def _neighbours(self, p: Tensor) -> Selection:
        if p.shape[1] < self.neighbours:
            raise ValueError(f"a stage has {p.shape[1]} points, fewer than {self.neighbours} neighbours: give more")
        index = nearest_points(p, p, self.neighbours)
        return Selection(index, torch.full_like(index, 1 / self.neighbours, dtype=torch.float32))


def _order(points: Tensor) -> Tensor:
    """Where `(batch, points, channels)` go when sorted by the first channel, by the second where that is equal, ..."""
    order = torch.arange(points.shape[1], device=points.device).expand(points.shape[:2])
    for channel in reversed(range(points.shape[2])):
        order = order.gather(1, points[..., channel].gather(1, order).argsort(dim=1, stable=True))
    return order
