"""How a network is trained, whatever it learns: the part of a plan that the training loop reads."""

from dataclasses import dataclass
from typing import Literal

from .phases import AnchorPhases


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe:
    """What the loop needs to know.

    Args:
        steps: Optimiser steps in all; the schedule is drawn to end there.
        minutes: Time from which `steps` was worked out, None where steps were given.
        batch: Examples of one step on one device.
        accumulate: Steps of the loop whose gradients make one optimiser step.
        learning_rate: Its highest value, after the warm-up.
        warm_up: Steps over which the learning rate rises.
        weight_decay: AdamW's.
        clip: Largest norm of the gradient.
        ema: Decay of the running mean of the weights; 0 keeps the last weights.
        precision: Of the arithmetic.
        validate_every: Steps between validations, 0 for none but the last.
        save_every: Steps between saved states.
        seed: Of weights, examples and augmentation.
        phases: In which the anchors of universal interpolation learn; None where they learn like any weight.
    """

    steps: int = 25_000
    minutes: float | None = None
    batch: int = 1
    accumulate: int = 1
    learning_rate: float = 4e-4
    warm_up: int = 50
    weight_decay: float = 1e-5
    clip: float = 1.0
    ema: float = 0.0
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    validate_every: int = 0
    save_every: int = 500
    seed: int = 0
    phases: AnchorPhases | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "accumulate"):
            expect_whole(name, getattr(self, name), 1)
        for name in ("warm_up", "validate_every", "save_every", "seed"):
            expect_whole(name, getattr(self, name), 0)
        for name in ("learning_rate", "weight_decay", "clip"):
            expect_amount(self, name)
        expect_share(self, "ema")
        if self.ema == 1:
            raise ValueError("ema is below 1, for at 1 the running mean never moves")
        if self.precision not in ("32-true", "bf16-mixed"):
            raise ValueError(f'precision is "32-true" or "bf16-mixed", not {self.precision!r}')


def expect_numbers(record: object, name: str, value: object, count: int) -> None:
    """Refuse what is not a tuple of so many numbers."""
    numbers = isinstance(value, tuple) and all(isinstance(one, int | float) for one in value)
    if not numbers or len(value) != count:  # pyright: ignore[reportArgumentType]
        raise ValueError(f"{type(record).__name__.lower()}: {name} is {count} numbers, not {value!r}")


def expect_whole(name: str, value: object, least: int) -> None:
    """Refuse what is not a whole number, or too small."""
    if not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is a whole number of {least} or more, not {value!r}")


def expect_amount(record: object, name: str) -> None:
    """Refuse what is not a number of 0 or more."""
    value = getattr(record, name)
    if not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{name} is a number of 0 or more (4.0e-4, not 4e-4, in YAML), not {value!r}")


def expect_share(record: object, name: str) -> None:
    """Refuse what is not a number from 0 to 1."""
    expect_amount(record, name)
    if getattr(record, name) > 1:
        raise ValueError(f"{name} is at most 1, not {getattr(record, name)}")
