"""The plan of a run of spatial recall: the task, the network and its training, as YAML that people can read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

from torch import Tensor, nn

from ...backbones import (
    AxialRotary,
    GlobalAttention,
    HyenaND,
    ImplicitKernel,
    IntegralTransform,
    Interpolation,
    MixerStack,
    MLPKernel,
    ResidualBlock,
    SlidingWindow,
    UniformSamples,
    residuals,
    without_window,
)
from ..recipe import TrainingRecipe, expect_whole
from ..records import Kind, Recorded
from .canvas import Canvas

Asked = Literal["copy", "colour"]
Place = Literal["fixed", "random"]
Mixer = Literal["hyena", "attention", "itnet"]


@dataclass(frozen=True, kw_only=True)
class RecallBody:
    """What differs between networks.

    Args:
        dim: Channels of the blocks.
        depth: Number of blocks.
        heads: Heads of attention and of ITNet.
        window: Samples along each axis that attention sees about a position, odd; 0 for all positions.
        interpolation: Universal interpolation in the place of the mixers' plain residuals; None for none.
    """

    dim: int = 32
    depth: int = 4
    heads: int = 4
    window: int = 0
    interpolation: Interpolation | None = None

    def __post_init__(self) -> None:
        for name in ("dim", "depth", "heads"):
            expect_whole(name, getattr(self, name), 1)
        expect_whole("window", self.window, 0)


@dataclass(frozen=True, kw_only=True)
class RecallPlan(Recorded):
    """The whole plan.

    Args:
        task: What is asked for, see `canvas`.
        canvas: What examples are laid on.
        place: Where copy's glyph lies: in the first corner, or anywhere apart from the readout.
        mixer: What mixes positions.
        network: What else the network is made of.
        recipe: How it is trained.
        glyphs: File of the images that glyphs are made of; "" for drawn characters.
    """

    score: ClassVar[str] = "mse"
    records: ClassVar[Mapping[str, Kind]] = {
        "canvas": Canvas,
        "network": RecallBody,
        "interpolation": Interpolation,
        "recipe": TrainingRecipe,
    }

    task: Asked = "copy"
    canvas: Canvas
    place: Place = "fixed"
    mixer: Mixer = "hyena"
    network: RecallBody = field(default_factory=RecallBody)
    recipe: TrainingRecipe = field(default_factory=TrainingRecipe)
    glyphs: str = ""

    @property
    def channels(self) -> int:
        """Of the input, and of the target."""
        return 1 if self.task == "copy" else 3

    def build(self) -> nn.Module:
        """The network with new weights."""
        body, mixer = self.network, MIXERS[self.mixer]
        sums = residuals(body.interpolation, [body.dim] * body.depth)
        blocks = (ResidualBlock(body.dim, mixer(self.canvas, body), mlp_ratio=2.0, residual=one) for one in sums)
        return MixerStack(self.channels, self.channels, body.dim, blocks)

    def load(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The network with these weights, in evaluation mode."""
        model = self.build()
        model.load_state_dict(weights)
        return model.eval()


def _hyena(canvas: Canvas, body: RecallBody) -> nn.Module:
    """Without a window: a kernel that starts with one has 3 % of its height where the first corner meets the last."""
    axes, step = len(canvas.grid), 1 / (max(canvas.grid) - 1)
    kernel = ImplicitKernel(body.dim, axes, step=step, window=without_window)
    return HyenaND(body.dim, ("zero",) * axes, kernel)


def _attention(canvas: Canvas, body: RecallBody) -> nn.Module:
    rotary = AxialRotary(body.dim // body.heads, len(canvas.grid))
    sees = SlidingWindow(body.window) if body.window else None
    return GlobalAttention(body.dim, body.heads, positions=rotary, sees=sees)


def _itnet(canvas: Canvas, body: RecallBody) -> nn.Module:
    pairs = partial(MLPKernel, width=64, frequencies=16)
    return IntegralTransform(
        body.dim, len(canvas.grid), kernel=pairs, heads=body.heads, strategy=UniformSamples(SAMPLES)
    )


SAMPLES = 512  # positions that stand for all in ITNet's integral
MIXERS: Mapping[Mixer, Callable[[Canvas, RecallBody], nn.Module]] = {
    "hyena": _hyena,
    "attention": _attention,
    "itnet": _itnet,
}
