"""`fredholm pde generate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from ...pipelines.files import replacing
from ...pipelines.simulate.sets import SETS
from ...pipelines.simulate.simulator import Simulator
from ...pipelines.well.folder import SPLITS
from ..console import Bar, bar, result
from ..extras import extra

SHARES = {"train": 0.8, "valid": 0.1, "test": 0.1}


@dataclass
class Generate:
    """Simulate a data set in The Well's format, a file for each set of parameters.

    gray_scott is reaction and diffusion in its six regimes, in a periodic box of two or three axes; shear_flow is two
    layers of an incompressible fluid in a periodic square that slide past one another and roll up, with a tracer;
    acoustics is sound in a square of two materials, between walls along x and open ends along y; burgers is a viscous
    flow with shocks in a square, periodic along x, between walls along y. The same options give the same numbers. Files
    that are there already are kept, so a stopped command goes on.

    Example: fredholm pde generate gray_scott -o DATA --dim 2 --grid 64 --trajectories 10
    """

    name: tyro.conf.Positional[Literal["acoustics", "burgers", "gray_scott", "shear_flow"]]
    """What to simulate."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """Folder of the data set."""

    dim: Literal[2, 3] = 2
    """Axes of the box."""

    grid: int = 64
    """Samples along each axis; 1/64 apart in gray_scott, over a side of 1 in the others."""

    trajectories: int = 10
    """Trajectories of each file, dealt out 8 to 1 to 1 to train, valid and test, at least one each."""

    frames: int = 101
    """Frames of a trajectory, 10 units of time apart in gray_scott, 0.1 in shear_flow, 0.02 in the others."""

    seed: int = 0
    """Of the starts."""

    def run(self) -> None:
        """Simulate and write."""
        if self.grid < 8 or self.trajectories < 3 or self.frames < 2:
            raise ValueError("expected --grid 8 or more, --trajectories 3 or more and --frames 2 or more")
        simulations = SETS[self.name](self.dim, self.grid)
        counts = {split: max(1, int(SHARES[split] * self.trajectories)) for split in SPLITS}
        with bar("simulating", len(simulations) * sum(counts.values()) * self.frames) as progress:
            for number, (split, count) in enumerate(counts.items()):
                folder = self.output / "data" / split
                folder.mkdir(parents=True, exist_ok=True)
                for index, (stem, simulation) in enumerate(simulations.items()):
                    self._file(folder / f"{stem}.hdf5", simulation, (self.seed, number, index), count, progress)
        result(str(self.output))

    def _file(self, path: Path, simulation: Simulator, seed: tuple[int, ...], count: int, progress: Bar) -> None:
        with extra("pde"):
            from ...pipelines.well.write import Description, create, notes_of, store, store_constants
        description = Description(
            name=simulation.name,
            axes=simulation.axes,
            times=simulation.interval * np.arange(self.frames),
            fields=simulation.fields,
            edges=simulation.edges,
            scalars=simulation.scalars,
            constants=simulation.constants,
            notes={
                "made_by": "fredholm pde generate",
                "recipe": f"{simulation} {self.frames} frames, seed {seed}, {count}",
            },
        )
        if path.exists():
            if notes_of(path) != description.notes:
                raise ValueError(f"{path} was made with other options: give another -o, or remove it")
            progress.skip(count * self.frames)
            return
        with replacing(path) as beside, create(beside, description, count) as file:
            for number in range(count):
                start = simulation.start((*seed, number))
                store_constants(file, description, number, simulation.medium(start).numpy())
                for index, frame in enumerate(simulation.frames(start, self.frames)):
                    store(file, description, (number, index), frame.numpy())
                    progress.tick(f"{path.parent.name} {path.stem}")
