"""What every test may lean on: where the real data lies, and repeatable random numbers."""

import os
from pathlib import Path

import pytest
import torch

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
