r"""Kernels of pairs that make an integral transform one of the layers that everybody knows.

    convolution   kappa(x, y) = w(y - x)
    attention     kappa(x, y) = softmax over y of q(x) . k(y) / sqrt(length), times the value's matrix
    recurrence    kappa(t, s) = C(t) exp( A (T(t) - T(s)) ) B(s) for s up to t, and 0 after it

They are exact, and a layer that mixes them with learned kernels is as easily built as any other. Where only one of them
is wanted, its own layer is faster. Sums over points, not means, are meant by convolutions and recurrences: give a
measure of 1 for each point.

Source: ITNet, arXiv:2606.19538, theorems 1 to 3.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels import PairwiseKappa, Selection, SoftmaxKappa, integral_transform


class ConvolutionKernel(nn.Module):
    """A table of taps by the lag between two points; where points of a lattice are missing, so are their terms.

    Args:
        dim: Channels in and out.
        axes: Axes of the positions.
        taps: Taps along each axis, odd.
        spacing: Distance between neighbouring taps, in units of the positions; n cells for a dilation by n.
        groups: Groups of channels that are mixed among themselves; `dim` for a depthwise convolution.

    Raises:
        ValueError: The taps are even or the groups do not divide the channels.
    """

    def __init__(self, dim: int, axes: int, *, taps: int = 3, spacing: float = 1.0, groups: int = 1) -> None:
        super().__init__()
        if taps % 2 == 0 or dim % groups:
            raise ValueError(f"expected an odd number of taps and groups that divide {dim}, got {taps} and {groups}")
        self.spacing, self.groups = spacing, groups
        bound = 1 / math.sqrt(dim // groups * taps**axes)
        self.weight = nn.Parameter(torch.empty(dim, dim // groups, *(axes * [taps])).uniform_(-bound, bound))

    def forward(self, u: Tensor, positions: Tensor, measure: Tensor | Selection) -> Tensor:
        """The integral, shaped as u."""
        taps, axes = self.weight.shape[-1], positions.shape[-1]
        table = F.pad(self._matrices().movedim((0, 1), (-2, -1)).flatten(0, axes - 1), (0, 0, 0, 0, 0, 1))

        def kappa(x: Tensor, y: Tensor) -> Tensor:
            lag = (y - x) / self.spacing
            cell = lag.round()
            place = cell.long() + taps // 2
            met = ((lag - cell).abs() < 1e-3) & (place >= 0) & (place < taps)  # positions carry rounding errors
            index = sum(place[..., axis] * taps ** (axes - 1 - axis) for axis in range(axes))
            return table[torch.where(met.all(-1), index, len(table) - 1)]

        return integral_transform(PairwiseKappa(kappa, (positions,), (positions,)), u, measure)

    def _matrices(self) -> Tensor:
        """The taps as matrices, `(dim, dim, *taps)`, with zeros between groups."""
        if self.groups == 1:
            return self.weight
        dim, inner = self.weight.shape[:2]
        whole = self.weight.new_zeros(self.groups, dim // self.groups, self.groups, inner, *self.weight.shape[2:])
        group = torch.arange(self.groups, device=whole.device)
        whole[group, :, group] = self.weight.unflatten(0, (self.groups, -1))
        return whole.flatten(2, 3).flatten(0, 1)


class SoftmaxKernel(nn.Module):
    """Scaled dot-product self-attention; positions are not looked at.

    Args:
        dim: Channels in and out.
        axes: Axes of the positions.
        heads: Heads, each with queries, keys and values of its own from all channels; they divide `dim`.

    Raises:
        ValueError: They do not.
    """

    def __init__(self, dim: int, axes: int, *, heads: int = 1) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"{heads} heads do not divide {dim} channels")
        self.heads = heads
        self.project = nn.Linear(dim, 3 * dim)

    def forward(self, u: Tensor, positions: Tensor, measure: Tensor | Selection) -> Tensor:
        """The integral, shaped as u; over a selection of each target's own it cannot be taken."""
        query, key, value = self.project(u).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).flatten(1, 2)
        mixed = integral_transform(SoftmaxKappa(query, key), value, self._for_heads(measure))
        return mixed.unflatten(0, (-1, self.heads)).transpose(1, 2).reshape(u.shape)

    def _for_heads(self, measure: Tensor | Selection) -> Tensor | Selection:
        """Heads are clouds of the batch."""
        if isinstance(measure, Tensor):
            return measure.repeat_interleave(self.heads, 0)
        return Selection(*(one.repeat_interleave(self.heads, 0) for one in (measure.index, measure.weights)))


class RecurrentKernel(nn.Module):
    """A selective scan in one application: what was before counts, the less the longer ago and the more was new since.

    With steps D(t) = softplus of a linear map of u(t), and T(t) their sum up to t::

        kappa(t, s) = sum over n of C_n(t) exp( -a_n (T(t) - T(s)) ) B_n(s) D(s)   for s up to t

    Source: Mamba, Gu and Dao 2023, arXiv:2312.00752, section 3; a diagonal S4 where D, B and C do not depend on u.

    Args:
        dim: Channels, each with a scan of its own.
        axes: Axes of the positions; the first one is time.
        states: Numbers that a channel remembers.
    """

    def __init__(self, dim: int, axes: int, *, states: int = 16) -> None:
        super().__init__()
        self.logarithm = nn.Parameter(torch.arange(1, states + 1.0).log().repeat(dim, 1))  # of the decays a
        self.step = nn.Linear(dim, dim)
        self.write = nn.Linear(dim, states, bias=False)
        self.read = nn.Linear(dim, states, bias=False)

    def forward(self, u: Tensor, positions: Tensor, measure: Tensor | Selection) -> Tensor:
        """The integral, shaped as u."""
        time = positions[..., 0]
        order = time.argsort(dim=1)
        steps = F.softplus(self.step(u))
        wide = order[..., None].expand_as(steps)
        passed = torch.zeros_like(steps).scatter(1, wide, steps.gather(1, wide).cumsum(1))
        decays = self.logarithm.exp()

        def kappa(
            time_x: Tensor,
            passed_x: Tensor,
            read: Tensor,
            time_y: Tensor,
            passed_y: Tensor,
            write: Tensor,
            step: Tensor,
        ) -> Tensor:
            before = (time_y <= time_x)[..., None]
            left = torch.exp(-torch.where(before, passed_x - passed_y, 0)[..., None] * decays)
            return torch.einsum("...n,...cn,...n,...c->...c", read, left, write, step * before)

        x, y = (time, passed, self.read(u)), (time, passed, self.write(u), steps)
        return integral_transform(PairwiseKappa(kappa, x, y), u, measure)
