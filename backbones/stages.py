"""The encoder stages of `MixerUNETR`: blocks of one mixer on one grid, then patch merging.

A stage takes and gives `(batch, *grid, dim)` and the registers, `(batch, count, dim)` or None. The table at the end
turns letters into stages, for plans and commands; whoever builds a network in Python may pass stages of their own.
MONAI is imported where a stage is built, for that takes longer than all else: not everybody builds one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels import Boundary
from .hyena import HyenaND
from .implicit_kernel import ImplicitKernel
from .integral_transform import IntegralTransform, UniformSamples
from .kappa import MLPKernel
from .registers import RegisterPool, Registers
from .residual import ResidualBlock
from .universal_interpolation import Residual

State = tuple[Tensor, Tensor | None]
Merging = Literal["merging", "mergingv2"]


@dataclass(frozen=True, kw_only=True)
class WindowAttention:
    """How attention stages look: shifted windows as in SwinUNETR.

    Args:
        window: Voxels of a window along each axis, one number for all or one each.
        heads: Heads of the first stage; every later stage has twice as many.
        qkv_bias: Whether q, k and v have a bias.
    """

    window: int | tuple[int, ...] = 7
    heads: int | tuple[int, ...] = 3
    qkv_bias: bool = True

    def stage(self, setting: "StageSetting") -> nn.Module:
        """Build one stage."""
        from .window_attention import AttentionStage

        return AttentionStage(setting, self)


def _paper_mixer(dim: int, boundary: Sequence[Boundary], pool: RegisterPool | None) -> HyenaND:
    kernel = ImplicitKernel(dim, len(boundary), condition=None if pool is None else dim)
    return HyenaND(dim, boundary, kernel, pool=pool)


@dataclass(frozen=True, kw_only=True)
class Hyena:
    """How HyenaND stages look.

    Args:
        boundary: What lies outside the grid, one for all axes or one each.
        registers: Number of register tokens that make the kernels depend on the input; 0 for static kernels, whose
            spectra are kept between windows.
        mixer: Builds the mixer from channels, boundaries and pool.
    """

    boundary: Boundary | tuple[Boundary, ...] = "zero"
    registers: int = 0
    mixer: Callable[[int, Sequence[Boundary], RegisterPool | None], nn.Module] = field(default=_paper_mixer)

    def stage(self, setting: "StageSetting") -> "HyenaStage":
        """Build one stage."""
        return HyenaStage(setting, self)


def _itnet_mixer(dim: int, axes: int, heads: int) -> IntegralTransform:
    kernel = partial(MLPKernel, width=64, frequencies=16)
    return IntegralTransform(dim, axes, kernel=kernel, heads=heads, strategy=UniformSamples(512))


@dataclass(frozen=True, kw_only=True)
class Integral:
    """How ITNet stages look: every voxel meets every other, so that they are for coarse grids.

    Up to 512 voxels, a grid of 8^3, the integral is exact; above, 512 voxels drawn anew in each call stand for all.
    A `LowRankKernel` is the other way to afford a fine grid.

    Args:
        heads: Heads of the first stage; every later stage has twice as many.
        mixer: Builds the mixer from channels, axes and heads.
    """

    heads: int = 3
    mixer: Callable[[int, int, int], nn.Module] = field(default=_itnet_mixer)

    def stage(self, setting: "StageSetting") -> "IntegralStage":
        """Build one stage."""
        return IntegralStage(setting, self)


@dataclass(frozen=True, kw_only=True)
class StageSetting:
    """Where a stage stands, whatever its mixer.

    Args:
        dim: Channels in; twice as many come out.
        axes: Axes of the grid, 2 or 3.
        index: Which stage it is, from 0.
        depth: Number of blocks.
        mlp_ratio: Width of the perceptrons' hidden layers, as a multiple of `dim`.
        drop_path: Chance of skipping a branch in training, one for each block.
        residuals: From x and the mixer's branch to what goes on, one for each block.
        merging: How 2 voxels along each axis become one, by MONAI's name.
        carry: Whether registers go on to a later stage.
    """

    dim: int
    axes: int
    index: int
    depth: int
    mlp_ratio: float
    drop_path: tuple[float, ...]
    residuals: Sequence[Residual]
    merging: Merging = "merging"
    carry: bool = False

    def merge(self) -> nn.Module:
        """The patch merging at the stage's end."""
        from monai.networks.nets.swin_unetr import MERGING_MODE

        return MERGING_MODE[self.merging](dim=self.dim, norm_layer=nn.LayerNorm, spatial_dims=self.axes)

    def block(self, mixer: nn.Module, index: int) -> ResidualBlock:
        """The residual block round a mixer."""
        drop, residual = self.drop_path[index], self.residuals[index]
        return ResidualBlock(self.dim, mixer, mlp_ratio=self.mlp_ratio, drop_path=drop, residual=residual)


class HyenaStage(nn.Module):
    """Blocks of HyenaND, with registers in front of the grid where there are any."""

    def __init__(self, setting: StageSetting, options: Hyena) -> None:
        super().__init__()
        boundary = each_axis(options.boundary, setting.axes)
        count = options.registers
        self.registers = Registers(count, setting.dim) if count else None
        self.blocks = nn.ModuleList(
            setting.block(options.mixer(setting.dim, boundary, RegisterPool(count) if count else None), index)
            for index in range(setting.depth)
        )
        self.merge = setting.merge()
        self.carry = nn.Linear(setting.dim, 2 * setting.dim) if setting.carry else None

    def forward(self, x: Tensor, registers: Tensor | None = None) -> State:
        """Mix, then merge."""
        samples = x.shape[1]
        if self.registers is not None:
            x = self.registers.prepend(x, registers)
        for block in self.blocks:
            x = block(x)
        if self.registers is not None:
            x, registers = self.registers.split(x, samples)
        return self.merge(x), carried(self.carry, registers)


class IntegralStage(nn.Module):
    """Blocks of ITNet; registers pass by untouched."""

    def __init__(self, setting: StageSetting, options: Integral) -> None:
        super().__init__()
        heads = options.heads * 2**setting.index
        self.blocks = nn.Sequential(
            *(setting.block(options.mixer(setting.dim, setting.axes, heads), index) for index in range(setting.depth))
        )
        self.merge = setting.merge()
        self.carry = nn.Linear(setting.dim, 2 * setting.dim) if setting.carry else None

    def forward(self, x: Tensor, registers: Tensor | None = None) -> State:
        """Mix, then merge."""
        return self.merge(self.blocks(x)), carried(self.carry, registers)


def carried(carry: nn.Linear | None, registers: Tensor | None) -> Tensor | None:
    """What a later stage gets of the registers."""
    return None if carry is None or registers is None else carry(registers)


def each_axis(value, axes: int) -> tuple:
    """One value for each axis."""
    each = tuple(value) if isinstance(value, tuple | list) else (value,) * axes
    if len(each) != axes:
        raise ValueError(f"expected one value or {axes}, one for each axis, got {value!r}")
    return each


def features(x: Tensor) -> Tensor:
    """What a stage shows the decoder: normalised over channels, `(batch, dim, *grid)` with channels-last memory."""
    return F.layer_norm(x, x.shape[-1:]).movedim(-1, 1)
