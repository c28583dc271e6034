"""Recall is learned from glyphs without end and scored on others; who brings them over exactly makes no error."""

from dataclasses import replace

import pytest
import torch
from fredholm.backbones import Interpolation
from fredholm.pipelines.recall.canvas import COLOURS, Canvas
from fredholm.pipelines.recall.plan import MIXERS, RecallBody, RecallPlan
from fredholm.pipelines.recall.task import SCORED, SCORING, TRAINING, Examples, Recalling
from fredholm.pipelines.recipe import TrainingRecipe

CANVASES = {1: Canvas(grid=(80,), glyph=3), 2: Canvas(grid=(9, 10), glyph=3), 3: Canvas(grid=(2, 7, 6), glyph=3)}
BODY = RecallBody(dim=24, depth=2, heads=2)


@pytest.fixture(params=CANVASES)
def plan(request) -> RecallPlan:
    return RecallPlan(canvas=CANVASES[request.param], network=BODY)


@pytest.mark.parametrize("interpolation", [None, Interpolation(anchors=8, from_layer=2)])
def test_a_plan_comes_back(plan, tmp_path, interpolation) -> None:
    plan = replace(plan, network=replace(plan.network, interpolation=interpolation), mixer="itnet", place="random")
    plan.write(tmp_path / "plan.yaml")
    assert RecallPlan.read(tmp_path / "plan.yaml") == plan


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("task", ["copy", "colour"])
def test_every_mixer_learns_by_the_readout_alone(plan, task, mixer) -> None:
    plan = replace(plan, task=task, mixer=mixer, network=replace(BODY, interpolation=Interpolation(anchors=4)))
    task = Recalling(plan)
    x, target = (part[None] for part in task.examples(1)[0])
    model = task.build()
    loss = task.loss(model, (x, target))
    torch.testing.assert_close(loss, (model(x)[:, *plan.canvas.readout] - target).square().mean())
    loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_who_shifts_the_canvas_copies_without_error(plan) -> None:
    shift = [n - size for n, size in zip(plan.canvas.grid, plan.canvas.item, strict=True)]
    axes = list(range(1, 1 + len(shift)))
    task = Recalling(plan)
    assert task.score(lambda x: x.roll(shift, axes), 0) == {1: 0.0}
    assert task.score(lambda x: x.roll([shift[0] - 1, *shift[1:]], axes), 0)[1] > task.mean_guess()


def test_the_mean_guess_is_the_error_of_the_mean_target(plan) -> None:
    task = Recalling(replace(plan, task="colour"))
    learned = task.examples(SCORED)
    mean = torch.stack([learned[number][1] for number in range(SCORED)]).mean(0)

    def guess(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        y[:, *plan.canvas.readout] = mean
        return y

    assert task.score(guess, 0)[1] == pytest.approx(task.mean_guess(), rel=1e-5)


@pytest.mark.parametrize("task", ["copy", "colour"])
def test_an_example_is_a_function_of_its_number(plan, task) -> None:
    plan = replace(plan, task=task, place="random")
    one, other = Recalling(plan).examples(3), Recalling(plan).examples(9)
    assert all(torch.equal(a, b) for a, b in zip(one[2], other[2], strict=True))
    assert not torch.equal(one[1][0], one[2][0])
    seeded = replace(plan, recipe=TrainingRecipe(seed=1))
    assert not torch.equal(Recalling(seeded).examples(3)[2][0], one[2][0])


def test_glyphs_that_are_scored_were_not_learned_from(plan) -> None:
    images = torch.rand(40, 28, 28)
    learned, scored = (Examples(plan, images, purpose, 1).glyphs for purpose in (TRAINING, SCORING))
    assert (len(learned), len(scored)) == (36, 4)
    assert not {tuple(one.flatten().tolist()) for one in learned} & {tuple(one.flatten().tolist()) for one in scored}


def test_a_colour_is_one_of_those_on_the_canvas(plan) -> None:
    x, target = Recalling(replace(plan, task="colour")).examples(1)[0]
    pixel = target.reshape(-1, 3)[target.abs().flatten(0, -2).sum(-1).argmax()]
    ink = COLOURS[(torch.nn.functional.cosine_similarity(pixel.abs()[None], COLOURS)).argmax()]
    assert (x == ink).all(-1).sum() > plan.canvas.glyph  # on its own frame and the readout's
