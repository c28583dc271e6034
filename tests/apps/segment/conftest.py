import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fredholm.apps.segment import choices
from fredholm.pipelines.plan import Network
from helpers.segment import even_run


@pytest.fixture(autouse=True)
def _short_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "EPOCH", 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with random weights, its head made even so that every class wins somewhere."""
    return even_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of one layer, where which network it is does not matter."""
    monkeypatch.setattr(Network, "build", lambda _, classes: torch.nn.Conv3d(1, classes, 3, padding=1))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB; mounting one needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
