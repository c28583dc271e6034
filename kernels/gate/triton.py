"""The gate in one pass over memory on a GPU, and its gradients in another.

A program holds whole rows, so each number is read once and each result written once, whatever the strides: a
convolution's result with channels first comes in as it is. What backward needs of forward it computes anew. The
scale's gradient is summed within each program, then over programs: no atomics, the same bits in every run.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..launch import launch

TILE = 1024  # numbers that a program holds of one operand; with 2048 backward spills on some chips
PROGRAMS = 1024  # at most so many share backward's rows, several for each multiprocessor of any chip
WARPS = 4


def apply(x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float) -> Tensor:
    """The gate, as `cpu.apply`."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    x, control = _planes(x), _planes(control)
    block, channels = _tile(x)
    launch(
        _apply, triton.cdiv(x.shape[0] * x.shape[1], block),
        x, control, y, scale, *_sizes(x), *x.stride(), *control.stride(), _step(scale), epsilon,
        SILU=activation == "silu", UNIT=unit, BLOCK=block, CHANNELS=channels, num_warps=WARPS,
    )  # fmt: skip
    return y


def gradients(
    dy: Tensor, x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by x, control and scale, as `cpu.gradients`."""
    dx, dcontrol = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (x, control))
    if x.numel() == 0:
        return dx, dcontrol, x.new_zeros(0) if scale is None else torch.zeros_like(scale)
    dy, x, control = _planes(dy), _planes(x), _planes(control)
    block, channels = _tile(x)
    blocks = triton.cdiv(x.shape[0] * x.shape[1], block)
    programs = min(blocks, PROGRAMS)
    partial = torch.empty(0 if scale is None else programs, x.shape[2], dtype=torch.float32, device=x.device)
    launch(
        _gradients, programs,
        dy, x, control, dx, dcontrol, scale, partial, *_sizes(x), triton.cdiv(blocks, programs),
        *dy.stride(), *x.stride(), *control.stride(), _step(scale), epsilon,
        SILU=activation == "silu", UNIT=unit, BLOCK=block, CHANNELS=channels, num_warps=WARPS,
    )  # fmt: skip
    return dx, dcontrol, x.new_empty(0) if scale is None else partial.sum(0).to(scale.dtype)


@triton.jit
def _apply(
    x_ptr,  # (planes, rows, channels), any strides
    control_ptr,  # as x
    y_ptr,  # (planes, rows, channels), contiguous
    scale_ptr,  # (channels,) or None
    total,  # rows of all planes
    rows,  # of one plane
    channels,
    x_plane,
    x_row,
    x_channel,
    control_plane,
    control_row,
    control_channel,
    scale_step,
    epsilon,
    SILU: tl.constexpr,
    UNIT: tl.constexpr,
    BLOCK: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """One program gates BLOCK rows."""
    row, channel, inside = _rows(tl.program_id(0).to(tl.int64), total, channels, BLOCK, CHANNELS)
    x = _load(x_ptr, row, channel, inside, rows, x_plane, x_row, x_channel)
    control = _load(control_ptr, row, channel, inside, rows, control_plane, control_row, control_channel)
    opened, _ = _open(control, SILU)
    if UNIT:
        x *= _inverse_length(x, 1, epsilon)
    u = x * opened
    y = u * _inverse_length(u, channels, epsilon)
    if scale_ptr is not None:
        y *= tl.load(scale_ptr + channel * scale_step, mask=channel < channels, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * channels + channel, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _gradients(
    dy_ptr,  # (planes, rows, channels), any strides
    x_ptr,  # as dy
    control_ptr,  # as dy
    dx_ptr,  # (planes, rows, channels), contiguous
    dcontrol_ptr,  # as dx
    scale_ptr,  # (channels,) or None
    partial_ptr,  # (programs, channels), float32, not touched without scale
    total,  # rows of all planes
    rows,  # of one plane
    channels,
    blocks,  # of rows, for each program
    dy_plane,
    dy_row,
    dy_channel,
    x_plane,
    x_row,
    x_channel,
    control_plane,
    control_row,
    control_channel,
    scale_step,
    epsilon,
    SILU: tl.constexpr,
    UNIT: tl.constexpr,
    BLOCK: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """One program takes several blocks of BLOCK rows and sums their gradients by scale."""
    channel = tl.arange(0, CHANNELS)[None, :]
    dscale = tl.zeros((1, CHANNELS), tl.float32)
    scale = tl.full((1, CHANNELS), 1.0, tl.float32)
    if scale_ptr is not None:
        scale = tl.load(scale_ptr + channel * scale_step, mask=channel < channels, other=0.0).to(tl.float32)
    for block in range(blocks):
        first = tl.program_id(0).to(tl.int64) * blocks + block
        row, channel, inside = _rows(first, total, channels, BLOCK, CHANNELS)
        dy = _load(dy_ptr, row, channel, inside, rows, dy_plane, dy_row, dy_channel)
        x = _load(x_ptr, row, channel, inside, rows, x_plane, x_row, x_channel)
        control = _load(control_ptr, row, channel, inside, rows, control_plane, control_row, control_channel)
        opened, slope = _open(control, SILU)
        length = _inverse_length(x, 1, epsilon)
        n = x * length if UNIT else x
        u = n * opened
        inverse = _inverse_length(u, channels, epsilon)
        dscale += tl.sum(dy * (u * inverse), 0, keep_dims=True)
        g = dy * scale
        du = (g - u * (inverse * inverse * tl.sum(g * u, 1, keep_dims=True) / channels)) * inverse
        tl.store(dcontrol_ptr + row * channels + channel, (du * n * slope).to(dcontrol_ptr.dtype.element_ty), inside)
        dn = du * opened
        if UNIT:
            dn = (dn - n * tl.sum(dn * n, 1, keep_dims=True)) * length
        tl.store(dx_ptr + row * channels + channel, dn.to(dx_ptr.dtype.element_ty), mask=inside)
    if scale_ptr is not None:
        place = partial_ptr + tl.program_id(0) * channels + channel
        tl.store(place, dscale, mask=channel < channels)


@triton.jit
def _rows(block, total, channels, BLOCK: tl.constexpr, CHANNELS: tl.constexpr):
    """Rows `[BLOCK, 1]` and channels `[1, CHANNELS]` of a tile, and where it lies inside; int64, as offsets are."""
    row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    channel = tl.arange(0, CHANNELS)[None, :]
    return row, channel, (row < total) & (channel < channels)


@triton.jit
def _load(ptr, row, channel, inside, rows, plane_stride, row_stride, channel_stride):
    place = (row // rows) * plane_stride + (row % rows) * row_stride + channel.to(tl.int64) * channel_stride
    return tl.load(ptr + place, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _open(control, SILU: tl.constexpr):
    """The opened gate and its derivative."""
    sigmoid = tl.sigmoid(control)
    if SILU:
        opened = control * sigmoid
        return opened, sigmoid + opened * (1 - sigmoid)
    return sigmoid, sigmoid * (1 - sigmoid)


@triton.jit
def _inverse_length(x, divisor, epsilon):
    """One over each row's length, squares divided by `divisor`: 1 gives the Euclidean norm, channels the RMS."""
    return tl.rsqrt(tl.sum(x * x, 1, keep_dims=True) / divisor + epsilon)


def _planes(x: Tensor) -> Tensor:
    """`(planes, rows, channels)`; a view where channels are first or last in memory."""
    planes = x.shape[0] if x.ndim > 2 else 1
    return x.reshape(planes, -1, x.shape[-1])


def _sizes(x: Tensor) -> tuple[int, int, int]:
    planes, rows, channels = x.shape
    return planes * rows, rows, channels


def _tile(x: Tensor) -> tuple[int, int]:
    """Rows and channels of one program's tile, powers of two."""
    channels = triton.next_power_of_2(x.shape[2])
    rows = triton.next_power_of_2(x.shape[0] * x.shape[1])
    return max(1, min(TILE // channels, rows)), channels


def _step(scale: Tensor | None) -> int:
    return 0 if scale is None else scale.stride(0)
