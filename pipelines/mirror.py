"""A network that judges a window together with its mirror images.

Each image is judged for itself and its answer is mirrored back; the probabilities of all are averaged, window by
window, as those of several networks are. What follows does not depend on which of the images was given.

Only directions along which training mirrored its patches are of use (`Plan.mirrored`): to any other network a mirrored
body is one that it never saw, with the liver on the left or the head below.
"""

import itertools
from collections.abc import Sequence

from torch import Tensor, nn

from .ensemble import Ensemble
from .plan import DIRECTIONS, Plan


class Reflected(nn.Module):
    """A network that sees the mirror image of what it is given.

    Args:
        model: From `(batch, channels, right, front, head)` to `(batch, classes, right, front, head)`.
        axes: Those of the three axes that are reversed.
    """

    def __init__(self, model: nn.Module, axes: Sequence[int]) -> None:
        super().__init__()
        self.model, self.axes = model, tuple(axis - 3 for axis in axes)

    def forward(self, window: Tensor) -> Tensor:
        """The answer, where it belongs in the window as given."""
        return self.model(window.flip(self.axes)).flip(self.axes)


def mirrored(model: nn.Module, plans: Sequence[Plan]) -> Ensemble:
    """The network with its mirror images along every direction that its plan says it has learned.

    Args:
        model: What answers.
        plans: Its own, or those of all networks in it, for a direction that all have learned.

    Raises:
        ValueError: There is no such direction.
    """
    axes = [axis for axis, name in enumerate(DIRECTIONS) if all(name in plan.mirrored for plan in plans)]
    if not axes:
        raise ValueError(
            "the network has not learned mirrored scans, so its answers on them are of no use: leave --mirror away, "
            "train with `segment train --mirror front`, or state in plan.yaml what it was trained with elsewhere, "
            "such as mirrored: [front]"
        )
    sets = itertools.chain.from_iterable(itertools.combinations(axes, count) for count in range(len(axes) + 1))
    return Ensemble([Reflected(model, one) for one in sets])
