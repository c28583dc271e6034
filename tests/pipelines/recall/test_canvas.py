"""An example is what the task says: items on an empty canvas, apart from the readout, and one of them as the target."""

import itertools

import pytest
import torch
from fredholm.pipelines.recall.canvas import COLOURS, ITEMS, MARK, Canvas, apart, box, colour, copy, places

CANVASES = [Canvas(grid=(60,), glyph=3), Canvas(grid=(11, 9), glyph=3), Canvas(grid=(3, 7, 8), glyph=3)]


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("canvas", CANVASES)
def test_a_copy_lies_where_it_is_laid_and_nowhere_else(canvas) -> None:
    glyph, corner = torch.rand(3, 3) + 1, next(apart(canvas, canvas.item, 1, chance()))
    x, target = copy(canvas, glyph, corner)
    assert x.shape == (*canvas.grid, 1)
    assert torch.equal(target.flatten(), glyph.flatten())
    assert torch.equal(x[box(corner, canvas.item)], target)
    assert x.count_nonzero() == 9
    assert x[canvas.readout].count_nonzero() == 0
    assert x[canvas.readout].shape == target.shape


@pytest.mark.parametrize("canvas", CANVASES)
def test_places_are_all_that_leave_the_readout_free(canvas) -> None:
    expected = []
    for corner in itertools.product(*(range(n - size + 1) for n, size in zip(canvas.grid, canvas.item, strict=True))):
        taken = torch.zeros(canvas.grid)
        taken[box(corner, canvas.item)] = 1
        if not taken[canvas.readout].any():
            expected.append(list(corner))
    assert places(canvas, canvas.item).tolist() == expected


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("canvas", CANVASES)
def test_boxes_touch_neither_each_other_nor_the_readout(canvas, seed) -> None:
    taken = torch.zeros(canvas.grid)
    taken[canvas.readout] += 1
    corners = list(apart(canvas, canvas.framed, 50, chance(seed)))
    for corner in corners:
        taken[box(corner, canvas.framed)] += 1
    assert 1 <= len(corners) < 50
    assert taken.max() == 1


@pytest.mark.parametrize("canvas", CANVASES[1:])
def test_frames_tell_which_glyph_is_asked_for_and_in_which_colour(canvas) -> None:
    glyphs, inks = torch.rand(ITEMS, 3, 3) - 2, COLOURS[:ITEMS]
    corners = list(apart(canvas, canvas.framed, 2, chance()))
    x, target = colour(canvas, [*glyphs[:2]], [*inks[:2]], corners)
    for glyph, ink, corner in zip(glyphs, inks, corners, strict=False):
        item = x[box(corner, canvas.item)].reshape(3, 3, 3)
        assert torch.equal(item[1, 1], glyph[1, 1].expand(3))
        rim = torch.ones(3, 3, dtype=torch.bool)
        rim[1, 1] = False
        assert torch.equal(item[rim], ink.expand(8, 3))
    asked = x[canvas.readout].reshape(9, 3)
    assert torch.equal(asked[[0, 1, 2, 3, 5, 6, 7, 8]], inks[0].expand(8, 3))
    assert torch.equal(asked[4], torch.zeros(3))
    assert torch.equal(target.reshape(3, 3, 3), glyphs[0][..., None] * inks[0])


def test_on_a_line_a_frame_is_before_and_behind() -> None:
    canvas, glyph, ink = Canvas(grid=(60,), glyph=3), torch.rand(3, 3) - 2, COLOURS[3]
    x, target = colour(canvas, [glyph], [ink], [(5,)])
    assert torch.equal(x[5 : 5 + MARK], ink.expand(MARK, 3))
    assert torch.equal(x[5 + MARK : 14 + MARK], glyph.reshape(9, 1).expand(9, 3))
    assert torch.equal(x[14 + MARK : 14 + 2 * MARK], ink.expand(MARK, 3))
    assert torch.equal(x[51 : 51 + MARK], ink.expand(MARK, 3))
    assert torch.equal(x[60 - MARK :], ink.expand(MARK, 3))
    assert torch.equal(target, glyph.reshape(9, 1) * ink)


@pytest.mark.parametrize(("grid", "says"), [((8,) * 4, "one to three axes, not 4"), ((5, 5), "5 x 5 does not hold")])
def test_what_does_not_fit_is_refused(grid, says) -> None:
    with pytest.raises(ValueError, match=says):
        Canvas(grid=grid, glyph=3)
