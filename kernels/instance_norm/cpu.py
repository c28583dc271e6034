"""Instance norm of channels-last tensors some rows at a time: two walks through memory forward, two backward.

Means and squares are taken within a chunk while it is in cache and merged as in Chan, Golub and LeVeque 1979, so a
large mean costs no digits. (PyTorch's channels-last batch norm sums in float32 from end to end, which on 10^6 voxels
loses three of seven digits. For half precision, where three are all there are, it is taken as it is, and faster.)
Column sums are products with a row of ones, which BLAS does faster than `sum(0)`.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

CACHE_BYTES = 1 << 20  # of one operand's rows, on a CPU
STAGE = 128  # terms of the first of two stages of a sum


def apply(
    x: Tensor, scale: Tensor | None, offset: Tensor | None, residual: Tensor | None, slope: float, epsilon: float
) -> tuple[Tensor, Tensor]:
    """The result, channels-last, and mean and inverse deviation `(batch, 2, channels)`."""
    if _is_half(x):
        return _apply_half(x, scale, offset, residual, slope, epsilon)
    y = _empty_like(x)
    moments = x.new_empty(len(x), 2, x.shape[1], dtype=_real_type(x))
    for sample in range(len(x)):
        rows, out = _rows(x, sample), _rows(y, sample)
        added = None if residual is None else _rows(residual, sample)
        mean, inverse = moments[sample].unbind()
        _moments(rows, epsilon, mean, inverse)
        gain = inverse if scale is None else inverse * scale
        for part in _chunks(rows):
            z = (rows[part].to(gain.dtype) - mean).mul_(gain)
            if offset is not None:
                z += offset
            if added is not None:
                z += added[part]
            out[part] = z if slope == 1 else F.leaky_relu_(z, slope)
    return y, moments


def gradients(
    dy: Tensor,
    y: Tensor,
    kept: Tensor | None,
    moments: Tensor,
    scale: Tensor | None,
    slope: float,
    residual: bool,
    keeps: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients by x, scale, offset and the residual (empty where there is none).

    `kept` is x where `keeps` (see `keeps_input`), else the residual: the leaky ReLU is one to one and so is the norm,
    so the normalised x is found again from the result, which the next layer keeps anyway.
    """
    if kept is not None and keeps and _is_half(y):
        return _gradients_half(dy, kept, y, moments, scale, slope, residual)
    dx = _empty_like(y)
    dresidual = _empty_like(y) if residual else y.new_empty(0)
    dscale, doffset = (torch.zeros_like(moments[0, 0]) for _ in range(2))
    for sample in range(len(y)):
        upper, result, out = (_rows(each, sample) for each in (dy, y, dx))
        other = None if kept is None else _rows(kept, sample)
        mean, inverse = moments[sample].unbind()
        sums = torch.zeros_like(moments[sample])
        for part in _chunks(result):
            g = _through_activation(upper[part].to(mean.dtype), result[part], slope)
            if residual:
                _rows(dresidual, sample)[part] = g
            normal = _normal(result[part], None if other is None else other[part], mean, inverse, slope, not keeps)
            sums += torch.stack((_column_sum(g * normal), _column_sum(g)))
        dscale += sums[0]
        doffset += sums[1]
        along, level = sums / len(result)
        gain = inverse if scale is None else inverse * scale
        for part in _chunks(result):
            g = _through_activation(upper[part].to(mean.dtype), result[part], slope)
            normal = _normal(result[part], None if other is None else other[part], mean, inverse, slope, not keeps)
            out[part] = (g - level).addcmul_(normal, along, value=-1).mul_(gain)
    return dx, dscale, doffset, dresidual


def keeps_input(x: Tensor, scale: Tensor | None, offset: Tensor | None) -> bool:
    """Whether gradients need x itself: a scale may be zero, and half precision has no digits to spare."""
    return scale is not None or offset is not None or x.dtype in (torch.float16, torch.bfloat16)


def _normal(result: Tensor, kept: Tensor | None, mean: Tensor, inverse: Tensor, slope: float, inverted: bool) -> Tensor:
    """The normalised x of one chunk."""
    if not inverted:
        assert kept is not None
        return (kept - mean) * inverse
    before = result if slope == 1 else torch.where(result > 0, result, result / slope)
    return before if kept is None else before - kept


def _is_half(x: Tensor) -> bool:
    return x.dtype in (torch.float16, torch.bfloat16) and x[0, 0].numel() > 1


def _apply_half(
    x: Tensor, scale: Tensor | None, offset: Tensor | None, residual: Tensor | None, slope: float, epsilon: float
) -> tuple[Tensor, Tensor]:
    results, moments = [], []
    # With parameters in float32 the moments are float32 too.
    scale, offset = (_float32(scale, 1.0, x), _float32(offset, 0.0, x))
    x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    for sample in x.split(1):  # one sample's instance norm is the batch norm of that sample alone
        y, *own = torch.native_batch_norm(sample, scale, offset, None, None, True, 0.0, epsilon)
        results.append(y)
        moments.append(torch.stack(own))
    y = results[0] if len(results) == 1 else torch.cat(results)
    y = y.movedim(1, -1).contiguous().movedim(-1, 1)  # a grid of one axis comes back channels-first
    if residual is not None:
        y += residual
    return y if slope == 1 else F.leaky_relu_(y, slope), torch.stack(moments)


def _float32(weight: Tensor | None, value: float, x: Tensor) -> Tensor:
    return x.new_full((x.shape[1],), value, dtype=torch.float32) if weight is None else weight.float()


def _gradients_half(
    dy: Tensor, x: Tensor, y: Tensor, moments: Tensor, scale: Tensor | None, slope: float, residual: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    g, gain = _through_activation(dy, y, slope), _float32(scale, 1.0, x)
    parts = []
    for sample, upper, (mean, inverse) in zip(x.split(1), g.split(1), moments, strict=True):
        parts.append(
            torch.ops.aten.native_batch_norm_backward(
                upper, sample, gain, None, None, mean, inverse, True, 0.0, [True, True, True]
            )
        )
    dx = torch.cat([part[0] for part in parts]) if len(parts) > 1 else parts[0][0]
    g = g.clone() if residual and g is dy else g  # an operator may not hand on its own argument
    doffset = g.sum((0, *range(2, g.ndim)), dtype=torch.float32)
    dscale = torch.stack([part[1] for part in parts]).sum(0)
    return dx, dscale, doffset, g if residual else x.new_empty(0)


def _moments(rows: Tensor, epsilon: float, mean: Tensor, inverse: Tensor) -> None:
    """Fill mean and 1 / sqrt(variance + epsilon) of each column."""
    mean.zero_()
    squares, count = torch.zeros_like(mean), 0
    for part in _chunks(rows):
        chunk = rows[part].to(mean.dtype)
        own = _column_sum(chunk) / len(chunk)
        centred = chunk - own
        rest = _column_sum(centred) / len(chunk)  # what rounding left in the first mean
        own = own + rest
        delta, total = own - mean, count + len(chunk)
        squares += _column_sum(centred.square_()) - len(chunk) * rest.square()
        squares += delta.square() * (count * len(chunk) / total)
        mean += delta * (len(chunk) / total)
        count = total
    inverse.copy_(torch.rsqrt(squares / count + epsilon))


def _column_sum(chunk: Tensor) -> Tensor:
    """Of each column, in two stages: twenty thousand terms in one float32 sum cost a network two of its digits."""
    whole = len(chunk) - len(chunk) % STAGE
    first = torch.mm(chunk.new_ones(1, STAGE), chunk[:whole].reshape(STAGE, -1))
    return first.view(-1, chunk.shape[1]).sum(0) + chunk[whole:].sum(0)


def _through_activation(upper: Tensor, result: Tensor, slope: float) -> Tensor:
    # PyTorch's own is vectorised in half precision too, which a choice by a mask is not.
    return upper if slope == 1 else torch.ops.aten.leaky_relu_backward(upper, result.to(upper.dtype), slope, True)


def _real_type(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _empty_like(x: Tensor) -> Tensor:
    """A tensor of the shape and type of `x`, `(batch, channels, *grid)`, whose memory is channels-last."""
    return x.new_empty(x.shape[0], *x.shape[2:], x.shape[1]).movedim(-1, 1)


def _rows(x: Tensor, sample: int) -> Tensor:
    """One sample as `(voxels, channels)`; a view where the memory is channels-last."""
    return x[sample].movedim(0, -1).reshape(-1, x.shape[1])


def _chunks(rows: Tensor) -> Iterator[slice]:
    size = max(1, CACHE_BYTES // (4 * rows.shape[1])) if rows.device.type == "cpu" else len(rows)
    return (slice(start, min(start + size, len(rows))) for start in range(0, len(rows), size))
