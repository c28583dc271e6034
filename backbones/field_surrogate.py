r"""FieldSurrogate: fields on a grid in, fields on the same grid out; what a surrogate of a simulation is made of.

Patches become tokens, blocks of HyenaND and attention mix them, and the head puts the tokens' features beside a lift of
the input at full resolution, so that no edge of a patch shows::

    tokens = blocks( embed(patches(x)) + c, c )             c = perceptron(scalars)
    y = out( GELU( short( GELU( spread(tokens) + lift(x) ) ) ) )

HyenaND's kernels depend on the scalars through FiLM. What lies outside the grid is told axis by axis: on a periodic
axis all convolutions wrap round, on others the grid is surrounded by zeros, which lets a network see where a wall or an
open end is, as mirroring the fields would not.

Source: HyenaND with attention stripes on The Well, arXiv:2607.19378, its section on physical simulations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels import Boundary
from .attention import GlobalAttention
from .hyena import HyenaND, ShortConvolution
from .implicit_kernel import ImplicitKernel, StepCoordinates
from .integral_transform import IntegralTransform, UniformSamples
from .kappa import MLPKernel
from .residual import ResidualBlock
from .universal_interpolation import Interpolation, residuals

LETTERS = {"A": "global attention", "H": "HyenaND", "I": "ITNet"}
SAMPLES = 512  # tokens that stand for all in ITNet's integral, where there are more


@dataclass(frozen=True, kw_only=True)
class SurrogateBody:
    """What differs between surrogates.

    Args:
        pattern: A letter for each block, H HyenaND, A global attention, I ITNet; repeated as often as it takes. ITNet
            sees where a token lies, so with it a periodic box is no longer the same wherever it is cut open.
        depth: Number of blocks.
        dim: Channels of the tokens.
        patch: Samples along each axis that become one token.
        heads: Heads of attention.
        width: Channels of the head at full resolution.
        interpolation: Universal interpolation in the place of the mixers' plain residuals; None for none.
    """

    pattern: str = "HHHA"
    depth: int = 4
    dim: int = 96
    patch: int = 2
    heads: int = 4
    width: int = 32
    interpolation: Interpolation | None = None

    def __post_init__(self) -> None:
        for letter in self.pattern or "?":
            if letter not in LETTERS:
                known = ", ".join(f"{one} ({name})" for one, name in LETTERS.items())
                raise ValueError(f"pattern {self.pattern!r}: unknown letter {letter!r}; known are {known}")
        for name in ("depth", "dim", "patch", "heads", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")


class FieldSurrogate(nn.Module):
    """From `(batch, *grid, channels_in)` to `(batch, *grid, channels_out)`; at the start the output is zero.

    The kernels are functions of the distance in samples, measured by `samples`, so a grid of another size with the same
    spacing is a larger box and meets the same kernels.

    Args:
        channels_in: Fields of all known frames, and constant fields.
        channels_out: Fields of the next frame.
        boundary: What lies outside the grid, one for each of its one to three axes.
        scalars: Parameters that the kernels depend on; 0 makes them static.
        samples: Samples along the longest axis of the grid that it is made for.
        body: What else differs.
    """

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        boundary: Sequence[Boundary],
        *,
        scalars: int = 0,
        samples: int = 64,
        body: SurrogateBody | None = None,
    ) -> None:
        super().__init__()
        body = body or SurrogateBody()
        self.patch, self.boundary = body.patch, tuple(boundary)
        axes, dim = len(self.boundary), body.dim
        cells = body.patch**axes
        condition = dim if scalars else None
        self.condition = nn.Sequential(nn.Linear(scalars, dim), nn.GELU(), nn.Linear(dim, dim)) if scalars else None
        self.embed = nn.Linear(cells * channels_in, dim)
        step = 1 / max(1, math.ceil(samples / body.patch) - 1)

        def mixer(letter: str) -> nn.Module:
            if letter == "A":
                return GlobalAttention(dim, body.heads)
            if letter == "I":
                pairs = partial(MLPKernel, width=64, frequencies=16)
                drawn = UniformSamples(SAMPLES)
                return IntegralTransform(dim, axes, kernel=pairs, heads=body.heads, strategy=drawn, spacing=step)
            coordinates = StepCoordinates(step)
            kernel = ImplicitKernel(dim, axes, step=step, coordinates=coordinates, condition=condition)
            return HyenaND(dim, self.boundary, kernel)

        self.letters = "".join(body.pattern[index % len(body.pattern)] for index in range(body.depth))
        sums = residuals(body.interpolation, [dim] * body.depth)
        self.blocks = nn.ModuleList(
            ResidualBlock(dim, mixer(letter), mlp_ratio=2.0, residual=residual)
            for letter, residual in zip(self.letters, sums, strict=True)
        )
        self.norm = nn.LayerNorm(dim)
        self.spread = nn.Linear(dim, cells * body.width)
        self.lift = nn.Linear(channels_in, body.width)
        self.short = ShortConvolution(body.width, self.boundary)
        self.hidden = nn.Linear(body.width, body.width)
        self.out = nn.Linear(body.width, channels_out)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor, scalars: Tensor | None = None) -> Tensor:
        """The output for fields `(batch, *grid, channels_in)` and scalars `(batch, scalars)`.

        Raises:
            ValueError: The grid has another number of axes, or is no multiple of the patch.
        """
        grid = x.shape[1:-1]
        if len(grid) != len(self.boundary) or any(n % self.patch for n in grid):
            raise ValueError(
                f"expected a grid of {len(self.boundary)} axes, each a multiple of the patch {self.patch}, "
                f"got {tuple(grid)}"
            )
        tokens = self.embed(gather(x, self.patch))
        condition = None if self.condition is None or scalars is None else self.condition(scalars)
        if condition is not None:
            tokens = tokens + condition.view(len(x), *(1 for _ in grid), -1)
        for letter, block in zip(self.letters, self.blocks, strict=True):
            tokens = block(tokens, condition) if letter == "H" and condition is not None else block(tokens)
        fine = F.gelu(scatter(self.spread(self.norm(tokens)), self.patch) + self.lift(x))
        return self.out(F.gelu(self.hidden(self.short(fine)) + fine))


def gather(x: Tensor, patch: int) -> Tensor:
    """Put the samples of each patch into channels: `(batch, *grid, c)` to `(batch, *grid / patch, patch^axes c)`."""
    axes = x.ndim - 2
    split = [side for n in x.shape[1:-1] for side in (n // patch, patch)]
    order = [0, *range(1, 2 * axes, 2), *range(2, 2 * axes + 1, 2), 2 * axes + 1]
    return x.reshape(len(x), *split, x.shape[-1]).permute(order).flatten(axes + 1)


def scatter(x: Tensor, patch: int) -> Tensor:
    """Undo `gather`."""
    axes = x.ndim - 2
    cells = x.unflatten(-1, (*(patch for _ in range(axes)), -1))
    order = [0, *(place for axis in range(1, axes + 1) for place in (axis, axis + axes)), 2 * axes + 1]
    return cells.permute(order).reshape(len(x), *(n * patch for n in x.shape[1:-1]), -1)
