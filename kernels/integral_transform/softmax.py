"""kappa as a softmax over the sources: scaled dot-product attention, with a measure."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .kappa import take

ABSENT = -1e30  # logarithm of a measure of 0, finite so that its gradient is


@dataclass(frozen=True)
class SoftmaxKappa:
    """kappa(x, y) = exp(s(x, y)) / integral of exp(s(x, y')) dmu(y'), with s = query(x) . key(y) / sqrt(length).

    A number for each pair; heads are clouds of the batch, and the value's matrix belongs to u. It integrates to 1 over
    the measure, whatever its sum, so that over a sample it is consistent but not unbiased.

    Args:
        query: `(batch, targets, length)`.
        key: `(batch, sources, length)`.

    Raises:
        ValueError: Shapes do not fit.
    """

    query: Tensor
    key: Tensor

    def __post_init__(self) -> None:
        query, key = self.query.shape, self.key.shape
        if len(query) != 3 or len(key) != 3 or query[::2] != key[::2]:
            raise ValueError(f"query and key must be (batch, points, length), got {tuple(query)} and {tuple(key)}")

    @property
    def pairs(self) -> tuple[int, int, int]:
        """How many clouds, targets and sources."""
        return self.query.shape[0], self.query.shape[1], self.key.shape[1]

    def integrate(self, u: Tensor, measure: Tensor, index: Tensor | None) -> Tensor:
        """As `Kappa`, but for an index; the measure must not be negative."""
        if index is not None:
            raise TypeError("a softmax integrates over all sources or one selection for all targets, not one for each")
        with torch.autocast(u.device.type, enabled=False):
            return _attend(self.query, self.key, u, measure)

    def select(self, index: Tensor) -> "SoftmaxKappa":
        """As `Kappa`."""
        return SoftmaxKappa(self.query, take(self.key, index))


def _attend(query: Tensor, key: Tensor, u: Tensor, measure: Tensor) -> Tensor:
    """The measure's logarithm is one more channel of the keys, since a mask with a gradient would be held whole."""
    real = torch.float64 if u.dtype == torch.float64 else torch.float32
    root = math.sqrt(query.shape[-1])
    present = measure > 0
    logarithm = measure.to(real).where(present, 1).log().where(present, ABSENT)
    query = F.pad(query.to(real), (0, 1), value=root)
    key = torch.cat([key.to(real), logarithm[..., None]], -1)
    length = max(query.shape[-1], u.shape[-1])  # one length for all three keeps PyTorch on its streaming path
    query, key, value = (F.pad(each, (0, length - each.shape[-1]))[:, None] for each in (query, key, u.to(real)))
    y = F.scaled_dot_product_attention(query, key, value, scale=1 / root)
    return y[:, 0, :, : u.shape[-1]].to(u.dtype)
