"""The tensors that the perceptron's operator works on, in the order in which it takes them."""

from typing import NamedTuple

from torch import Tensor


class Parts(NamedTuple):
    """The tensors of an `MLPKappa`, then u and its measure; a term that is absent has no features or no axes."""

    left: Tensor  # (batch, targets, width)
    right: Tensor  # (batch, sources, width)
    factors_x: Tensor  # (batch, targets, rank, features)
    factors_y: Tensor  # (batch, sources, features)
    factor_weight: Tensor  # (rank, width, features)
    points_x: Tensor  # (batch, targets, axes)
    points_y: Tensor  # (batch, sources, axes)
    distance_weight: Tensor  # (width,)
    weight: Tensor  # (out, in, width + 1) or (channels, width + 1); the last column is the bias
    u: Tensor  # (batch, sources, in)
    measure: Tensor  # (batch, sources), or with an index (batch, targets, selected)

    def of_sample(self, sample: int) -> "Parts":
        """The same without its batch axis."""
        shared = ("factor_weight", "distance_weight", "weight")
        return Parts(*(part if name in shared else part[sample] for name, part in self._asdict().items()))
