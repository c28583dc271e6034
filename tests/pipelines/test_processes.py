"""Two processes on a CPU, which talk through gloo, train as one with all their patches."""

import os
import subprocess
import sys
from pathlib import Path

import helpers
import pytest
import torch
from fredholm.pipelines.run import Run
from safetensors.torch import load_file

PROGRAM = Path(helpers.__file__).with_name("processes.py")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """One process with batches of two, and two processes with one patch each; three cases are held out."""
    folder = tmp_path_factory.mktemp("runs")
    for processes, batch in (("1", "2"), ("2", "1")):
        command = [sys.executable, "-W", "ignore", str(PROGRAM), str(folder / processes), processes, batch]
        alone = {name: value for name, value in os.environ.items() if name not in ("LOCAL_RANK", "MASTER_PORT")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=alone)
        assert done.returncode == 0, done.stderr
    return Run.open(folder / "1"), Run.open(folder / "2")


def test_the_weights_are_the_same(runs: tuple[Run, Run]) -> None:
    one, two = (load_file(run.weights_file) for run in runs)
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-4, atol=1e-6)


def test_the_logged_loss_and_dice_are_those_of_all_patches_and_cases_once_each(runs: tuple[Run, Run]) -> None:
    one, two = (run.read_log() for run in runs)
    assert [row["step"] for row in one] == [row["step"] for row in two]
    for alone, together in zip(one, two, strict=True):
        assert together.keys() == alone.keys()
        for name in together.keys() - {"seconds"}:
            assert together[name] == pytest.approx(alone[name], rel=1e-4)
    assert sum("dice" in row for row in two) == 3


def test_the_best_weights_are_kept_beside_the_last(runs: tuple[Run, Run]) -> None:
    for run in runs:
        assert run.best_file.is_file()
        assert load_file(run.best_file).keys() == load_file(run.weights_file).keys()
