import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fredholm.apps.segment import train
from fredholm.pipelines.plan import Network
from fredholm.pipelines.run import Run
from helpers.segment import PLAN


@pytest.fixture(autouse=True)
def _short_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "EPOCH", 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with random weights, its head made even so that every class wins somewhere."""
    torch.manual_seed(1)
    model = PLAN.network.build(3).eval()
    with torch.inference_mode():
        mean = model(torch.rand(1, 1, 32, 32, 32) * 2 - 1).mean((0, 2, 3, 4))
        name = next(name for name, weight in model.named_parameters() if name.startswith("head") and weight.ndim == 1)
        model.get_parameter(name).sub_(mean)
    made = Run.create(tmp_path_factory.mktemp("runs") / "run", PLAN)
    made.save_weights(model.state_dict())
    return made.folder


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
