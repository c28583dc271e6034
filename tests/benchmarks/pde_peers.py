"""Surrogates side by side: the same data, the same minutes, each model in a process of its own.

For every set and model: `fredholm pde train`, then `fredholm pde evaluate` on the test part. The minutes are those that
the processor spends on the training in one thread, so that whatever else runs on the machine takes nothing from a
model. They are all that is equal, beside the data, the batch, the learning rate and, nearly, the number of weights.
Peak memory is the training process's own (ru_maxrss), interpreter and libraries included; a model that cannot be
trained has its error in its line. Persistence stands below the models of a set. A dash is a window that the
trajectories are too short for, inf a rollout that does not stay finite.

    python tests/benchmarks/pde_peers.py SET1 SET2 --minutes 15 --models hyena unet cnextunet fno tfno --runs RUNS
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fredholm.apps.cli import main as fredholm
from fredholm.pipelines import training
from fredholm.pipelines.forecast.networks import weights_of
from fredholm.pipelines.forecast.plan import SurrogatePlan

WINDOWS = ("6:12", "13:30")
COLUMNS = ("set", "model", "one step", *WINDOWS, "weights", "seconds a step", "steps", "peak GB")
TRAIN = "train"  # first argument of the process that trains


def main() -> None:
    """Train and score everything, and print the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, help="folders in The Well's format, with stats.yaml")
    parser.add_argument("--models", nargs="+", default=["hyena", "unet", "cnextunet", "fno"])
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--runs", type=Path, required=True, help="folder for the runs; those that are there are kept")
    arguments = parser.parse_args()
    print(f"{' '.join(sys.argv)}\n\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for data in arguments.sets:
        baseline: list[str] = []
        for model in arguments.models:
            run = arguments.runs / f"{data.resolve().name}_{model}"
            try:
                peak = train(run, data, "--minutes", str(arguments.minutes), "--model", model)
                scores = evaluate(run, data)
            except subprocess.CalledProcessError as error:
                show([data.name, model, error.stderr.strip().splitlines()[-1], *[""] * (len(COLUMNS) - 3)])
                continue
            show([data.name, model, *errors(scores["surrogate"]), *size_and_speed(run), peak])
            baseline = errors(scores["persistence"])
        if baseline:
            show([data.name, "persistence", *baseline, *[""] * (len(COLUMNS) - 2 - len(baseline))])


def train(run: Path, data: Path, *options: str) -> str:
    """Train in a process of its own, or go on where that was stopped; peak memory in GB, unless it was done before."""
    if (run / "weights.safetensors").exists():
        return "-"
    command = [sys.executable, __file__, TRAIN, str(data), "-o", str(run), "--validate-every", "0", *options]
    command += ["--resume"] if (run / "state").exists() else []
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, env=one_thread, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        words = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=words)
    return f"{usage.ru_maxrss / 2**20:.2f}"


def train_by_the_processors_clock(arguments: list[str]) -> int:
    """`fredholm pde train`, its minutes counted by the processor."""
    training.time = SimpleNamespace(monotonic=time.process_time)  # pyright: ignore[reportAttributeAccessIssue]
    return fredholm(["pde", "train", *arguments])


def evaluate(run: Path, data: Path) -> dict[str, Any]:
    """The scores of a run on the test part, by predictor."""
    scores = run / f"{data.resolve().name}.json"
    command = ["fredholm", "pde", "evaluate", str(run), str(data), "--json", str(scores)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(scores.read_text())["predictors"]


def errors(scores: dict[str, Any]) -> list[str]:
    """VRMSE one step ahead and in the published windows, as words."""
    return [_word(scores["one_step"]), *(_word(scores["windows"].get(window)) for window in WINDOWS)]


def size_and_speed(run: Path) -> list[str]:
    """Weights, seconds a step and steps, as words."""
    weights = weights_of(SurrogatePlan.read(run / "plan.yaml").build())
    with (run / "log.csv").open(newline="") as file:
        last = list(csv.DictReader(file))[-1]
    steps = int(last["step"]) + 1
    return [f"{weights:,}", f"{float(last['seconds']) / steps:.2f}", str(steps)]


def show(cells: list[str]) -> None:
    """A line of the table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def _word(scored: dict[str, Any] | None) -> str:
    if scored is None:
        return "-"
    mean = scored["vrmse"]["mean"]
    return "inf" if mean is None else f"{mean:.4f}"


if __name__ == "__main__":
    if sys.argv[1:2] == [TRAIN]:
        sys.exit(train_by_the_processors_clock(sys.argv[2:]))
    main()
