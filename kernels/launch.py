"""How every Triton kernel is launched: on the device of its tensors, with products and sums fused."""

from typing import Any

import torch
from torch import Tensor


def launch(kernel: Any, programs: int, *arguments: object, **options: object) -> None:
    """Run `programs` programs of a kernel.

    Args:
        kernel: What `triton.jit` made.
        programs: How many, along the first axis.
        arguments: In the kernel's order, at least one of them a tensor; ints, floats and None as they are.
        options: The kernel's `constexpr` by name, and `num_warps`, `num_stages`.
    """
    tensor = next(each for each in arguments if isinstance(each, Tensor))
    with torch.cuda.device_of(tensor):  # Triton takes the current device, PyTorch's dispatcher sets none
        kernel[(programs,)](*arguments, enable_fp_fusion=True, **options)
