"""Peak memory of `fredholm segment predict` against what it says beforehand, for a scan with many classes.

A run with random weights and a scan of noise are written to a temporary folder; the command labels the scan in a
process of its own, as users run it, and the system tells its peak (ru_maxrss), interpreter and libraries included.
Weights and contents do not change how much memory is used. The spacing is the scan's own, so that nothing is made
smaller; windows do not overlap unless asked for, which changes the time and not the memory.

    python tests/benchmarks/predict_memory.py
    python tests/benchmarks/predict_memory.py --shape 256 256 200 --classes 9 --spacing 1.5 --overlap 0.5
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from fredholm.pipelines.nifti import write_volume
from fredholm.pipelines.plan import Network, Plan, Preparation
from fredholm.pipelines.run import Run
from fredholm.pipelines.volume import Volume


def main() -> None:
    """Measure and print one line."""
    arguments = parse()
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder) / "run", arguments)
        write_scan(Path(folder) / "ct.nii.gz", arguments.shape)
        seconds, peak, told = predict(Path(folder), arguments)
    print(f"# {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}; {' '.join(sys.argv)}")
    print(f"{'voxels':>14}{'classes':>9}{'window':>8}{'told GB':>9}{'peak GB':>9}{'seconds':>9}")
    voxels = "x".join(map(str, arguments.shape))
    print(f"{voxels:>14}{arguments.classes:9}{arguments.window:8}{told:9.2f}{peak:9.2f}{seconds:9.1f}")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=int, nargs=3, default=(512, 512, 400))
    parser.add_argument("--classes", type=int, default=118)
    parser.add_argument("--feature-size", type=int, default=24)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--overlap", type=float, default=0.0)
    parser.add_argument("--spacing", type=float, default=1.0, help="of the network, mm; that of the scan is 1")
    return parser.parse_args()


def write_run(folder: Path, arguments: argparse.Namespace) -> None:
    """A run with random weights."""
    torch.manual_seed(0)
    plan = Plan(
        names={0: "background", **{index: f"class {index}" for index in range(1, arguments.classes)}},
        preparation=Preparation(spacing_mm=(arguments.spacing,) * 3, window_hu=(-200.0, 300.0)),
        network=Network(feature_size=arguments.feature_size),
        window=(arguments.window,) * 3,
    )
    Run.create(folder, plan).save_weights(plan.network.build(arguments.classes).state_dict())


def write_scan(path: Path, shape: tuple[int, int, int]) -> None:
    """Noise in Hounsfield units, its axes as most scanners have them."""
    rng = np.random.default_rng(0)
    array = rng.integers(-1000, 1000, shape, dtype=np.int16)
    write_volume(path, Volume(array, np.diag((-1.0, -1.0, 1.0, 1.0))))


def predict(folder: Path, arguments: argparse.Namespace) -> tuple[float, float, float]:
    """Seconds, peak memory and what the command said of it, both in GB."""
    command = [sys.executable, "-m", "fredholm.apps.cli", "segment", "predict", "-i", folder / "ct.nii.gz"]
    command += ["-o", folder / "labels.nii.gz", "--run", folder / "run", "--overlap", arguments.overlap]
    with (folder / "log").open("w+") as log:
        start = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        log.seek(0)
        words = log.read()
    found = re.search(r"peak memory about ([\d.]+) GB", words)
    if status or found is None:
        sys.exit(words)
    return seconds, usage.ru_maxrss * 1024 / 1e9, float(found[1])


if __name__ == "__main__":
    main()
