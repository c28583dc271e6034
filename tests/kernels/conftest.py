"""The backends that tests of kernels may ask for."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(params=["reference", "cpu", "triton"])
def any_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The test runs once with each backend."""
    with _device(request.param):
        monkeypatch.setenv("FREDHOLM_BACKEND", request.param)
        yield request.param


@pytest.fixture
def in_triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every operator runs in Triton, interpreted where there is no GPU; what it leaves unwritten is NaN."""
    with _device("triton"):
        monkeypatch.setenv("FREDHOLM_BACKEND", "triton")
        torch.use_deterministic_algorithms(True)  # in this mode PyTorch fills `empty` with NaN
        yield
        torch.use_deterministic_algorithms(False)


def _device(backend: str) -> torch.device:
    """Where new tensors of the test lie, as a context."""
    return torch.device("cuda" if backend == "triton" and torch.cuda.is_available() else "cpu")
