"""Peak memory of `fredholm segment train` against what `segment plan` says of it, at several windows and networks.

Scans of noise are written to a temporary folder. `segment plan` tells what training will take; `segment train --plan`
then trains for five steps in a process of its own, and the system tells its peak (ru_maxrss), interpreter and
libraries included. "counted" is what the choice of window and network goes by: weights, gradients, optimiser and the
step's tensors, without libraries, data and the gaps between pieces of memory.

    python tests/benchmarks/train_memory.py
    python tests/benchmarks/train_memory.py --only "64 x 1, HHAA 24"
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from fredholm.pipelines.budget import counted_step
from fredholm.pipelines.nifti import write_labels, write_volume
from fredholm.pipelines.plan import Plan
from fredholm.pipelines.volume import Volume

UNITS = {"MB": 1e-3, "GB": 1.0}
SIDE, CASES, CLASSES, STEPS = 128, 3, 9, 5
SETTINGS = [  # window, batch, stages, feature size, precision, more
    (32, 1, "HHAA", 12, "32-true", ()),
    (64, 1, "HHAA", 24, "32-true", ()),
    (64, 2, "HHAA", 24, "32-true", ()),
    (64, 1, "AAAA", 24, "32-true", ("--ema", "0.99")),
    (64, 1, "HHHH", 48, "32-true", ("--deep-supervision", "3")),
    (96, 1, "HHAA", 24, "32-true", ("--registers", "4")),
    (64, 1, "HHAA", 24, "bf16-mixed", ()),
    (96, 1, "HHAA", 48, "32-true", ()),
]


def main() -> None:
    """Measure every setting and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="settings whose line begins so")
    only = parser.parse_args().only
    print(f"# {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}; {' '.join(sys.argv)}")
    print(f"{'window, network':36}{'counted GB':>11}{'told GB':>9}{'peak GB':>9}{'told / peak':>13}")
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder) / "data")
        for number, setting in enumerate(SETTINGS):
            window, batch, stages, features, precision, more = setting
            title = f"{window} x {batch}, {stages} {features}, {precision} {' '.join(more)}"
            if title.startswith(only):
                counted, told, peak = measure(Path(folder), number)
                print(f"{title:36}{counted:11.2f}{told:9.2f}{peak:9.2f}{told / peak:13.2f}", flush=True)


def measure(folder: Path, number: int) -> tuple[float, float, float]:
    """Counted, told and measured GB of a setting."""
    window, batch, stages, features, precision, more = SETTINGS[number]
    plan = folder / f"{number}.yaml"
    options = ["--window", *[window] * 3, "--batch", batch, "--stages", stages, "--feature-size", features]
    told, _ = run("plan", folder / "data", "-o", plan, *options, "--precision", precision, *more)
    made = Plan.read(plan)
    assert made.recipe is not None
    replace(made, recipe=replace(made.recipe, steps=STEPS)).write(plan)
    _, peak = run("train", folder / "data", "-o", folder / f"run{number}", "--plan", plan)
    found = re.search(r"([\d.]+) ([MG]B) of", told)
    assert found is not None
    return counted_step(made) / 1e9, float(found[1]) * UNITS[found[2]], peak


def run(*words: object) -> tuple[str, float]:
    """What a command of `fredholm segment` says, and its peak memory in GB."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        command = [sys.executable, "-m", "fredholm.apps.cli", "segment", *map(str, words)]
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        out.seek(0)
        err.seek(0)
        if status:
            sys.exit(err.read())
        return out.read(), usage.ru_maxrss * 1024 / 1e9


def write_data(folder: Path) -> None:
    """Scans of noise with blocks of every class."""
    rng = np.random.default_rng(0)
    for number in range(CASES):
        array = rng.integers(-1000, 1000, (SIDE,) * 3, dtype=np.int16)
        labels = rng.integers(0, CLASSES, (SIDE // 8,) * 3, dtype=np.uint8).repeat(8, 0).repeat(8, 1).repeat(8, 2)
        for kind in ("images", "labels"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
        volume = Volume(array, np.eye(4))
        write_volume(folder / f"images/{number}.nii.gz", volume)
        write_labels(folder / f"labels/{number}.nii.gz", labels, like=volume)


if __name__ == "__main__":
    main()
