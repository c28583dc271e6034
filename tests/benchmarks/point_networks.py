"""PointNet and DGCNN, short, for `points_classifiers.py` to train beside `PointITNet`.

Sources: Qi et al. 2017, arXiv:1612.00593, with both of its transforms; Wang et al. 2019, arXiv:1801.07829, figure 3.
"""

import itertools

import torch
from fredholm.kernels import take
from torch import Tensor, nn

WIDTHS = (64, 64, 128, 256)  # of DGCNN's four graphs


class _Normed(nn.BatchNorm1d):
    """Batch norm of channels that come last."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, -2)).view(x.shape)


def _layers(activation: nn.Module, *widths: int) -> nn.Sequential:
    """Linear maps, each with a batch norm and an activation."""
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*(nn.Sequential(nn.Linear(*pair, bias=False), _Normed(pair[1]), activation) for pair in pairs))


class _Transform(nn.Module):
    """A matrix `(batch, dim, dim)` from the points themselves, at first the identity."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.points, self.cloud = _layers(nn.ReLU(), dim, 64, 128, 1024), _layers(nn.ReLU(), 1024, 512, 256)
        self.last = nn.Linear(256, dim * dim)
        nn.init.zeros_(self.last.weight)
        with torch.no_grad():
            self.last.bias.copy_(torch.eye(dim).flatten())

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.cloud(self.points(x).max(1).values)).view(-1, x.shape[-1], x.shape[-1])


class PointNet(nn.Module):
    """From positions `(batch, points, 3)` to logits."""

    penalty: Tensor  # how far the last call's transforms of features were from turns

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.turn, self.mix = _Transform(3), _Transform(64)
        self.first, self.second = _layers(nn.ReLU(), 3, 64, 64), _layers(nn.ReLU(), 64, 64, 128, 1024)
        self.head = nn.Sequential(_layers(nn.ReLU(), 1024, 512, 256), nn.Dropout(0.3), nn.Linear(256, classes))

    def forward(self, positions: Tensor) -> Tensor:
        u = self.first(positions @ self.turn(positions))
        mix = self.mix(u)
        self.penalty = (mix @ mix.mT - torch.eye(64, device=mix.device)).square().sum((1, 2)).mean()
        return self.head(self.second(u @ mix).max(1).values)


class _EdgeConv(nn.Module):
    """Maxima over the nearest in features of `act(norm(A (y - x) + B x))`.

    Products are taken once a point and the activation, which is monotonic, once a maximum: the same in half the time.
    """

    def __init__(self, dim: int, out: int, neighbours: int) -> None:
        super().__init__()
        self.neighbours = neighbours
        self.near, self.own = nn.Linear(dim, out, bias=False), nn.Linear(dim, out, bias=False)
        self.norm, self.activation = _Normed(out), nn.LeakyReLU(0.2)

    def forward(self, x: Tensor) -> Tensor:
        index = torch.cdist(x.detach(), x.detach()).topk(self.neighbours, largest=False).indices
        near = self.near(x)
        edges = take(near, index) + (self.own(x) - near)[:, :, None]
        return self.activation(self.norm(edges).max(2).values)


class DGCNN(nn.Module):
    """From positions `(batch, points, 3)` to logits."""

    def __init__(self, classes: int, neighbours: int = 20) -> None:
        super().__init__()
        act = nn.LeakyReLU(0.2)
        pairs = zip((3, *WIDTHS), WIDTHS, strict=False)
        self.graphs = nn.ModuleList(_EdgeConv(dim, out, neighbours) for dim, out in pairs)
        self.points = _layers(act, sum(WIDTHS), 1024)
        dropout = nn.Dropout(0.5)
        self.head = nn.Sequential(
            _layers(act, 2048, 512), dropout, _layers(act, 512, 256), dropout, nn.Linear(256, classes)
        )

    def forward(self, positions: Tensor) -> Tensor:
        u, every = positions, []
        for graph in self.graphs:
            u = graph(u)
            every.append(u)
        u = self.points(torch.cat(every, -1))
        return self.head(torch.cat([u.max(1).values, u.mean(1)], -1))
