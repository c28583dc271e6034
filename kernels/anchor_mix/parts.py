"""The tensors that the operator works on, in the order in which it takes them."""

from typing import NamedTuple

from torch import Tensor


class Parts(NamedTuple):
    """What is mixed, the anchors, and the projection if there is one."""

    x: Tensor  # (..., channels)
    branch: Tensor  # (..., width)
    anchors: Tensor  # (anchors, channels)
    measure: Tensor  # (anchors,)
    masses: Tensor  # (anchors,)
    alpha: Tensor  # ()
    weight: Tensor | None = None  # (anchors, width)
    bias: Tensor | None = None  # (anchors,)

    def given(self) -> list[Tensor]:
        """Those that are there."""
        return [part for part in self if part is not None]
