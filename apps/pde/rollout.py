"""`fredholm pde rollout`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ...pipelines.devices import Precision
from ...pipelines.well.folder import SUFFIXES, Split
from ..console import bar, note, result
from .surrogate import Weights, expect_counts, load_surrogate, open_data

if TYPE_CHECKING:
    from ...pipelines.forecast.surrogate import Surrogate
    from ...pipelines.well.windows import Windows


@dataclass
class Rollout:
    """Let a surrogate run on by itself, and write what it makes in The Well's format.

    Each trajectory starts from its first frames, as many as the surrogate looks back on; they are the first of the
    file. Frames are written as they come. A stopped command goes on when it is given again, and ends with the same
    numbers as one that was not stopped. If a field is no longer finite, the file ends before that step.

    Example: fredholm pde rollout RUN DATA -o rollout.hdf5
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""

    data: tyro.conf.Positional[Path]
    """Folder of a data set, the one that holds data/; or one of its files."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """File to write, .hdf5; or where DATA has several files, a folder for files of the same names."""

    steps: int | None = None
    """Steps to run on; as many as DATA has frames to compare with, if not given."""

    split: Split = "test"
    """Which part of DATA, if it is a folder."""

    trajectories: int | None = None
    """Only the first so many of each file."""

    weights: Weights | None = None
    """best, those of the best validation, or last; best if there is one."""

    batch: int = 8
    """Trajectories that are computed together."""

    precision: Precision = "32-true"
    """Arithmetic."""

    device: str = "auto"
    """auto, cpu, cuda."""

    def run(self) -> None:
        """Run on and write."""
        expect_counts(steps=self.steps, trajectories=self.trajectories, batch=self.batch)
        surrogate = load_surrogate(self.run_folder, self.weights, self.device, self.precision)
        windows, files = open_data(self.data, self.split, surrogate)
        for file, target in self._targets(list(files)).items():
            self._file(surrogate, windows, file, files[file], target)

    def _targets(self, files: list[Path]) -> dict[Path, Path]:
        if self.output.suffix in SUFFIXES:
            if len(files) > 1:
                raise ValueError(f"{self.data} has {len(files)} files: give a folder as -o, or one of them as DATA")
            return {files[0]: self.output}
        self.output.mkdir(parents=True, exist_ok=True)
        return {file: self.output / file.name for file in files}

    def _file(
        self, surrogate: "Surrogate", windows: "Windows", file: Path, trajectories: list[range], target: Path
    ) -> None:
        from ...pipelines.forecast.rollout import Starts, roll_out, write_rollout
        from ...pipelines.well.continuation import Continuation, Extent

        plan = surrogate.run.plan
        starts = Starts(windows, [numbers[0] for numbers in trajectories[: self.trajectories]])
        steps = self.steps or len(trajectories[0])
        still = [starts[number].still for number in range(len(starts))]
        extent = Extent(plan.history, plan.history + steps, [float(window.time_step) for window in still])
        notes = {
            **surrogate.made_with,
            "data": file.name,
            "start": f"frames 0 to {plan.history - 1}",
            "start_sha256": starts.digest(),
            "steps": steps,
            "batch": self.batch,
        }
        cuts = [range(first, min(first + self.batch, len(starts))) for first in range(0, len(starts), self.batch)]
        batches = [(numbers, surrogate.surroundings(still[numbers.start : numbers.stop])) for numbers in cuts]

        def run_on(made: Continuation) -> None:
            with bar("running on", steps) as progress:
                progress.skip(made.written - plan.history)
                roll_out(made, surrogate, batches, plan.history, plan.simulation.channels, progress.tick)

        write_rollout(target, file, starts, extent, notes, run_on)
        note(f"{target}: {len(starts)} trajectories, {plan.history} known frames and {steps} steps")
        result(str(target))
