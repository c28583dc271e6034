"""`fredholm pde generate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from ...pipelines.files import replacing
from ...pipelines.simulate.gray_scott import REGIMES, SPACING, GrayScott
from ...pipelines.well.folder import SPLITS
from ..console import Bar, bar, result
from ..extras import extra

SHARES = {"train": 0.8, "valid": 0.1, "test": 0.1}


@dataclass
class Generate:
    """Simulate a data set in The Well's format: Gray-Scott reaction and diffusion in its six regimes, a file for each.

    The same options give the same numbers. Files that are there already are kept, so a stopped command goes on.

    Example: fredholm pde generate gray_scott -o DATA --dim 2 --grid 64 --trajectories 10
    """

    name: tyro.conf.Positional[Literal["gray_scott"]]
    """What to simulate."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """Folder of the data set."""

    dim: Literal[2, 3] = 2
    """Axes of the box."""

    grid: int = 64
    """Samples along each axis, 1/64 apart."""

    trajectories: int = 10
    """Trajectories of each regime, dealt out 8 to 1 to 1 to train, valid and test, at least one each."""

    frames: int = 101
    """Frames of a trajectory, ten units of time apart."""

    seed: int = 0
    """Of the starts."""

    def run(self) -> None:
        """Simulate and write."""
        if self.grid < 8 or self.trajectories < 3 or self.frames < 2:
            raise ValueError("expected --grid 8 or more, --trajectories 3 or more and --frames 2 or more")
        counts = {split: max(1, int(SHARES[split] * self.trajectories)) for split in SPLITS}
        with bar("simulating", len(REGIMES) * sum(counts.values()) * self.frames) as progress:
            for split, count in counts.items():
                folder = self.output / "data" / split
                folder.mkdir(parents=True, exist_ok=True)
                for regime in REGIMES:
                    self._file(
                        folder, regime, (self.seed, SPLITS.index(split), list(REGIMES).index(regime)), count, progress
                    )
        result(str(self.output))

    def _file(self, folder: Path, regime: str, seed: tuple[int, ...], count: int, progress: Bar) -> None:
        with extra("pde"):
            from ...pipelines.well.write import Description, Stored, create, notes_of
        feed, kill = REGIMES[regime]
        simulation = GrayScott(feed=feed, kill=kill, dim=self.dim, grid=self.grid)
        description = Description(
            name=f"gray_scott_{self.dim}d",
            axes={axis: SPACING * np.arange(self.grid) for axis in "xyz"[: self.dim]},
            times=simulation.step * simulation.every * np.arange(self.frames),
            fields={"A": 0, "B": 0},
            edges=("PERIODIC",) * self.dim,
            scalars={"F": feed, "k": kill},
            notes={
                "made_by": "fredholm pde generate",
                "recipe": f"{simulation} {self.frames} frames, seed {seed}, {count}",
            },
        )
        path = folder / f"gray_scott_{regime}_F_{feed}_k_{kill}.hdf5"
        if path.exists():
            if notes_of(path) != description.notes:
                raise ValueError(f"{path} was made with other options: give another -o, or remove it")
            progress.skip(count * self.frames)
            return
        with replacing(path) as beside, create(beside, description, count) as opened:
            file: Stored = opened
            for number in range(count):
                frames = simulation.frames(simulation.start((*seed, number)), self.frames)
                for index, (a, b) in enumerate(frames):
                    file["t0_fields/A"][number, index], file["t0_fields/B"][number, index] = a.numpy(), b.numpy()
                    progress.tick(f"{folder.name} {regime}")
