"""The operators of `instance_norm` as PyTorch sees them: opaque, with gradients of their own, autocast off inside."""

import torch
from torch import Tensor

from . import cpu


@torch.library.custom_op("fredholm::instance_norm", mutates_args=())
def apply(
    x: Tensor, scale: Tensor | None, offset: Tensor | None, residual: Tensor | None, slope: float, epsilon: float
) -> tuple[Tensor, Tensor]:
    """The norm, and its moments."""
    with torch.autocast(x.device.type, enabled=False):
        return cpu.apply(x, scale, offset, residual, slope, epsilon)


@torch.library.custom_op("fredholm::instance_norm_gradients", mutates_args=())
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
    """Its gradients by x, scale, offset and residual."""
    with torch.autocast(y.device.type, enabled=False):
        return cpu.gradients(dy, y, kept, moments, scale, slope, residual, keeps)


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], *x.shape[2:], x.shape[1]).movedim(-1, 1)


@apply.register_fake
def _(
    x: Tensor, scale: Tensor | None, offset: Tensor | None, residual: Tensor | None, slope: float, epsilon: float
) -> tuple[Tensor, Tensor]:
    real = torch.float64 if x.dtype == torch.float64 else torch.float32
    return _like(x), x.new_empty(x.shape[0], 2, x.shape[1], dtype=real)


@gradients.register_fake
def _(
    dy: Tensor,
    y: Tensor,
    kept: Tensor | None,
    moments: Tensor,
    scale: Tensor | None,
    slope: float,
    residual: bool,
    keeps: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dscale, doffset = (moments.new_empty(y.shape[1]) for _ in range(2))
    return _like(y), dscale, doffset, _like(y) if residual else y.new_empty(0)


def _save(ctx, inputs, output) -> None:
    x, scale, offset, residual, ctx.slope, _ = inputs
    y, moments = output
    ctx.offset_type = None if offset is None else offset.dtype
    ctx.affine, ctx.residual = (scale is not None, offset is not None), residual is not None
    ctx.mark_non_differentiable(moments)
    ctx.keeps = cpu.keeps_input(x, scale, offset)
    ctx.save_for_backward(y, x if ctx.keeps else residual, moments, scale)


def _backward(ctx, dy: Tensor, _):
    y, kept, moments, scale = ctx.saved_tensors
    dx, dscale, doffset, dresidual = gradients(dy, y, kept, moments, scale, ctx.slope, ctx.residual, ctx.keeps)
    return (
        dx,
        dscale.to(scale.dtype) if ctx.affine[0] else None,
        doffset.to(ctx.offset_type) if ctx.affine[1] else None,
        dresidual if ctx.residual else None,
        None,
        None,
    )


apply.register_autograd(_backward, setup_context=_save)
