"""A classifier as a task of training: changed clouds, cross-entropy, accuracy of held-out clouds of each class."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from ..scores import ScoreTable
from .classify import Forward, as_tensors, probabilities
from .cloud import draw
from .dataset import LabelledClouds
from .plan import PointPlan

Batch = tuple[list[Tensor], Tensor]


class Examples(Dataset):
    """`length` changed clouds, every one once before any comes again, each a function of seed and number alone."""

    def __init__(self, plan: PointPlan, data: LabelledClouds, length: int) -> None:
        self.plan, self.data, self.length = plan, data, length
        self._order: tuple[int, np.ndarray] | None = None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> tuple[list[Tensor], int]:
        seed = self.plan.recipe.seed
        epoch, place = divmod(number, len(self.data))
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng((seed, epoch)).permutation(len(self.data))
        index = int(self._order[1][place])
        rng = np.random.default_rng((seed, 1, number))
        cloud = self.plan.augmentation(draw(self.data.clouds[index], self.plan.points, rng), rng)
        return [*as_tensors(self.plan, cloud)], int(self.data.labels[index])


@dataclass(frozen=True)
class Classifying:
    """What a classifier learns.

    Args:
        plan: The run's.
        training: Clouds that it learns from.
        validation: Clouds of the training side that it is judged by; may be empty.
    """

    plan: PointPlan
    training: LabelledClouds
    validation: LabelledClouds

    def build(self) -> nn.Module:
        """The network with new weights."""
        return self.plan.build()

    def examples(self, count: int) -> Examples:
        """`count` changed clouds and their labels."""
        return Examples(self.plan, self.training, count)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy with smoothed labels."""
        seen, labels = batch
        return F.cross_entropy(model(*seen), labels, label_smoothing=self.plan.recipe.smoothing)

    @property
    def held_out(self) -> list[str]:
        """The classes that there are clouds of, since all count alike."""
        return [self.plan.names[label] for label in self._labels]

    def score(self, forward: Forward, case: int) -> dict[int, float]:
        """Share of a class's held-out clouds that are right."""
        label = self._labels[case]
        own = self.validation.take(np.flatnonzero(self.validation.labels == label))
        found = probabilities(self.plan, lambda *x: forward(*x).float().cpu(), own.clouds)
        return {1: float((found.argmax(1) == label).mean())}

    def table(self, rows: Mapping[str, Mapping[int, float]]) -> ScoreTable:
        """The accuracy of each class."""
        return ScoreTable(rows, {0: "", 1: "accuracy"})

    def better(self, score: float, best: float) -> bool:
        """More are right."""
        return score > best

    @property
    def _labels(self) -> list[int]:
        return torch.from_numpy(self.validation.labels).unique().tolist() if len(self.validation) else []
