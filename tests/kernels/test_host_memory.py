"""`reuse_host_memory` changes a whole process for good, so each test has one of its own."""

import subprocess
import sys

import pytest

PRELUDE = """
import torch
from fredholm.kernels import reuse_host_memory
answer = reuse_host_memory()
assert isinstance(answer, bool), answer
"""


def run(program: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", PRELUDE + program], capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_tensors_still_work() -> None:
    run("""
for side in (1, 100, 1000, 3000):
    x = torch.full((side, side), 2.0)
    assert (x @ x).eq(4 * side).all()
    assert torch.zeros(side, side).count_nonzero() == 0  # memory that comes again is cleared for those who ask
    del x
""")


def test_may_be_called_again() -> None:
    run("assert reuse_host_memory() is answer")


def test_freed_memory_is_taken_again() -> None:
    """A hundred tensors, one after the other, need no more memory than the first few."""
    run("""
import resource
def highest():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes
for _ in range(40):
    torch.ones(4, 1024, 1024)
before = highest()
for _ in range(100):
    torch.ones(4, 1024, 1024)
assert not answer or highest() - before < 40_000, (before, highest())
""")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has glibc's mallopt")
def test_glibc_can_be_told() -> None:
    import platform

    if platform.libc_ver()[0] != "glibc":
        pytest.skip("another C library")
    assert run("print(answer)").strip() == "True"


def test_elsewhere_it_says_no_and_does_nothing() -> None:
    run("""
import sys
from unittest import mock
with mock.patch.object(sys, "platform", "win32"), mock.patch("ctypes.CDLL", side_effect=AssertionError):
    assert reuse_host_memory() is False
""")


def test_a_library_without_mallopt_is_no_fault() -> None:
    run("""
from unittest import mock
with mock.patch("ctypes.CDLL", return_value=object()):
    assert reuse_host_memory() is False
""")
