"""Fourier neural operators of the package neuraloperator, full and with Tucker-factorised weights.

The package's own forward pass is used, which runs its spectral blocks; the wrapper in `the_well` 1.2 calls them and
drops what they return. Fourier transforms know no bfloat16, so under autocast these networks stay in float32.

Source: Li et al. 2021, arXiv:2010.08895; Kossaifi et al. 2023, arXiv:2310.00120. Extra `peers`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class FourierOperator(nn.Module):
    """From `(batch, *grid, channels_in)` to `(batch, *grid, channels_out)`, on any grid.

    Args:
        channels_in: Fields of all known frames, and whatever else is known at each sample.
        channels_out: Fields of the next frame.
        modes: Waves along each axis that the spectral weights act on.
        dim: Channels of the blocks.
        depth: Blocks.
        tucker: Share of the full weights that a Tucker factorisation keeps; None keeps them all.

    Raises:
        ValueError: The package is not installed.
    """

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        modes: Sequence[int],
        *,
        dim: int = 64,
        depth: int = 4,
        tucker: float | None = None,
    ) -> None:
        super().__init__()
        try:
            from neuralop.models import FNO  # a heavy package that only this network needs
        except ModuleNotFoundError:
            raise ValueError("Fourier operators need neuraloperator: pip install 'fredholm[peers]'") from None
        weights = {} if tucker is None else {"factorization": "Tucker", "rank": tucker}
        self.network = FNO(
            n_modes=tuple(modes),
            in_channels=channels_in,
            out_channels=channels_out,
            hidden_channels=dim,
            n_layers=depth,
            **weights,
        )

        self.register_state_dict_post_hook(_drop_metadata)

    def forward(self, x: Tensor) -> Tensor:
        """The output for fields `(batch, *grid, channels_in)`."""
        with torch.autocast(x.device.type, enabled=False):
            return self.network(x.float().movedim(-1, 1)).movedim(1, -1)


def _drop_metadata(module: nn.Module, state: dict[str, object], prefix: str, local: object) -> None:
    """Weights alone are weights; the package puts its options among them."""
    state.pop("_metadata", None)
