"""MixerStack: the plainest network that a mixer can stand in, for comparing mixers. No patches, no stages.

tokens = blocks( lift(x) );    y = out( norm(tokens) )
"""

from collections.abc import Iterable

from torch import Tensor, nn


class MixerStack(nn.Module):
    """Blocks one after another on the whole grid.

    Args:
        channels_in: Channels of the input.
        channels_out: Channels of the output.
        dim: Channels of the blocks.
        blocks: From `(batch, *grid, dim)` to the same, each.
    """

    def __init__(self, channels_in: int, channels_out: int, dim: int, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.lift = nn.Linear(channels_in, dim)
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, channels_out)

    def forward(self, x: Tensor) -> Tensor:
        """From `(batch, *grid, channels_in)` to `(batch, *grid, channels_out)`."""
        return self.out(self.norm(self.blocks(self.lift(x))))
