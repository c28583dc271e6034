"""Weights of MONAI's `SwinUNETR` and `HyenaNDUNETR`, taken over by name.

What a state dict can tell (channels, feature size, depths, heads, windows, which stages are HyenaND, kernel widths) is
read from it. What it cannot tell (how HyenaND was padded, how its coordinates were cached, which patch merging was
used) is `MonaiOptions`, whose defaults are MONAI's.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from ..kernels import Boundary
from .hyena import HyenaND, ProductGates, ShortConvolution, half_grid, whole_grid
from .implicit_kernel import GaussianWindow, ImplicitKernel, Siren, StepCoordinates
from .mixer_unetr import Encoder, MixerUNETR
from .registers import RegisterPool
from .stages import Hyena, Merging, WindowAttention

PREFIXES = ("module.", "model.", "network.", "net.", "_orig_mod.", "state_dict.")

# MONAI's name, ours; tried in order, each on the whole name.
NAMES: tuple[tuple[str, str], ...] = (
    (r"swinViT\.patch_embed\.(.*)", r"embed.\1"),
    (r"swinViT\.layers(\d)c\.0\.(.*)", r"leads.<\1>.\2"),
    (r"swinViT\.layers(\d)\.0\.downsample\.(.*)", r"stages.<\1>.merge.\2"),
    (r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.)mixer\.mixer\.global_conv\.shortcut", r"stages.<\1>.\2mixer.shortcut"),
    (
        r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.)mixer\.mixer\.global_conv\.kernel\.positional_embedding\.linear\.(.*)",
        r"stages.<\1>.\2mixer.kernel.first.\3",
    ),
    (
        r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.)mixer\.mixer\.global_conv\.kernel\.hidden_linears\.(.*)",
        r"stages.<\1>.\2mixer.kernel.hidden.\3",
    ),
    (
        r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.)mixer\.mixer\.global_conv\.kernel\.out_linear\.(.*)",
        r"stages.<\1>.\2mixer.kernel.last.\3",
    ),
    (
        r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.)mixer\.mixer\.global_conv\.mask\.std_param",
        r"stages.<\1>.\2mixer.kernel.window.sigma",
    ),
    (r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.)mixer\.mixer\.short_conv\.weight", r"stages.<\1>.\2mixer.short.weight"),
    (
        r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.)mixer\.mixer\.pixelhyena_norm\.(.*)",
        r"stages.<\1>.\2mixer.gates.norm.\3",
    ),
    (r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.)mixer\.mixer\.([qk]_norm)\.(.*)", r"stages.<\1>.\2mixer.gates.\3.\4"),
    (r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.)mixer\.qkv_proj\.weight", r"stages.<\1>.\2mixer.project.weight"),
    (r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.)mixer\.out_proj\.weight", r"stages.<\1>.\2mixer.out.weight"),
    (r"swinViT\.layers(\d)\.0\.(blocks\.\d+\.(?:attn|mlp|norm1|norm2)\..*)", r"stages.<\1>.\2"),
    (r"encoder([1-4])\.(.*)", r"skips.<\1>.\2"),
    (r"encoder10\.(.*)", r"bottom.\1"),
    (r"decoder([1-5])\.(.*)", r"ups.>\1<.\2"),
    (r"out\.(.*)", r"head.\1"),
)


@dataclass(frozen=True, kw_only=True)
class MonaiOptions:
    """What MONAI was told and its weights do not say; the defaults are MONAI's.

    Args:
        padding: `hyena_fft_padding`.
        grid: `hyena_grid_type`.
        cache: `hyena_l_cache`, which fixes the distance of neighbouring taps.
        attenuation: `hyena_mask_max_attenuation`.
        merging: `downsample`.
    """

    padding: Literal["circular", "zero"] = "circular"
    grid: Literal["single", "double"] = "single"
    cache: int = 32
    attenuation: float = 0.95
    merging: Merging = "merging"


def from_monai(state: Mapping[str, Tensor], options: MonaiOptions | None = None) -> MixerUNETR:
    """Build the network that a MONAI state dict is of, with its weights.

    Args:
        state: `SwinUNETR(...).state_dict()` or `HyenaNDUNETR(...).state_dict()`; known prefixes such as `module.` are
            taken off.
        options: What the weights do not say.

    Returns:
        The network in evaluation mode; its logits equal MONAI's.

    Raises:
        ValueError: It is no such state dict, or tensors are left over or missing; the message names them.
    """
    options = options or MonaiOptions()
    plain = _without_prefix(state)
    model = _build(plain, options)
    renamed = {_rename(name): tensor for name, tensor in plain.items()}
    _same_shapes(renamed, model)
    missing, left_over = model.load_state_dict(renamed, strict=False)
    if missing or left_over:
        raise ValueError(
            f"{len(renamed) - len(left_over)} of {len(renamed)} tensors matched; "
            f"left over: {_some(left_over)}; missing: {_some(missing)}"
        )
    return model.eval()


def _same_shapes(state: Mapping[str, Tensor], model: nn.Module) -> None:
    for name, own in model.state_dict().items():
        if name in state and state[name].shape != own.shape:
            raise ValueError(f"{name}: the weights have shape {tuple(state[name].shape)}, expected {tuple(own.shape)}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") if names else "none"


def _without_prefix(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    prefix = ""
    while not any(name.startswith(prefix + "swinViT.") for name in state):
        longer = [prefix + known for known in PREFIXES if all(name.startswith(prefix + known) for name in state)]
        if not state or not longer:
            raise ValueError(
                "no state dict of SwinUNETR or HyenaNDUNETR: no name starts with 'swinViT.', "
                f"the first are {_some(list(state))}"
            )
        prefix = longer[0]
    return {name.removeprefix(prefix): tensor for name, tensor in state.items()}


def _rename(name: str) -> str:
    for theirs, ours in NAMES:
        if re.fullmatch(theirs, name):
            renamed = re.sub(theirs, ours, name)
            renamed = re.sub(r"<(\d)>", lambda found: str(int(found[1]) - 1), renamed)  # they count from 1
            return re.sub(r">(\d)<", lambda found: str(5 - int(found[1])), renamed)  # their last decoder is the first
    return name


def _build(state: Mapping[str, Tensor], options: MonaiOptions) -> MixerUNETR:
    try:
        embed, head = state["swinViT.patch_embed.proj.weight"], state["out.conv.conv.weight"]
        depths = tuple(_count(state, rf"swinViT\.layers{stage}\.0\.blocks\.(\d+)\..*") for stage in range(1, 5))
        letters = "".join("H" if _is_hyena(state, stage) else "A" for stage in range(1, 5))
        first_mlp = state[_first(state, r"swinViT\.layers1\.0\.blocks\.0\.mlp\.linear1\.weight")]
        attention = _attention(state, embed.ndim - 2)
        hyena = _hyena(state, options) if "H" in letters else Hyena()
    except KeyError as error:
        raise ValueError(f"no complete state dict of SwinUNETR or HyenaNDUNETR: {error.args[0]} is missing") from None
    axes, feature_size = embed.ndim - 2, embed.shape[0]
    return MixerUNETR(
        embed.shape[1],
        head.shape[0],
        letters,
        feature_size,
        spatial_dims=axes,
        encoder=Encoder(
            attention=attention,
            hyena=hyena,
            depths=depths,
            patch=embed.shape[2],
            patch_norm="swinViT.patch_embed.norm.weight" in state,
            mlp_ratio=first_mlp.shape[0] / first_mlp.shape[1],
            merging=options.merging,
            convolve_first=any(name.startswith("swinViT.layers1c.") for name in state),
        ),
        affine_norm="encoder1.layer.norm1.weight" in state,
    )


def _count(state: Mapping[str, Tensor], pattern: str) -> int:
    numbers = [int(found[1]) for found in (re.fullmatch(pattern, name) for name in state) if found]
    if not numbers:
        raise KeyError(pattern.replace("\\", ""))
    return 1 + max(numbers)


def _first(state: Mapping[str, Tensor], pattern: str) -> str:
    for name in state:
        if re.fullmatch(pattern, name):
            return name
    raise KeyError(pattern.replace("\\", ""))


def _is_hyena(state: Mapping[str, Tensor], stage: int) -> bool:
    return f"swinViT.layers{stage}.0.blocks.0.mixer.qkv_proj.weight" in state


def _attention(state: Mapping[str, Tensor], axes: int) -> WindowAttention:
    tables = {
        stage: state[f"swinViT.layers{stage}.0.blocks.0.attn.relative_position_bias_table"]
        for stage in range(1, 5)
        if not _is_hyena(state, stage)
    }
    if not tables:
        return WindowAttention()
    stage = min(tables)
    prefix = f"swinViT.layers{stage}.0.blocks.0.attn."
    # Stages without attention have no heads of their own; any number serves.
    heads = tuple(tables[number].shape[1] if number in tables else 1 for number in range(1, 5))
    window = _window(state[prefix + "relative_position_index"], axes)
    return WindowAttention(window=window, heads=heads, qkv_bias=prefix + "qkv.bias" in state)


def _window(index: Tensor, axes: int) -> tuple[int, ...]:
    """The window's sides from its table of relative positions: voxels are counted along the last axis first."""
    steps = (index[0, 0] - index[0]).tolist()  # how far each voxel lies from the first, in units of the table
    sides: list[int] = []
    unit, stride = 1, 1
    for _ in range(axes - 1):
        side = next((n for n in range(1, len(steps) // stride) if steps[n * stride] != n * unit), len(steps) // stride)
        sides.insert(0, side)
        unit, stride = unit * (2 * side - 1), stride * side
    return (len(steps) // stride, *sides)


def _hyena(state: Mapping[str, Tensor], options: MonaiOptions) -> Hyena:
    if options.padding == "circular" and options.grid == "double":
        raise ValueError("MONAI's HyenaND knows no double grid with circular padding")
    step = 1 / (((options.cache + 1) // 2 if options.grid == "single" else options.cache) - 1)
    prefix = _first(state, r"swinViT\..*global_conv\.shortcut").removesuffix("global_conv.shortcut")
    width = state[prefix + "global_conv.kernel.out_linear.weight"].shape[1]
    hidden = _count(state, re.escape(prefix) + r"global_conv\.kernel\.hidden_linears\.(\d+)\..*")
    taps = state[prefix + "short_conv.weight"].shape[-1]

    def mixer(dim: int, boundary: Sequence[Boundary], pool: RegisterPool | None) -> nn.Module:
        siren = Siren(width=width, hidden=hidden, bands=1)
        kernel = ImplicitKernel(dim, len(boundary), siren=siren, step=step, coordinates=StepCoordinates(step))
        kernel.window = GaussianWindow(dim, len(boundary), step=step, wide=options.attenuation)
        return HyenaND(
            dim,
            boundary,
            kernel,
            gates=ProductGates(dim),
            short=ShortConvolution(3 * dim, tuple("zero" for _ in boundary), taps),
            pool=pool,
            extent=half_grid if options.grid == "single" else whole_grid,
        )

    return Hyena(boundary="periodic" if options.padding == "circular" else "zero", mixer=mixer)
