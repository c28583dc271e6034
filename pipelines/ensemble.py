"""Several networks that answer as one: their probabilities are averaged, window by window.

The answer is the logarithm of the mean probability, so that it can be blended and compared as one network's logits are:
that of a network with itself differs from its logits by a number that all classes share. Only a window's answers are
held at a time, whatever the number of networks; sums are float32.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from .plan import Plan
from .run import Run

# what networks that answer as one agree in
SHARED = ("names", "regions", "channels", "preparation", "window", "postprocessing")


class Ensemble(nn.Module):
    """Networks for the same window and classes.

    Args:
        models: From `(batch, channels, *window)` to logits `(batch, classes, *window)`.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, window: Tensor) -> Tensor:
        """Logarithm of the mean probability of each class, `(batch, classes, *window)`, float32."""
        first, *others = self.models
        total = torch.log_softmax(first(window).float(), 1)
        for model in others:
            total = torch.logaddexp(total, torch.log_softmax(model(window).float(), 1))
        return total - math.log(len(self.models))


def load_together(runs: Sequence[Run[Plan]], weights: Sequence[Path]) -> nn.Module:
    """The networks of some runs as one; of a single run its own.

    Args:
        runs: One at least.
        weights: A file of each.

    Raises:
        ValueError: Their plans do not agree in classes, preparation, window or post-processing.
        FileNotFoundError: A file is missing.
    """
    check_alike(runs)
    models = [run.load_model(file) for run, file in zip(runs, weights, strict=True)]
    return models[0] if len(models) == 1 else Ensemble(models)


def check_alike(runs: Sequence[Run[Plan]]) -> None:
    """Refuse runs that cannot answer as one.

    Raises:
        ValueError: The message has the runs and what they disagree in.
    """
    first, *others = runs
    for other in others:
        for key in SHARED:
            one, another = getattr(first.plan, key), getattr(other.plan, key)
            if one != another:
                raise ValueError(
                    f"{first.folder} and {other.folder} cannot answer together: {key} is {one} and {another}"
                )
