"""`fredholm segment plan`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ...pipelines.budget import Trial, fit
from ...pipelines.dataset import open_dataset
from ...pipelines.devices import pick_device
from ...pipelines.memory import gigabytes, parsed_bytes, resident_bytes
from ...pipelines.planning import plan_dataset
from ..console import bar, note, result
from .choices import Choices


@dataclass(kw_only=True)
class MakePlan(Choices):
    """Plan the training on a data set, and say why, how fast and with how much memory.

    The plan is the one that `segment train` makes by itself. Each choice has its reason beside it and may be edited;
    `segment train --plan plan.yaml` takes it. Time and memory are those of three steps that are really taken, on noise,
    in a process of their own; in --memory a smaller batch, window or network is looked for.

    Example: fredholm segment plan DATA -o plan.yaml --memory 8GB
    """

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """File to write."""

    memory: str | None = None
    """What training may take, such as 8GB: of the GPU's memory where there is one, else of the machine's."""

    def run(self) -> None:
        """Plan, try and write."""
        libraries = resident_bytes()  # of this process, which has imported what training imports
        if not self.output.parent.is_dir():
            raise FileNotFoundError(f"no such folder: {self.output.parent}")
        memory = None if self.memory is None else parsed_bytes(self.memory)
        device, dataset = pick_device(self.device), open_dataset(self.data)
        wishes = self.wishes(dataset)
        with bar("reading cases", len(dataset.labelled)) as reading:
            planned = plan_dataset(dataset, wishes, reading.tick)
        note("trying the plan")
        planned, trial, peak = fit(planned, memory, device, libraries)
        expected = _words(trial, peak, device.type)
        planned.plan.write(self.output, {**planned.reasons, "": f"Expected on this machine: {expected}."})
        result(expected)
        result(str(self.output))


def _words(trial: Trial, peak: int, kind: str) -> str:
    where = "of GPU memory" if kind == "cuda" else "of memory"
    return f"{trial.seconds:.3g} s a step, {gigabytes(peak)} {where} at most"
