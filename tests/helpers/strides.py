"""Tensors that lie in memory as few do."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils import deterministic


def far_apart(values: Tensor, strides: Sequence[int]) -> Tensor:
    """The values in half precision at these strides; what lies between is not touched and so takes no memory."""
    size = 1 + sum((n - 1) * stride for n, stride in zip(values.shape, strides, strict=True))
    filled, deterministic.fill_uninitialized_memory = deterministic.fill_uninitialized_memory, False
    memory = torch.empty(size, dtype=torch.float16)
    deterministic.fill_uninitialized_memory = filled
    return memory.as_strided(values.shape, strides).copy_(values)
