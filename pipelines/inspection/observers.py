"""What is measured at each kind of layer while a network computes: forward hooks, one function for each kind.

An observer takes the layer, its output and its inputs, and gives numbers by name. Attention of many positions is
measured on some of them, evenly spread.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from monai.networks.nets.swin_unetr import WindowAttention
from torch import Tensor, nn

from ...backbones import GlobalAttention, HyenaND, ResidualBlock, UniversalInterpolation
from ...backbones.window_attention import AttentionBlock
from .measures import effective_rank, entropy_bits, extents, focus, mean_frequency, spectrum

SAMPLES = 256  # positions whose attention is measured
WINDOWS = 16  # windows, of windowed attention
ROWS = 4096  # positions whose features are measured

Found = Mapping[str, float | list[float]]
Observer = Callable[..., Found]


@dataclass(frozen=True)
class Layer:
    """A residual block.

    Args:
        name: Its name in the network.
        mixer: Kind of its mixer.
        found: Numbers by name.
    """

    name: str
    mixer: str
    found: dict[str, float | list[float]] = field(default_factory=dict)


def observe(model: nn.Module, show: Callable[[], object] | None = None) -> list[Layer]:
    """Measure every residual block of a network, in the order of their names in it.

    Args:
        model: The network.
        show: Lets it compute; without it what the weights alone tell is measured.
    """
    layers = [(Layer(name, _mixer(block)), block) for name, block in model.named_modules() if isinstance(block, BLOCKS)]
    for layer, block in layers:
        if isinstance(block.residual, UniversalInterpolation):
            layer.found.update(of_alpha(block.residual))
    if show is None:
        return [layer for layer, _ in layers]
    with ExitStack() as hooks:
        for layer, block in layers:
            for part in block.modules():
                if type(part) in OBSERVERS:
                    handle = part.register_forward_hook(_hook(layer, OBSERVERS[type(part)]), with_kwargs=True)
                    hooks.callback(handle.remove)
        with torch.inference_mode():
            show()
    return [layer for layer, _ in layers]


def of_alpha(layer: UniversalInterpolation) -> Found:
    """How far a layer moves its features, and what this is made of."""
    return {name: float(getattr(layer, name).detach()) for name in ("alpha", "beta", "gamma")}


def of_interpolation(layer: UniversalInterpolation, _: Tensor, x: Tensor, branch: Tensor) -> Found:
    """The share of each anchor."""
    return {"shares": layer.weights(branch).flatten(0, -2).double().mean(0).tolist()}


def of_features(_: nn.Module, output: Tensor, *inputs: Any, **more: Any) -> Found:
    """How many directions the features use."""
    return {"rank": effective_rank(_some(output.flatten(0, -2), ROWS))}


def of_global_attention(layer: GlobalAttention, _: Tensor, x: Tensor) -> Found:
    """How widely each position looks."""
    q, k = layer.project(x.flatten(1, -2)).unflatten(-1, (3, layer.heads, -1)).permute(2, 0, 3, 1, 4)[:2]
    if layer.positions is not None:
        q, k = (layer.positions(one, x.shape[1:-1]) for one in (q, k))
    scores = _some(q, SAMPLES, -2) @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return _attention(scores)


def of_window_attention(layer: WindowAttention, _: Tensor, x: Tensor, mask: Tensor | None) -> Found:
    """How widely each voxel looks within its window."""
    chosen = _some(torch.arange(len(x), device=x.device), WINDOWS)
    n = x.shape[1]
    q, k = layer.qkv(x[chosen]).unflatten(-1, (3, layer.num_heads, -1)).permute(2, 0, 3, 1, 4)[:2]
    index: Tensor = layer.relative_position_index[:n, :n]  # pyright: ignore[reportAssignmentType, reportIndexIssue]
    scores = q @ k.transpose(-2, -1) * layer.scale + layer.relative_position_bias_table[index].permute(2, 0, 1)
    return _attention(scores if mask is None else scores + mask[chosen % len(mask)][:, None])


def of_hyena(layer: HyenaND, _: Tensor, x: Tensor, condition: Tensor | None = None) -> Found:
    """How far the long kernel reaches, and how fine it is: of the first of the batch."""
    kernel = layer.long_kernel(x, condition)[0]
    spectra = [spectrum(kernel, axis) for axis in range(1, kernel.ndim)]
    frequencies = [mean_frequency(power) for power in spectra]
    return {"extents": extents(kernel), "frequencies": frequencies, "spectrum": spectra[0].tolist()}


BLOCKS = (ResidualBlock, AttentionBlock)
OBSERVERS: Mapping[type, Observer] = {
    ResidualBlock: of_features,
    AttentionBlock: of_features,
    GlobalAttention: of_global_attention,
    WindowAttention: of_window_attention,
    HyenaND: of_hyena,
    UniversalInterpolation: of_interpolation,
}


def _hook(layer: Layer, observer: Observer) -> Callable[..., None]:
    def look(part: nn.Module, inputs: tuple, more: dict, output: Tensor) -> None:
        layer.found.update(observer(part, output, *inputs, **more))

    return look


def _mixer(block: nn.Module) -> str:
    return type(block.mixer if isinstance(block, ResidualBlock) else block.attn).__name__


def _attention(scores: Tensor) -> Found:
    entropy = entropy_bits(scores.double().softmax(-1))
    return {"entropy": entropy, "focus": focus(entropy, scores.shape[-1])}


def _some(values: Tensor, limit: int, dim: int = 0) -> Tensor:
    """At most so many, evenly spread."""
    count = values.shape[dim]
    if count <= limit:
        return values
    return values.index_select(dim, torch.linspace(0, count - 1, limit, device=values.device).long())
