"""Train at 64, run at 128: what becomes of VRMSE when a surrogate meets a grid that it was not trained on.

Gray-Scott in two dimensions, at the same distance of samples: 128 samples along an axis are a box twice as wide, so the
physics in reach of a kernel is the same, and so is what a surrogate that learned physics should score.

    python tests/benchmarks/pde_resolution.py WORK --minutes 5
"""

import argparse
import subprocess
from pathlib import Path

from pde_peers import COLUMNS, errors, evaluate, show, train

GRIDS = (64, 128)


def main() -> None:
    """Make both sets, train on the first, and score on both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for data and run; what is there is kept")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--trajectories", type=int, default=5, help="of each of the six regimes")
    parser.add_argument("--frames", type=int, default=41)
    arguments = parser.parse_args()
    sets = {grid: arguments.work / f"gray_scott_{grid}" for grid in GRIDS}
    for grid, data in sets.items():
        made = ["--grid", str(grid), "--frames", str(arguments.frames)]
        made += ["--trajectories", str(arguments.trajectories if grid == GRIDS[0] else 3)]
        _fredholm("generate", "gray_scott", "-o", str(data), *made)
    _fredholm("stats", str(sets[GRIDS[0]]))
    run = arguments.work / f"run_{arguments.minutes:g}"
    train(run, sets[GRIDS[0]], "--minutes", str(arguments.minutes))
    columns = COLUMNS[1:5]
    show(["grid", *columns])
    show(["---"] * (len(columns) + 1))
    for grid, data in sets.items():
        for name, scores in evaluate(run, data).items():
            show([str(grid), name, *errors(scores)])


def _fredholm(*arguments: str) -> None:
    subprocess.run(["fredholm", "pde", *arguments], check=True)


if __name__ == "__main__":
    main()
