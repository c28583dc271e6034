"""How every Triton kernel is launched: on the device of its tensors, with products and sums fused."""

from typing import Any, cast

import torch
from torch import Tensor
from triton import knobs
from triton.runtime import driver


def launch(kernel: Any, programs: int, *arguments: object, **options: object) -> None:
    """Run `programs` programs of a kernel.

    Args:
        kernel: What `triton.jit` made.
        programs: How many, along the first axis.
        arguments: In the kernel's order, at least one of them a tensor; ints, floats, None and tuples of such.
        options: The kernel's `constexpr` by name, and `num_warps`, `num_stages`.
    """
    each_alone = (one for each in arguments for one in (each if isinstance(each, tuple) else (each,)))
    tensor = next(one for one in each_alone if isinstance(one, Tensor))
    with torch.cuda.device_of(tensor):  # Triton takes the current device, PyTorch's dispatcher sets none
        kernel[(programs,)](*arguments, enable_fp_fusion=True, **options)


def products(dtype: torch.dtype) -> str:
    """The `input_precision` of `tl.dot` whose error is below the rounding of results in `dtype`.

    Tensor cores round float32 to tf32, which is enough for results in half precision; three such products make up for
    it. AMD's multiply float32 as it is.
    """
    if vendor() != "cuda":
        return "ieee"
    return "tf32x3" if dtype == torch.float32 else "tf32"


def vendor() -> str:
    """Whose chip the kernels run on: `"cuda"`, `"hip"`, or `"none"` for Triton's interpreter."""
    return "none" if knobs.runtime.interpret else cast(Any, driver.active).get_current_target().backend
