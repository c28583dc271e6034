"""Every Triton kernel compiles for chips that are not here, and fits them: no spills, little shared memory.

pytest's own process interprets Triton where there is no GPU, and such a process cannot compile: another one does.
"""

import json
import os
import subprocess
import sys

import pytest
from fredholm.kernels.launches import LAUNCHES, STAGES

# Shared memory of one program in bytes: consumer cards of compute capability 8.6 and 8.9, H100, B200, MI300.
SHARED_LIMIT = {"sm_80": 99 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10, "gfx942": 64 << 10}
# Bytes of a thread's stack. Three tf32 products in place of one take more registers than there are.
STACK_LIMIT = {"float32": 128, "bfloat16": 0}

COMPILE = """
import dataclasses, json, sys, torch
from fredholm.kernels.ahead_of_time import compile_launches
from fredholm.kernels.launches import LAUNCHES, STAGES
rooms, stages, chips, dtypes = json.loads(sys.argv[1])
print(json.dumps([
    {"dtype": dtype, **dataclasses.asdict(each)}
    for room in rooms for stage in stages for chip in chips for dtype in dtypes
    for each in compile_launches(lambda: LAUNCHES[room](STAGES[stage], getattr(torch, dtype)), chip)
]))
"""


def python(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Run a program in a process that does not interpret Triton."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | environment
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=550)


def assert_fits(rooms, stages, chips=tuple(SHARED_LIMIT), dtypes=tuple(STACK_LIMIT)) -> None:
    """Every kernel is within the limits of each chip."""
    done = python(COMPILE, json.dumps([list(each) for each in (rooms, stages, chips, dtypes)]))
    assert done.returncode == 0, done.stderr
    compiled = json.loads(done.stdout)
    assert {each["chip"] for each in compiled} == set(chips)
    for each in compiled:
        assert 0 < each["registers"] <= (512 if each["chip"] == "gfx942" else 255), each
        assert each["stack_bytes"] <= STACK_LIMIT[each["dtype"]], each
        assert each["shared_bytes"] < SHARED_LIMIT[each["chip"]], each


@pytest.mark.parametrize("room", LAUNCHES)
def test_fits_where_most_is_computed(room) -> None:
    assert_fits([room], [0], chips=("sm_80", "sm_90"), dtypes=("float32",))


@pytest.mark.slow
@pytest.mark.parametrize("room", LAUNCHES)
def test_fits_every_chip_in_either_precision(room) -> None:
    """Finest and coarsest stage, and the surrogate; `tests/benchmarks/triton_resources.py` has all, in minutes."""
    assert_fits([room], [0, 3, len(STAGES) - 1])


def test_a_kernel_that_spills_is_seen(tmp_path) -> None:
    program = """
import torch, triton, triton.language as tl
from fredholm.kernels.ahead_of_time import compile_launches
from fredholm.kernels.launch import launch

@triton.jit
def greedy(x_ptr, N: tl.constexpr):
    row = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + row)
    tl.store(x_ptr + row, x * tl.sum(x))  # the sum holds every number back

x = torch.empty(128, 128, device="meta")
print(*(each.stack_bytes for each in compile_launches(lambda: launch(greedy, 1, x, N=128, num_warps=1), "sm_90")))
"""
    file = tmp_path / "greedy.py"  # Triton reads a kernel's source from its file
    file.write_text(program)
    done = python(f"import runpy; runpy.run_path({str(file)!r})")
    assert int(done.stdout) > 128, done.stderr


def test_a_process_that_interprets_says_that_it_cannot_compile() -> None:
    program = "from fredholm.kernels.ahead_of_time import compile_launches; compile_launches(print, 'sm_90')"
    done = python(program, TRITON_INTERPRET="1")
    assert "ValueError: Triton interprets in this process (TRITON_INTERPRET=1) and cannot compile" in done.stderr
