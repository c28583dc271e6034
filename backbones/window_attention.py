"""Encoder stages of shifted windows of attention, as in SwinUNETR, of MONAI's parts."""

import math
from typing import Any

import torch
from monai.networks.nets.swin_unetr import SwinTransformerBlock, compute_mask, get_window_size
from torch import Tensor, nn

from .stages import StageSetting, State, WindowAttention, carried, each_axis
from .universal_interpolation import Residual


class AttentionBlock(SwinTransformerBlock):
    """MONAI's block, with the first of its two residuals as a part, as in `ResidualBlock`."""

    def __init__(self, *, residual: Residual, **options: Any) -> None:
        super().__init__(**options)
        self.residual = residual

    def forward(self, x: Tensor, mask_matrix: Tensor | None) -> Tensor:
        """From `(batch, *grid, dim)` to the same."""
        x = self.residual(x, self.drop_path(self.forward_part1(x, mask_matrix)))
        return x + self.forward_part2(x)


class AttentionStage(nn.Module):
    """Blocks of windowed attention, every second one shifted by half a window; registers pass by untouched."""

    def __init__(self, setting: StageSetting, options: WindowAttention) -> None:
        super().__init__()
        self.window = each_axis(options.window, setting.axes)
        heads = options.heads
        self.blocks = nn.ModuleList(
            AttentionBlock(
                dim=setting.dim,
                num_heads=heads[setting.index] if isinstance(heads, tuple) else heads * 2**setting.index,
                window_size=self.window,
                shift_size=tuple(n // 2 if block % 2 else 0 for n in self.window),
                mlp_ratio=setting.mlp_ratio,
                qkv_bias=options.qkv_bias,
                drop_path=drop,
                use_flash_attention=True,  # without gradients alone, as MONAI has it
                residual=residual,
            )
            for block, (drop, residual) in enumerate(zip(setting.drop_path, setting.residuals, strict=True))
        )
        self.merge = setting.merge()
        self.carry = nn.Linear(setting.dim, 2 * setting.dim) if setting.carry else None

    def forward(self, x: Tensor, registers: Tensor | None = None) -> State:
        """Mix, then merge."""
        mask = _shift_mask(tuple(x.shape[1:-1]), self.window, x.device)
        for block in self.blocks:
            x = block(x, mask)
        return self.merge(x), carried(self.carry, registers)


def _shift_mask(grid: tuple[int, ...], window: tuple[int, ...], device: torch.device) -> Tensor | None:
    """What keeps voxels apart that a shifted window brings together from opposite ends of the grid."""
    size, shift = get_window_size(grid, window, tuple(n // 2 for n in window))
    if not any(shift):
        return None
    padded = [math.ceil(n / w) * w for n, w in zip(grid, size, strict=True)]
    return compute_mask(padded, size, shift, device)
