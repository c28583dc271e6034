r"""MixerUNETR: SwinUNETR's shape with a choice of mixer for each encoder stage.

A patch embedding, four stages that halve the grid and double the channels, and a convolutional decoder that takes the
features of every stage. `stages="HHAA"` puts HyenaND on the two fine grids and windowed attention on the two coarse
ones, the best mix known for CT.

Source: SwinUNETR, Hatamizadeh et al. 2022, arXiv:2201.01266; mixed stages: arXiv:2607.19378, its CT experiments.
Patch embedding, window attention and patch merging are MONAI's; the convolutional blocks equal MONAI's.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from .conv_block import DecoderBlock, EncoderBlock, Head
from .stages import Hyena, Integral, Merging, StageSetting, WindowAttention, features
from .universal_interpolation import Interpolation, residuals

LETTERS: Mapping[str, type] = {"A": WindowAttention, "H": Hyena, "I": Integral}


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """What differs between encoders; the defaults are SwinUNETR's.

    Args:
        attention: How the stages with letter A look.
        hyena: How the stages with letter H look.
        integral: How the stages with letter I look.
        depths: Blocks of each stage.
        patch: Voxels along each axis that become one token; the decoder is made for 2.
        patch_norm: Whether tokens are normalised at the start.
        mlp_ratio: Width of the perceptrons' hidden layers.
        drop_path: Chance in training of skipping a branch of the last block; earlier blocks have less, linearly.
        merging: Patch merging, by MONAI's name.
        convolve_first: Whether each stage starts with a residual convolution block (SwinUNETR v2).
        interpolation: Universal interpolation in the place of the mixers' plain residuals, its layers counted through
            all stages; None for none.
    """

    attention: WindowAttention = field(default_factory=WindowAttention)
    hyena: Hyena = field(default_factory=Hyena)
    integral: Integral = field(default_factory=Integral)
    depths: tuple[int, ...] = (2, 2, 2, 2)
    patch: int = 2
    patch_norm: bool = False
    mlp_ratio: float = 4.0
    drop_path: float = 0.0
    merging: Merging = "merging"
    convolve_first: bool = False
    interpolation: Interpolation | None = None


class MixerUNETR(nn.Module):
    """Segment volumes or images: from `(batch, in_channels, *grid)` to logits `(batch, out_channels, *grid)`.

    Args:
        in_channels: Channels of the image.
        out_channels: Classes, the background included.
        stages: A letter for each of the four encoder stages: A windowed attention, H HyenaND, I
            ITNet.
        feature_size: Channels of the first stage; a multiple of 12.
        spatial_dims: 2 or 3.
        encoder: What else differs.
        affine_norm: Whether the decoder's instance norms learn scales and offsets.
        deep_supervision: Number of coarser decoder levels, 0 to 3, that also give logits in training.

    Raises:
        ValueError: A letter is unknown, or a number does not fit.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        stages: str = "HHAA",
        feature_size: int = 48,
        *,
        spatial_dims: int = 3,
        encoder: Encoder | None = None,
        affine_norm: bool = False,
        deep_supervision: int = 0,
    ) -> None:
        from monai.networks.blocks.patchembedding import PatchEmbed  # here, as in `stages`

        super().__init__()
        encoder = encoder or Encoder()
        _check(stages, feature_size, spatial_dims, encoder, deep_supervision)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.stage_letters, self.feature_size = stages, feature_size
        self.multiple = encoder.patch**5
        f = feature_size

        def block(channels_in: int, channels: int) -> EncoderBlock:
            return EncoderBlock(spatial_dims, channels_in, channels, affine_norm)

        def up(channels_in: int, channels: int) -> DecoderBlock:
            return DecoderBlock(spatial_dims, channels_in, channels, affine_norm)

        patch_norm = nn.LayerNorm if encoder.patch_norm else None
        self.embed = PatchEmbed(encoder.patch, in_channels, f, patch_norm, spatial_dims)  # pyright: ignore[reportArgumentType]
        self.stages = nn.ModuleList(_stages(stages, f, spatial_dims, encoder))
        self.leads = nn.ModuleList(
            EncoderBlock(spatial_dims, f * 2**i, f * 2**i) for i in range(4 if encoder.convolve_first else 0)
        )
        self.skips = nn.ModuleList([block(in_channels, f), block(f, f), block(2 * f, 2 * f), block(4 * f, 4 * f)])
        self.bottom = block(16 * f, 16 * f)
        self.ups = nn.ModuleList([up(16 * f, 8 * f), up(8 * f, 4 * f), up(4 * f, 2 * f), up(2 * f, f), up(f, f)])
        self.head = Head(spatial_dims, f, out_channels)
        self.coarse_heads = nn.ModuleList(
            Head(spatial_dims, f * 2**level, out_channels) for level in range(deep_supervision)
        )

    def forward(self, x: Tensor) -> Tensor | list[Tensor]:
        """Give the logits; in training with deep supervision a list of them, finest first, each half as fine.

        Raises:
            ValueError: An axis is no multiple of `patch ** 5`, 32 by default; the message names it.
        """
        if any(n % self.multiple for n in x.shape[2:]):
            raise ValueError(f"each axis must be a multiple of {self.multiple}, got a grid of {tuple(x.shape[2:])}")
        x = x.contiguous(memory_format=torch.channels_last_3d if x.ndim == 5 else torch.channels_last)
        levels = self._encode(x)
        y = self.bottom(levels[4])
        decoded = []
        skips = [
            self.skips[0](x),
            *(skip(level) for skip, level in zip(self.skips[1:], levels, strict=False)),
            levels[3],
        ]
        for up, skip in zip(self.ups, reversed(skips), strict=True):
            y = up(y, skip)
            decoded.append(y)
        logits = self.head(y)
        if not self.training or not self.coarse_heads:
            return logits
        coarse = reversed(decoded[:-1])
        return [logits, *(head(level) for head, level in zip(self.coarse_heads, coarse, strict=False))]

    def split(self) -> tuple[nn.Module, nn.Module]:
        """The network without its last layer, and that layer, a linear map of each voxel; the weights stay shared."""
        body = copy.copy(self)
        body._modules = dict(self._modules)
        body.head = nn.Identity()
        return body, self.head

    def _encode(self, x: Tensor) -> list[Tensor]:
        """The features of the embedding and of every stage, finest first."""
        tokens = self.embed(x).movedim(1, -1)
        levels, registers = [features(tokens)], None
        for index, stage in enumerate(self.stages):
            if self.leads:
                tokens = self.leads[index](tokens.movedim(-1, 1)).movedim(1, -1)
            tokens, registers = stage(tokens, registers)
            levels.append(features(tokens))
        return levels


def _stages(letters: str, dim: int, axes: int, encoder: Encoder) -> list[nn.Module]:
    drops = torch.linspace(0, encoder.drop_path, sum(encoder.depths)).tolist()
    options = {"A": encoder.attention, "H": encoder.hyena, "I": encoder.integral}
    sums = residuals(
        encoder.interpolation, [dim * 2**index for index, depth in enumerate(encoder.depths) for _ in range(depth)]
    )
    stages = []
    for index, (letter, depth) in enumerate(zip(letters, encoder.depths, strict=True)):
        own, drops = drops[:depth], drops[depth:]
        own_sums, sums = sums[:depth], sums[depth:]
        setting = StageSetting(
            dim=dim * 2**index,
            axes=axes,
            index=index,
            depth=depth,
            mlp_ratio=encoder.mlp_ratio,
            drop_path=tuple(own),
            residuals=own_sums,
            merging=encoder.merging,
            carry=encoder.hyena.registers > 0 and "H" in letters[: index + 1] and "H" in letters[index + 1 :],
        )
        stages.append(options[letter].stage(setting))
    return stages


def _check(stages: str, feature_size: int, spatial_dims: int, encoder: Encoder, deep_supervision: int) -> None:
    known = ", ".join(f"{letter} ({kind.__name__})" for letter, kind in LETTERS.items())
    for letter in stages:
        if letter not in LETTERS:
            raise ValueError(f"stages {stages!r}: unknown letter {letter!r}; known are {known}")
    if len(stages) != 4 or len(encoder.depths) != 4:
        raise ValueError(f"expected four stages and depths, got {stages!r} and {encoder.depths}")
    if encoder.patch != 2:
        raise ValueError(
            f"patch must be 2, for the decoder doubles the grid once for each halving, got {encoder.patch}"
        )
    if feature_size <= 0 or feature_size % 12:
        raise ValueError(f"feature_size must be a multiple of 12, got {feature_size}")
    if spatial_dims not in (2, 3):
        raise ValueError(f"spatial_dims must be 2 or 3, got {spatial_dims}")
    if not 0 <= deep_supervision <= 3:
        raise ValueError(f"deep_supervision must be 0 to 3, got {deep_supervision}")
