"""Small simulations in The Well's format."""

from pathlib import Path

import numpy as np
import torch
from fredholm.backbones import SurrogateBody
from fredholm.pipelines.forecast.plan import SurrogatePlan
from fredholm.pipelines.forecast.planning import simulation_of
from fredholm.pipelines.run import Run
from fredholm.pipelines.well.folder import WellFolder
from fredholm.pipelines.well.statistics import compute_statistics, write_statistics
from fredholm.pipelines.well.windows import Windows
from fredholm.pipelines.well.write import Description, create


def description(grid=(8, 6), frames: int = 5, **changes) -> Description:
    """A density and a velocity on a grid that wraps along the first axis and has walls along the others."""
    values = {
        "name": "waves",
        "axes": {axis: np.arange(n) / n for axis, n in zip("xyz", grid, strict=False)},
        "times": 0.5 * np.arange(frames),
        "fields": {"density": 0, "velocity": 1},
        "edges": ("PERIODIC", *["WALL"] * (len(grid) - 1)),
        "scalars": {"viscosity": 0.25},
    }
    return Description(**{**values, **changes})


def write_file(path: Path, trajectories: int = 2, seed: int = 0, **changes) -> Path:
    """A file of waves that travel along the first axis, with a little noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng, what = np.random.default_rng(seed), description(**changes)
    x = np.arange(what.grid[0]).reshape(-1, *[1] * (len(what.grid) - 1)) / what.grid[0]
    with create(path, what, trajectories) as file:
        for name, order in what.fields.items():
            stored = file[f"t{order}_fields/{name}"]
            for number in range(trajectories):
                shift = rng.random()
                for step, time in enumerate(what.times):
                    wave = 3 + np.sin(2 * np.pi * (x - shift - 0.25 * time)) + np.zeros(what.grid)
                    frame = wave.reshape(*wave.shape, *[1] * order)
                    stored[number, step] = frame + 0.01 * rng.normal(size=stored.shape[2:])
    return path


def write_set(root: Path, **changes) -> Path:
    """A data set of three splits, without statistics."""
    for seed, split in enumerate(("train", "valid", "test")):
        write_file(root / "data" / split / "waves.hdf5", seed=seed, **changes)
    return root


def write_run(root: Path, data: Path) -> Run[SurrogatePlan]:
    """A surrogate of a data set, whose statistics are written too, with weights that nobody trained."""
    folder = WellFolder.open(data)
    write_statistics(folder.statistics_file, compute_statistics(folder.files("train")))
    body = SurrogateBody(pattern="H", depth=1, dim=8, heads=1, width=4)
    simulation = simulation_of(folder, Windows(folder, "train"))
    run = Run.create(root, SurrogatePlan(simulation=simulation, network=body, history=2))
    torch.manual_seed(0)
    model = run.plan.build()
    torch.nn.init.normal_(model.out.weight)  # a new one predicts that nothing changes
    run.save_weights(model.state_dict())
    return run
