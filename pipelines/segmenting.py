"""Segmentation as a task of training: patches of scans, Dice and cross-entropy, Dice of whole held-out scans."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from .losses import deeply_supervised
from .plan import DIRECTIONS, Plan, Recipe
from .sampling import Patches, PreparedCase
from .scores import ScoreTable, evaluate_pair
from .sliding import Tiling, label_volume
from .volume import Volume


@dataclass(frozen=True)
class Segmenting:
    """What a segmenter learns.

    Args:
        plan: The run's; it has a recipe.
        training: Cases that patches come from.
        validation: Cases whose Dice is measured, on the prepared grid; may be empty.
    """

    plan: Plan
    training: Sequence[PreparedCase]
    validation: Sequence[PreparedCase] = ()

    def build(self) -> nn.Module:
        """The network with new weights."""
        return self.plan.network.build(len(self.plan.names))

    def examples(self, count: int) -> Patches:
        """`count` patches, each `(image (1, *window), labels (*window))`."""
        from .augment import CTAugmentation

        low, high = self.plan.preparation.range
        return Patches(
            self.training,
            self._recipe.window,
            air=low,
            foreground=self._recipe.foreground,
            length=count,
            seed=self._recipe.seed,
            augmentation=CTAugmentation(low, high, mirrored=[DIRECTIONS.index(one) for one in self.plan.mirrored]),
        )

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Dice and cross-entropy, at every level that the network gives."""
        image, labels = batch
        return deeply_supervised(model(image), labels, self._class_weights)

    @property
    def held_out(self) -> list[str]:
        """Names of the validation cases."""
        return [case.name for case in self.validation]

    def score(self, forward: Callable[[Tensor], Tensor], case: int) -> dict[int, float]:
        """Dice of each class in a whole held-out scan."""
        held, tiling = self.validation[case], Tiling(window=self.plan.window, overlap=0.25)
        labels = label_volume(held.image, forward, tiling, air=self.plan.preparation.range[0])
        names, truth = self.plan.names, Volume(held.labels.numpy(), np.diag((*self.plan.preparation.spacing_mm, 1.0)))
        scores = evaluate_pair(
            replace(truth, array=labels), truth, names, regions=self.plan.regions, ignored=len(names)
        )
        return {index: one.dice for index, one in scores.items()}

    def table(self, rows: Mapping[str, Mapping[int, float]]) -> ScoreTable:
        """Dice of all held-out scans."""
        return ScoreTable(rows, self.plan.names)

    def better(self, score: float, best: float) -> bool:
        """A higher Dice is better."""
        return score > best

    @cached_property
    def _class_weights(self) -> Tensor | None:
        given = self._recipe.class_weights
        return torch.tensor([given.get(index, 1.0) for index in sorted(self.plan.names)]) if given else None

    @property
    def _recipe(self) -> Recipe:
        assert self.plan.recipe is not None
        return self.plan.recipe
