"""The mix some rows at a time; gradients make the weights anew."""

from collections.abc import Iterator

import torch
from torch import Tensor

from .parts import Parts

CACHE_BYTES = 1 << 20  # of one operand's rows


def apply(parts: Parts, epsilon: float) -> Tensor:
    """The mix."""
    y = torch.empty(parts.x.shape, dtype=parts.x.dtype, device=parts.x.device)
    flat, x, branch = y.view(-1, y.shape[-1]), _rows(parts.x), _rows(parts.branch)
    real = _real_type(x)
    anchors, measure, masses, alpha, weight, bias = _as(real, *parts[2:])
    for rows in _chunks(x, branch):
        c = _coordinates(branch[rows].to(real), weight, bias)
        n, _ = _normalised(c, measure, epsilon)
        w = masses * _relative(n, masses)
        flat[rows] = torch.lerp(x[rows].to(real), w @ anchors, alpha)
    return y


def gradients(dy: Tensor, parts: Parts, epsilon: float) -> list[Tensor]:
    """Gradients by all parts that are given."""
    dx, dbranch = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in parts[:2])
    flat_dx, flat_dbranch = _rows(dx), _rows(dbranch)
    dy, x, branch = _rows(dy), _rows(parts.x), _rows(parts.branch)
    real = _real_type(x)
    shared = _as(real, *parts[2:])
    anchors, measure, masses, alpha, weight, bias = shared
    sums = [x.new_zeros(0) if t is None else torch.zeros_like(t) for t in shared]
    danchors, dmeasure, dmasses, dalpha, dweight, dbias = sums
    for rows in _chunks(x, branch):
        b, g = branch[rows].to(real), dy[rows].to(real)
        n, inverse = _normalised(_coordinates(b, weight, bias), measure, epsilon)
        relative = _relative(n, masses)
        w = masses * relative
        flat_dx[rows] = (1 - alpha) * g
        toward = g @ anchors.T  # how the loss changes with each anchor's weight, but for alpha
        dalpha += (w * toward).sum() - (g * x[rows]).sum()
        danchors.addmm_(w.T, alpha * g)
        share = alpha * (toward - (w * toward).sum(-1, keepdim=True))
        dn = w * share
        first, second = dn.sum(-1, keepdim=True), (dn * n).sum(-1, keepdim=True)
        dmeasure -= (n * first + n.square() * (second / 2)).sum(0)
        dmasses += (share * relative).sum(0)
        dc = (dn - measure * (first + n * second)).mul_(inverse)
        if weight is None:
            flat_dbranch[rows] = dc
        else:
            flat_dbranch[rows] = dc @ weight
            dweight.addmm_(dc.T, b)
            dbias += dc.sum(0)
    return [dx, dbranch, *(total.to(t.dtype) for total, t in zip(sums, parts[2:], strict=True) if t is not None)]


def _coordinates(branch: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return branch if weight is None or bias is None else torch.addmm(bias, branch, weight.T)


def _normalised(c: Tensor, measure: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The coordinates with mean 0 and variance 1, and what they were multiplied by."""
    centred = c - (c @ measure)[:, None]
    inverse = torch.rsqrt((centred.square() @ measure) + epsilon)[:, None]
    return centred.mul_(inverse), inverse


def _relative(n: Tensor, masses: Tensor) -> Tensor:
    """The anchors' weights before their masses are multiplied in, which may be 0."""
    powers = torch.exp(n - n.amax(-1, keepdim=True))
    return powers / (powers @ masses)[:, None]


def _as(real: torch.dtype, *tensors: Tensor | None) -> list:
    return [None if t is None else t.to(real) for t in tensors]


def _real_type(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])


def _chunks(x: Tensor, branch: Tensor) -> Iterator[slice]:
    size = max(1, CACHE_BYTES // (4 * max(x.shape[1], branch.shape[1], 1)))
    return (slice(start, min(start + size, len(x))) for start in range(0, len(x), size))
