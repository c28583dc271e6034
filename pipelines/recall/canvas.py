"""The task of spatial recall: examples as functions of glyphs, places and colours.

An item is a glyph laid on the grid: a stretch of its rows in one dimension, a square in two, a square in one slice in
three. The readout is the item-shaped last corner of the canvas, and what has to stand there is the target::

    copy      one glyph on an empty canvas; the target is the glyph
    colour    four glyphs, each in a frame of a colour of its own; the readout is framed in the colour of one of them,
              and the target is that glyph in that colour

Background is 0, and glyphs reach from -1 to 1. In one dimension the frame is four samples before and behind a glyph,
which makes an item so much longer, and in the readout its first and last four; else it is a square's outermost pixels.

Source: the controlled spatial recall of arXiv:2607.19378; what the text leaves open is as in its authors' public code,
but for the width of the frame in one dimension.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

MARK = 4  # samples of a frame on either side of an item in one dimension
ITEMS = 4  # glyphs of which one is asked for, in colour
COLOURS = torch.tensor(
    [
        [1.00, 0.00, 0.00],
        [0.00, 0.60, 0.20],
        [0.00, 0.00, 1.00],
        [1.00, 1.00, 0.00],
        [0.00, 0.75, 1.00],
        [1.00, 0.00, 1.00],
        [1.00, 0.50, 0.00],
        [0.58, 0.00, 0.83],
    ]
)


@dataclass(frozen=True, kw_only=True)
class Canvas:
    """What examples are laid on.

    Args:
        grid: Samples along each of its one to three axes.
        glyph: Pixels along each side of a glyph.

    Raises:
        ValueError: The grid has other axes, or does not hold an item beside the readout.
    """

    grid: tuple[int, ...]
    glyph: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.grid) <= 3:
            raise ValueError(f"a canvas has one to three axes, not {len(self.grid)}")
        if self.glyph < 2 or not len(places(self, self.item)):
            raise ValueError(
                f"a grid of {' x '.join(map(str, self.grid))} does not hold glyphs of {self.glyph} pixels, of two or "
                f"more, beside the readout"
            )

    @property
    def item(self) -> tuple[int, ...]:
        """Samples along each axis that a glyph takes, and the readout."""
        return {1: (self.glyph**2,), 2: (self.glyph,) * 2, 3: (1, self.glyph, self.glyph)}[len(self.grid)]

    @property
    def readout(self) -> tuple[slice, ...]:
        """The last corner."""
        return tuple(slice(n - size, n) for n, size in zip(self.grid, self.item, strict=True))

    @property
    def framed(self) -> tuple[int, ...]:
        """Samples along each axis that a glyph in its frame takes."""
        return (self.item[0] + 2 * MARK,) if len(self.grid) == 1 else self.item


@lru_cache(maxsize=16)
def places(canvas: Canvas, size: tuple[int, ...]) -> Tensor:
    """First corners `(places, axes)` of a box of that size that lies on the grid, apart from the readout."""
    ranges = [torch.arange(max(0, n - length + 1)) for n, length in zip(canvas.grid, size, strict=True)]
    corners = torch.cartesian_prod(*ranges).view(-1, len(size))
    starts = torch.tensor([part.start for part in canvas.readout])
    return corners[(corners + torch.tensor(size) <= starts).any(1)]


def box(corner: Sequence[int], size: Sequence[int]) -> tuple[slice, ...]:
    """The part of a grid that starts at a corner."""
    return tuple(slice(start, start + length) for start, length in zip(corner, size, strict=True))


def copy(canvas: Canvas, glyph: Tensor, corner: Sequence[int]) -> tuple[Tensor, Tensor]:
    """One example.

    Args:
        canvas: What it is laid on.
        glyph: `(glyph, glyph)`.
        corner: Where the item starts.

    Returns:
        The input `(*grid, 1)` and the target `(*item, 1)`.
    """
    x, target = torch.zeros(canvas.grid), glyph.reshape(canvas.item)
    x[box(corner, canvas.item)] = target
    return x[..., None], target[..., None]


def colour(
    canvas: Canvas, glyphs: Sequence[Tensor], colours: Sequence[Tensor], corners: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor]:
    """One example, which asks for the first glyph.

    Args:
        canvas: What it is laid on.
        glyphs: `(glyph, glyph)` each.
        colours: `(3,)` each.
        corners: Where each framed item starts.

    Returns:
        The input `(*grid, 3)` and the target `(*item, 3)`.
    """
    x, line = torch.zeros(*canvas.grid, 3), len(canvas.grid) == 1
    for glyph, ink, corner in zip(glyphs, colours, corners, strict=True):
        item = glyph.reshape(canvas.item)[..., None].expand(*canvas.item, 3)
        if line:
            mark = ink.expand(MARK, 3)
            x[box(corner, canvas.framed)] = torch.cat([mark, item, mark])
        else:
            x[box(corner, canvas.item)] = torch.where(_outline(canvas), ink, item)
    asked = x[canvas.readout]
    x[canvas.readout] = torch.where(_outline(canvas), colours[0], asked)
    return x, glyphs[0].reshape(canvas.item)[..., None] * colours[0]


def _outline(canvas: Canvas) -> Tensor:
    """The frame of the readout, and of items in two and three dimensions, `(*item, 1)`."""
    outline, edge = torch.ones(*canvas.item, 1, dtype=torch.bool), MARK if len(canvas.grid) == 1 else 1
    outline[tuple(slice(edge, n - edge) if n > 1 else slice(None) for n in canvas.item)] = False
    return outline


def apart(canvas: Canvas, size: tuple[int, ...], count: int, generator: torch.Generator) -> Iterator[tuple[int, ...]]:
    """First corners of boxes at random that touch neither each other nor the readout; fewer where no more fit in."""
    left, extent = places(canvas, size), torch.tensor(size)
    for _ in range(count):
        if not len(left):
            return
        corner = left[int(torch.randint(len(left), (), generator=generator))]
        yield tuple(corner.tolist())
        left = left[((left - corner).abs() >= extent).any(1)]
