"""How the host hands out memory for large tensors.

By default the C library gives each large tensor fresh pages from the system and gives them back when it dies. On a CPU
the zeroing of those pages then costs more than the arithmetic of most element-wise steps: an instance norm of a
96^3 x 48 bfloat16 tensor takes 32 ms on two cores, 7 of them its own.
"""

import ctypes
import sys

_MMAP_MAX, _TRIM_THRESHOLD = -4, -1  # names of glibc's malloc.h


def reuse_host_memory() -> bool:
    """Keep freed memory for the next tensor, for the rest of the process; its size stays at its highest so far.

    Returns:
        Whether the C library could be told; only glibc can.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))
