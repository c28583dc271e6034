"""Global self-attention over the positions of a grid, of any number of axes."""

import torch.nn.functional as F
from torch import Tensor, nn


class GlobalAttention(nn.Module):
    """Every position attends to every other, N^2 pairs; the order of positions is not seen, only their features.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.

    Args:
        dim: Channels in and out.
        heads: Heads; they divide `dim`.

    Raises:
        ValueError: They do not.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"{heads} heads do not divide {dim} channels")
        self.heads = heads
        self.project = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """From `(batch, *grid, dim)` to the same."""
        q, k, v = self.project(x.flatten(1, -2)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))
