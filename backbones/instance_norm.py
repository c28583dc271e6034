"""Instance norm for channels-last tensors, as MONAI's blocks may ask for it by name.

`torch.nn.InstanceNorm3d` takes a channels-last tensor to channels-first and back, which on a CPU costs several times
the norm itself. One sample's instance norm is a batch norm of that sample alone, and batch norm has a channels-last
path. A grid of a single voxel, where PyTorch refuses, gives zeros: a voxel is its own mean.
"""

import torch
import torch.nn.functional as F
from monai.networks.layers.factories import Norm
from torch import Tensor, nn

NAME = "FREDHOLM_INSTANCE"


class InstanceNorm(nn.Module):
    """Norm of each sample and channel over its grid, `(batch, channels, *grid)`.

    Args:
        num_features: Channels; the name by which MONAI's factory passes them.
        affine: Whether to learn a scale and an offset for each channel.
        eps: Added to the variance.
    """

    def __init__(self, num_features: int, affine: bool = False, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(num_features)) if affine else None
        self.bias = nn.Parameter(torch.zeros(num_features)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        """The normalised tensor, in the memory format of `x`."""
        if x[0, 0].numel() == 1:
            y = x - x
            return y if self.weight is None or self.bias is None else y + self.bias.view(-1, *(1,) * (x.ndim - 2))
        rows = [
            F.batch_norm(row, None, None, self.weight, self.bias, training=True, eps=self.eps) for row in x.split(1)
        ]
        return rows[0] if len(rows) == 1 else torch.cat(rows)


Norm.add_factory_callable(NAME, lambda dim: InstanceNorm)
