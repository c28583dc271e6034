"""Anchors that learn in phases: held at zero while all else learns, then growing slowly, then like any weight.

Source: "Universal interpolation for deep residual self-attention networks", on learning the anchors in phases.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

from ..backbones import Anchors


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What holds for one step.

    Args:
        learns: Whether the anchors learn.
        l2: Weight of the sum of the anchors' squares in the loss.
        alpha_rate: Learning rate of beta and gamma, as a share of that of other weights.
    """

    learns: bool = True
    l2: float = 0.0
    alpha_rate: float = 1.0

    def shape_gradients(self, anchors: Iterable[nn.Parameter]) -> None:
        """Give the anchors the gradients of this phase; without one the optimiser passes them by."""
        for weight in anchors:
            if not self.learns:
                weight.grad = None
            elif self.l2 and weight.grad is not None:
                weight.grad.add_(weight.detach(), alpha=2 * self.l2)


JOINT = Phase()


@dataclass(frozen=True, kw_only=True)
class AnchorPhases:
    """Warm-up, activation and joint learning, each a range of steps.

    The phase is a function of the step alone. A state has the step, and with it the phase to go on in.

    Args:
        activation: The first step at which anchors learn; before, they are zero.
        joint: The first step at which they learn like any weight.
        l2: Weight of the sum of the anchors' squares in the loss, during activation.
        alpha_rate: Learning rate of beta and gamma during activation, as a share of that of other weights.

    Raises:
        ValueError: The steps are not in order, or a number is negative.
    """

    activation: int
    joint: int
    l2: float = 1e-3
    alpha_rate: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.activation <= self.joint:
            raise ValueError(f"phases start at steps in order from 0, not at {self.activation} and {self.joint}")
        if self.l2 < 0 or self.alpha_rate < 0:
            raise ValueError(f"l2 and alpha_rate are 0 or more, not {self.l2} and {self.alpha_rate}")

    def start(self, model: nn.Module) -> None:
        """Put the anchors of a new network where the warm-up holds them."""
        for weight in anchors_of(model):
            nn.init.zeros_(weight)

    def at(self, step: int) -> Phase:
        """The phase of a step, counted from 0."""
        if step < self.activation:
            return Phase(learns=False)
        return Phase(l2=self.l2, alpha_rate=self.alpha_rate) if step < self.joint else JOINT


def anchors_of(model: nn.Module) -> list[nn.Parameter]:
    """The learned anchors of a network."""
    return [module.learned for module in model.modules() if isinstance(module, Anchors)]
