r"""One step of a surrogate, between fields in their own units.

Channels are normalised, `z = (u - mean) / std`, and the network sees the known frames side by side. It predicts::

    difference:   u' = u + mean_delta + std_delta f(z, ...)
    state:        u' = mean + std f(z, ...)

so that in both cases numbers near one are learned.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .plan import Simulation, Target

Forward = Callable[..., Tensor]


@dataclass(frozen=True)
class Surroundings:
    """What stays as it is while a surrogate runs on, normalised.

    Args:
        constants: `(batch, *grid, constant channels)`.
        scalars: `(batch, varying scalars)`.
    """

    constants: Tensor
    scalars: Tensor


class Stepper:
    """Makes the next frame from the known ones.

    Args:
        simulation: What is simulated.
        target: What the network predicts.
        device: Where the numbers that normalise lie.
    """

    def __init__(self, simulation: Simulation, target: Target, device: torch.device | str = "cpu") -> None:
        def tensor(values: tuple[float, ...]) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=device)

        changing, constant = simulation.statistics, simulation.constant_statistics
        self.target, self.varying = target, list(simulation.varying)
        self.mean, self.std = tensor(changing.mean), tensor(changing.std)
        self.mean_delta, self.std_delta = tensor(changing.mean_delta), tensor(changing.std_delta)
        self.constant_mean, self.constant_std = tensor(constant.mean), tensor(constant.std)
        self.scalar_mean, self.scalar_std = tensor(simulation.scalar_mean), tensor(simulation.scalar_std)

    def surroundings(self, constants: Tensor, scalars: Tensor, time_step: Tensor) -> Surroundings:
        """Normalise constant fields `(batch, *grid, channels)`, parameters `(batch, n)` and time step `(batch,)`."""
        together = (torch.cat((scalars, time_step[:, None]), 1) - self.scalar_mean) / self.scalar_std
        return Surroundings((constants - self.constant_mean) / self.constant_std, together[:, self.varying])

    def predict(self, forward: Forward, history: Tensor, around: Surroundings) -> Tensor:
        """What the network says, normalised, of known frames `(batch, frames, *grid, channels)`."""
        known = ((history - self.mean) / self.std).movedim(1, -2).flatten(-2)
        x = torch.cat((known, around.constants), -1)
        return forward(x, around.scalars) if self.varying else forward(x)

    def encode(self, last: Tensor, following: Tensor) -> Tensor:
        """What the network should have said."""
        if self.target == "difference":
            return (following - last - self.mean_delta) / self.std_delta
        return (following - self.mean) / self.std

    def decode(self, last: Tensor, said: Tensor) -> Tensor:
        """The next frame, from what the network said."""
        if self.target == "difference":
            return last + self.mean_delta + self.std_delta * said.float()
        return self.mean + self.std * said.float()

    def step(self, forward: Forward, history: Tensor, around: Surroundings) -> Tensor:
        """The next frame `(batch, *grid, channels)`."""
        return self.decode(history[:, -1], self.predict(forward, history, around))


def slide(history: Tensor, following: Tensor) -> Tensor:
    """The known frames one step on: the oldest is forgotten."""
    return torch.cat((history[:, 1:], following[:, None]), 1)
