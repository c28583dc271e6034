"""Global self-attention over the positions of a grid, of any number of axes."""

import torch.nn.functional as F
from torch import Tensor, nn


class GlobalAttention(nn.Module):
    """Every position attends to every other, N^2 pairs.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.

    Args:
        dim: Channels in and out.
        heads: Heads; they divide `dim`.
        positions: Tells queries and keys where they stand, `positions(x, grid)`, such as `AxialRotary`; without it the
            order of positions is not seen, only their features.

    Raises:
        ValueError: They do not.
    """

    def __init__(self, dim: int, heads: int, *, positions: nn.Module | None = None) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"{heads} heads do not divide {dim} channels")
        self.heads = heads
        self.project = nn.Linear(dim, 3 * dim)
        self.positions = positions
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """From `(batch, *grid, dim)` to the same."""
        q, k, v = self.project(x.flatten(1, -2)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.positions is not None:
            q, k = (self.positions(one, x.shape[1:-1]) for one in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))
