"""What Triton makes of our kernels on chips that are not here: registers, spills and shared memory.

Triton launches as ever, but its driver only names the chip, and each launch stops once the machine code is there. So
what is compiled is what runs on the chip: same tiles, same specialisation, same options. Tensors may lie on PyTorch's
`meta` device. A process that imported Triton under `TRITON_INTERPRET=1` cannot compile; start one without it.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver

CHIPS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}


@dataclass(frozen=True)
class Resources:
    """What one launch of a kernel takes."""

    kernel: str
    chip: str
    registers: int  # of one thread
    stack_bytes: int  # of one thread: what does not fit into registers
    shared_bytes: int  # of one program


def compile_launches(launch: Callable[[], object], chip: str) -> list[Resources]:
    """Compile every kernel that `launch()` launches, in order, and run none; the same compiled twice counts once.

    Raises:
        ValueError: Triton was imported under `TRITON_INTERPRET=1`.
    """
    if knobs.runtime.interpret:
        raise ValueError("Triton interprets in this process (TRITON_INTERPRET=1) and cannot compile: unset it")
    with _compiling(CHIPS[chip]) as compiled:
        launch()
    return [_resources(each, chip) for each in {id(each): each for each in compiled}.values()]


class _Driver:
    """As much of a driver as compiling asks for."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_device(self) -> GPUTarget:
        return self.target  # each chip has its own store of compiled kernels

    def get_current_stream(self, device: GPUTarget) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return self.target


@contextmanager
def _compiling(target: GPUTarget) -> Iterator[list[Any]]:
    """Within, launches only compile; gives the list that they come into."""
    compiled: list[Any] = []
    earlier_driver, run = driver._active, JITFunction.run

    def compile_only(self, *arguments, **options) -> Any:
        compiled.append(run(self, *arguments, **{**options, "warmup": True}))
        return compiled[-1]

    driver.set_active(cast(Any, _Driver(target)))
    JITFunction.run = compile_only
    try:
        yield compiled
    finally:
        driver._active, JITFunction.run = earlier_driver, run


def _resources(compiled: Any, chip: str) -> Resources:
    registers, stack = _amd(compiled) if "amdgcn" in compiled.asm else _nvidia(compiled)
    return Resources(compiled.metadata.name, chip, registers, stack, compiled.metadata.shared)


def _nvidia(compiled: Any) -> tuple[int, int]:
    """Registers and stack, as the cubin says."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return _number(r"REG:(\d+)", said), _number(r"STACK:(\d+)", said)


def _amd(compiled: Any) -> tuple[int, int]:
    """Registers and scratch, as the assembly's notes say."""
    said = compiled.asm["amdgcn"]
    return _number(r"\.vgpr_count:\s+(\d+)", said), _number(r"\.private_segment_fixed_size:\s+(\d+)", said)


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"Triton {triton.__version__}: no {pattern} in {text!r}")
    return int(found[1])
