"""How long a step takes and how much memory, on a GPU by its own clock."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from statistics import median

import torch

WARM = 3  # runs before the first that counts: compilers, caches, memory
COPIED = {"cuda": 1 << 28, "cpu": 1 << 26}  # bytes, many times what caches hold


@dataclass(frozen=True)
class Measured:
    """What a step took."""

    ms: float  # the median
    peak_bytes: float | None  # above what was there before; None on a CPU, which does not tell


def measure(runs: Sequence[Callable[[], object]], device: torch.device, repeats: int) -> Measured:
    """Time a step; the runs, each with its own inputs, take turns, so that no cache holds the next ones already."""
    for run in islice(cycle(runs), WARM):
        run()
    clock = _gpu_ms if device.type == "cuda" else _cpu_ms
    peak = _peak_bytes(runs[0], device)
    return Measured(median(clock(run) for run in islice(cycle(runs), repeats)), peak)


def copy_bandwidth(device: torch.device, repeats: int) -> float:
    """Bytes in a second that a copy reads and writes."""
    size = COPIED[device.type]
    pairs = [(torch.ones(size // 4, device=device), torch.empty(size // 4, device=device)) for _ in range(2)]
    found = measure([partial(target.copy_, source) for source, target in pairs], device, repeats)
    return 2 * size / (found.ms / 1000)


def _gpu_ms(run: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def _cpu_ms(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - begin)


def _peak_bytes(run: Callable[[], object], device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    torch.cuda.synchronize(device)
    return float(torch.cuda.max_memory_allocated(device) - before)
