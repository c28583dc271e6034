"""Weights rounded once, in place of at every call."""

import torch
from torch import nn

from .implicit_kernel import ImplicitKernel

MATRICES = (nn.Linear, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def round_weights(module: nn.Module, dtype: torch.dtype) -> None:
    """Keep the weights of linear maps and convolutions in the type that autocast would round them to at every call.

    Under autocast of that type the results are the same, bit for bit, and a call need not read all weights in float32
    again. Norms stay as they are, and so do implicit kernels, which compute in float32 whatever the autocast. For
    inference only: training needs the digits that are lost.

    Args:
        module: Changed in place.
        dtype: bfloat16 or float16.
    """
    if isinstance(module, ImplicitKernel):
        return
    if isinstance(module, MATRICES):
        module.to(dtype)
    for child in module.children():
        round_weights(child, dtype)
