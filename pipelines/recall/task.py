"""Spatial recall as a task of training: examples without end, and the mean squared error of the readout."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, default_collate

from ..scores import ScoreTable
from .canvas import COLOURS, ITEMS, apart, colour, copy
from .glyphs import drawn, fitted, read_idx
from .plan import RecallPlan

HELD_OUT = 10  # every so manieth image is for scoring alone
SCORED, AT_ONCE = 256, 16  # examples that a score is the mean of, and how many of them go through the network at once
TRAINING, SCORING = 0, 1  # what examples are for; they share neither images nor chance


class Examples(Dataset):
    """Examples, each a function of seed, purpose and number alone."""

    def __init__(self, plan: RecallPlan, images: Tensor, purpose: int, length: int) -> None:
        number = torch.arange(len(images)) % HELD_OUT == 0
        self.glyphs = fitted(images[number if purpose == SCORING else ~number], plan.canvas.glyph)
        self.plan, self.purpose, self.length = plan, purpose, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        canvas, recipe = self.plan.canvas, self.plan.recipe
        seed = np.random.SeedSequence((recipe.seed, self.purpose, number)).generate_state(1)[0]
        chance = torch.Generator().manual_seed(int(seed))
        if self.plan.task == "copy":
            fixed = self.plan.place == "fixed"
            corner = (0,) * len(canvas.grid) if fixed else next(apart(canvas, canvas.item, 1, chance))
            return copy(canvas, self._some(1, chance)[0], corner)
        corners = list(apart(canvas, canvas.framed, ITEMS, chance))
        inks = COLOURS[torch.randperm(len(COLOURS), generator=chance)[: len(corners)]]
        return colour(canvas, [*self._some(len(corners), chance)], [*inks], corners)

    def _some(self, count: int, chance: torch.Generator) -> Tensor:
        return self.glyphs[torch.randint(len(self.glyphs), (count,), generator=chance)]


@dataclass(frozen=True)
class Recalling:
    """What a network learns.

    Args:
        plan: The run's.
    """

    plan: RecallPlan

    @cached_property
    def images(self) -> Tensor:
        """What glyphs are made of."""
        return read_idx(Path(self.plan.glyphs)) if self.plan.glyphs else drawn()

    def build(self) -> nn.Module:
        """The network with new weights."""
        return self.plan.build()

    def examples(self, count: int) -> Examples:
        """`count` examples to learn from."""
        return Examples(self.plan, self.images, TRAINING, count)

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """The mean squared error of the readout."""
        x, target = batch
        return (self._read(model, x) - target).square().mean()

    @property
    def held_out(self) -> list[str]:
        """All examples for scoring are one case."""
        return ["held-out examples"]

    def score(self, forward: Callable[..., Tensor], case: int) -> dict[int, float]:
        """The mean squared error."""
        scored = Examples(self.plan, self.images, SCORING, SCORED)
        errors = []
        for first in range(0, SCORED, AT_ONCE):
            x, target = default_collate([scored[number] for number in range(first, first + AT_ONCE)])
            errors.append((self._read(forward, x).float().cpu() - target).square().mean())
        return {1: float(torch.stack(errors).mean())}

    def table(self, rows: Mapping[str, Mapping[int, float]]) -> ScoreTable:
        """The score as a table."""
        return ScoreTable(rows, {0: "", 1: "mse"})

    def better(self, score: float, best: float) -> bool:
        """A lower error is better."""
        return score < best

    def mean_guess(self) -> float:
        """The error of who answers with the mean target of as many examples to learn from, whatever the input."""
        known, asked = (self._targets(purpose) for purpose in (TRAINING, SCORING))
        return float((asked - known.mean(0)).square().mean())

    def _targets(self, purpose: int) -> Tensor:
        examples = Examples(self.plan, self.images, purpose, SCORED)
        return torch.stack([examples[number][1] for number in range(SCORED)])

    def _read(self, forward: Callable[..., Tensor], x: Tensor) -> Tensor:
        return forward(x)[:, *self.plan.canvas.readout]
