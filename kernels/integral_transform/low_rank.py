"""kappa as a sum of products, which costs targets + sources and not their product."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .kappa import take


@dataclass(frozen=True)
class LowRankKappa:
    """kappa(x, y) = sum over r of phi_r(x) psi_r(y), numbers, or columns times rows that make matrices.

    Args:
        phi: `(batch, targets, rank)`, or `(batch, targets, rank, out)` columns.
        psi: `(batch, sources, rank)`, or `(batch, sources, rank, in)` rows.

    Raises:
        ValueError: Shapes do not fit.
    """

    phi: Tensor
    psi: Tensor

    def __post_init__(self) -> None:
        phi, psi = self.phi.shape, self.psi.shape
        if len(phi) not in (3, 4) or len(psi) != len(phi) or (phi[0], phi[2]) != (psi[0], psi[2]):
            raise ValueError(
                f"phi and psi must both be (batch, points, rank) or both (batch, points, rank, channels), "
                f"got {tuple(phi)} and {tuple(psi)}"
            )

    @property
    def pairs(self) -> tuple[int, int, int]:
        """How many clouds, targets and sources."""
        return self.phi.shape[0], self.phi.shape[1], self.psi.shape[1]

    def integrate(self, u: Tensor, measure: Tensor, index: Tensor | None) -> Tensor:
        """As `Kappa`, but for an index, which would cost more than all sources do."""
        if index is not None:
            raise TypeError("low rank integrates over all sources or one selection for all targets, not one for each")
        if self.psi.ndim == 4 and self.psi.shape[3] != u.shape[2]:
            raise ValueError(f"u has {u.shape[2]} channels, psi {self.psi.shape[3]}")
        with torch.autocast(u.device.type, enabled=False):
            real = torch.float64 if u.dtype == torch.float64 else torch.float32
            phi, psi, values = (each.to(real) for each in (self.phi, self.psi, u))
            values = values * measure.to(real)[..., None]
            if phi.ndim == 3:
                y = phi @ (psi.mT @ values)
            else:
                y = torch.einsum("bxri,br->bxi", phi, torch.einsum("byrj,byj->br", psi, values))
            return y.to(u.dtype)

    def select(self, index: Tensor) -> "LowRankKappa":
        """As `Kappa`."""
        return LowRankKappa(self.phi, take(self.psi, index))
