"""`fredholm bench kernels`: the operators on this machine, checked, then timed."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import torch

from ...kernels.backend import backend
from ...pipelines.devices import pick_device
from ...pipelines.files import write_text
from ..console import bar, result, table
from .comparison import Row, compare
from .operations import OPERATIONS, Size
from .timing import copy_bandwidth

Name = Literal["fftconv", "gate", "implicit_kernel", "anchor_mix", "integral_transform"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
COLUMNS = ("operator", "step", "by", "ms", "times ours", "share of floor", "peak MB", "error")


@dataclass
class BenchKernels:
    """Hold every operator to its exact result, then time it beside the unfused path and what else is installed.

    Times are medians, on a GPU by its own clock, with inputs that take turns. The floor is the time that a copy would
    take to move each input and each result once; its share is floor / time. Peak memory is told on GPUs only.

    Example: fredholm bench kernels --ops fftconv gate --channels 48 --side 48 --dtype bfloat16
    """

    ops: list[Name] = field(default_factory=lambda: list(OPERATIONS))  # pyright: ignore[reportAssignmentType]
    """Which operators."""

    batch: int = 1
    """Samples."""

    channels: int = 48
    """Channels; integral_transform takes 16 at most."""

    side: int = 48
    """Voxels along each side of the cube; integral_transform takes four points for each."""

    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type of all inputs."""

    repeats: int = 20
    """Runs of each step, of which the median counts."""

    device: str = "auto"
    """auto, cpu, cuda or cuda:0."""

    json: Path | None = None
    """Also write the rows to this file."""

    def run(self) -> None:
        """Check, time, print."""
        if min(self.batch, self.channels, self.side, self.repeats) < 1:
            raise ValueError("--batch, --channels, --side and --repeats must be 1 or more")
        device = pick_device(self.device)
        bandwidth = copy_bandwidth(device, self.repeats)
        rows = list(self._rows(device, bandwidth))
        machine = {
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "backend": backend(torch.empty(0, device=device)),
            "copy_gb_per_s": bandwidth / 1e9,
        }
        shape = {name: getattr(self, name) for name in ("batch", "channels", "side", "dtype", "repeats")}
        result("\n".join(f"{name}: {value}" for name, value in (machine | shape).items()))
        result(table(COLUMNS, [row.cells() for row in rows]))
        if self.json is not None:
            found = {**machine, **shape, "rows": [asdict(row) for row in rows]}
            write_text(self.json, json.dumps(found, indent=2) + "\n")

    def _rows(self, device: torch.device, bandwidth: float) -> Iterator[Row]:
        size = Size(self.batch, self.channels, self.side)
        with bar("measuring", len(self.ops)) as progress:
            for name in self.ops:
                yield from compare(name, size, DTYPES[self.dtype], device, bandwidth, self.repeats)
                progress.tick(name)
