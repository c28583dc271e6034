"""How much memory a network takes, told before it takes it.

Nothing is fitted: the network itself runs on tensors that have a shape and no content, every tensor that an operator
gives is counted while it lives, and the largest sum is the answer. What an operator uses inside and gives back before
it ends is not seen, nor are the gaps between the pieces that an allocator hands out.
"""

import copy
import re
import resource
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ANSWERS = {  # to questions about contents, which there are not
    torch.ops.aten._local_scalar_dense.default: 1,
    torch.ops.aten.equal.default: True,
}


def counted_peak(model: nn.Module, work: Callable[[nn.Module], object]) -> int:
    """Bytes that are alive at once, at most, beside the network's own weights.

    Args:
        model: Left as it is; a copy without content does the work.
        work: What is done with the network; tensors that it makes have no content and are counted.
    """
    mode, count = FakeTensorMode(allow_non_fake_inputs=True), _Count()
    with FakeCopyMode(mode):
        hollow = copy.deepcopy(model)
    with mode, count:
        work(hollow)
    return count.peak


class _Count(TorchDispatchMode):
    """Adds up the storages that operators make, each until it dies."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do as told, and count what comes out."""
        if func in ANSWERS:
            return ANSWERS[func]
        given = {one.untyped_storage()._cdata for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)}
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, Tensor) and one.untyped_storage()._cdata not in given:
                self._born(one.untyped_storage())
        return result

    def _born(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._died, key, size)

    def _died(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def resident_bytes() -> int:
    """Memory that this process has now; where the system does not say, the most that it ever had."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return peak_resident_bytes()


def peak_resident_bytes() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def available_bytes() -> int | None:
    """Memory that this process may still take, None where the system does not say."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return None
    values = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in meminfo.read_text().splitlines()}
    free = values["MemAvailable"] + values["SwapFree"]
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if limit.exists() and (words := limit.read_text().strip()).isdecimal():
        free = min(free, int(words) - int(used.read_text()))
    return free


def gigabytes(size: float) -> str:
    """So many bytes in words, GB of 10^9."""
    return f"{size / 1e9:.2g} GB" if size < 1e10 else f"{size / 1e9:.0f} GB"


def parsed_bytes(words: str) -> int:
    """Bytes from words such as 8GB, 7.5 GB or 800MB, of 10^9 and 10^6.

    Raises:
        ValueError: They say no size.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([MGT])B?\s*", words, re.IGNORECASE)
    if found is None or not float(found[1]):
        raise ValueError(f"expected an amount of memory such as 8GB, not {words!r}")
    return round(float(found[1]) * {"M": 1e6, "G": 1e9, "T": 1e12}[found[2].upper()])
