"""A surrogate as a task of training: windows of trajectories, one or more steps, VRMSE of held-out trajectories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from ..scores import ScoreTable
from ..well.windows import Window, Windows
from .plan import SurrogatePlan
from .scores import vrmse
from .stepping import Forward, Stepper, Surroundings, slide

TRAJECTORIES, FRAMES = 32, 8  # of the held-out split, evenly spread, that one validation looks at
LEAST_VARIANCE = 1e-6  # of the normalised truth, in the loss: keeps a frame that hardly varies from ruling it


class Example(NamedTuple):
    """A window, and noise for its known frames in units of the change from step to step."""

    window: Window
    noise: Tensor


class Examples(Dataset):
    """`length` windows, every one once before any comes again, each a function of seed and number alone."""

    def __init__(self, windows: Windows, length: int, seed: int, noise: float) -> None:
        self.windows, self.length, self.seed, self.noise = windows, length, seed, noise
        self._order: tuple[int, np.ndarray] | None = None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> Example:
        epoch, place = divmod(number, len(self.windows))
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng((self.seed, epoch)).permutation(len(self.windows))
        window = self.windows[int(self._order[1][place])]
        if not self.noise:
            return Example(window, torch.zeros_like(window.history))
        seed = int(np.random.SeedSequence((self.seed, 1, number)).generate_state(1)[0])
        generator = torch.Generator().manual_seed(seed)
        return Example(window, self.noise * torch.randn(window.history.shape, generator=generator))


@dataclass(frozen=True)
class Forecasting:
    """What a surrogate learns.

    Args:
        plan: The run's.
        training: Windows with as many following frames as are unrolled.
        validation: Windows of held-out trajectories with one following frame; None for none.
    """

    plan: SurrogatePlan
    training: Windows
    validation: Windows | None = None
    steppers: dict[torch.device, Stepper] = field(default_factory=dict, compare=False, repr=False)

    def build(self) -> nn.Module:
        """The network with new weights."""
        return self.plan.build()

    def examples(self, count: int) -> Examples:
        """`count` windows, and their noise."""
        return Examples(self.training, count, self.plan.recipe.seed, self.plan.recipe.noise)

    def loss(self, model: nn.Module, batch: Example) -> Tensor:
        """The mean loss of the steps that are unrolled."""
        window, noise = batch
        stepper = self._stepper(window.history.device)
        history, around = window.history + noise * stepper.std_delta, _around(stepper, window)
        losses = []
        for step in range(self.plan.recipe.unroll):
            said, truth = stepper.predict(model, history, around), window.target[:, step]
            following = stepper.decode(history[:, -1], said)
            if self.plan.recipe.loss == "mse":
                losses.append((said.float() - stepper.encode(history[:, -1], truth)).square().mean())
            else:
                losses.append(
                    _vrmse_loss((following - stepper.mean) / stepper.std, (truth - stepper.mean) / stepper.std)
                )
            history = slide(history, following)
        return torch.stack(losses).mean()

    @property
    def held_out(self) -> list[str]:
        """The trajectories that a validation looks at, by number."""
        return [f"trajectory {number}" for number in self._looked_at]

    def score(self, forward: Forward, case: int) -> dict[int, float]:
        """One-step VRMSE of each channel, counted from 1, in some frames of a held-out trajectory."""
        assert self.validation is not None
        numbers = self.validation.trajectories[self._looked_at[case]]
        return one_step(self.plan, self.validation, _spread(numbers, FRAMES), forward)

    def table(self, rows: Mapping[str, Mapping[int, float]]) -> ScoreTable:
        """VRMSE of all trajectories that were looked at."""
        return ScoreTable(rows, channel_names(self.plan))

    def better(self, score: float, best: float) -> bool:
        """A lower VRMSE is better."""
        return score < best

    @property
    def _looked_at(self) -> Sequence[int]:
        return _spread(range(0 if self.validation is None else len(self.validation.trajectories)), TRAJECTORIES)

    def _stepper(self, device: torch.device) -> Stepper:
        if device not in self.steppers:
            self.steppers[device] = Stepper(self.plan.simulation, self.plan.target, device)
        return self.steppers[device]


def channel_names(plan: SurrogatePlan) -> dict[int, str]:
    """Channels from 1; 0 is what tables of classes call the background."""
    return {0: "", **dict(enumerate(plan.simulation.channels, 1))}


def one_step(plan: SurrogatePlan, windows: Windows, numbers: Sequence[int], forward: Forward) -> dict[int, float]:
    """Mean one-step VRMSE of each channel, counted from 1, over windows of one size."""
    stacked = Window(*(torch.stack(parts) for parts in zip(*(windows[number] for number in numbers), strict=True)))
    stepper = Stepper(plan.simulation, plan.target)
    following = stepper.step(lambda *x: forward(*x).cpu(), stacked.history, _around(stepper, stacked))
    found = vrmse(following, stacked.target[:, 0], stepper.std)
    return dict(enumerate(found.mean(0).tolist(), 1))


def _around(stepper: Stepper, window: Window) -> Surroundings:
    return stepper.surroundings(window.constants, window.scalars, window.time_step)


def _vrmse_loss(prediction: Tensor, truth: Tensor) -> Tensor:
    """The mean over samples and channels, of normalised fields `(batch, *grid, channels)`."""
    space = tuple(range(1, truth.ndim - 1))
    variance = truth.var(space, correction=0) + LEAST_VARIANCE
    return ((prediction - truth).square().mean(space) / variance + 1e-12).sqrt().mean()


def _spread(numbers: Sequence[int], count: int) -> list[int]:
    """At most `count` of the numbers, evenly spread, first and last among them."""
    if len(numbers) <= count:
        return list(numbers)
    return [numbers[round(place)] for place in np.linspace(0, len(numbers) - 1, count)]
