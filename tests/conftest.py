"""What every test may lean on: where the real data lies, and repeatable random numbers."""

import atexit
import os
import signal
import tempfile
from pathlib import Path

import hypothesis
import pytest
import torch

# A graph kept on disk from an earlier version of an operator would be run with today's, so each session has its own.
_GRAPHS = tempfile.TemporaryDirectory(prefix="fredholm-graphs-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _GRAPHS.name
atexit.register(_GRAPHS.cleanup)

# Without a GPU Triton's kernels are interpreted, which Triton must know before anything imports it.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# Beside other workers of pytest-xdist each takes its share of the cores, and Ctrl-C is what it is elsewhere.
if "PYTEST_XDIST_WORKER" in os.environ:
    _SHARE = max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    os.environ["OMP_NUM_THREADS"] = str(_SHARE)
    torch.set_num_threads(_SHARE)
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same tree is judged by the same examples each time; `--hypothesis-profile=explore` looks for new ones.
hypothesis.settings.register_profile("explore", derandomize=False)
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")

DEFAULT_DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data; the test is skipped, saying so, where it is absent."""
    folder = Path(os.environ.get("FREDHOLM_TEST_DATA", DEFAULT_DATA)).resolve()
    if not folder.is_dir():
        pytest.skip("no test data: set FREDHOLM_TEST_DATA to the folder that holds medical/, pde/ and points/")
    return folder


@pytest.fixture(scope="session")
def medical(data_folder: Path) -> Path:
    return data_folder / "medical"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
