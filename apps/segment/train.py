"""`fredholm segment train`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from ...pipelines.cache import ANEW, Cache, Keep
from ...pipelines.classes import few
from ...pipelines.dataset import DataSet, open_dataset
from ...pipelines.devices import fabric_of, launched, pick_device
from ...pipelines.plan import Plan
from ...pipelines.planning import Prepared, plan_dataset, prepare_cases
from ...pipelines.run import Run
from ...pipelines.segmenting import Segmenting
from ...pipelines.training import Trainer
from ..console import bar, note, result
from ..training import create, curves, leads, train
from .choices import Choices
from .tables import metric_table

MANY = 20  # names of cases in one line; plan.yaml has them all


@dataclass(kw_only=True)
class Train(Choices):
    """Train a network on labelled CT volumes.

    DATA is a folder: an MSD or nnU-Net data set with its dataset.json, or pairs such as images/x.nii.gz and
    labels/x.nii.gz, or ct.nii.gz beside labels.nii.gz. Spacing, Hounsfield window and patch size are chosen from the
    data, as `segment plan` chooses them, and written to RUN/plan.yaml. Ctrl-C saves the state; --resume goes on.

    Example: fredholm segment train DATA -o RUN --minutes 30
    """

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """Folder of the run, made anew."""

    plan: Path | None = None
    """A plan.yaml, as `segment plan` writes it, edited or not, in place of one made here."""

    minutes: float | None = None
    """Train for so long; the learning rate's schedule is drawn to fit."""

    devices: int = 1
    """GPUs, or processes on a CPU, that share each step; every one has its own `batch` patches."""

    workers: int = 0
    """Processes that cut and vary patches; 0 is the training process itself."""

    cache: Path | None = None
    """Folder for prepared cases, made if need be: a later training that prepares the same files in the same way maps
    them from there into memory, and one that plans anew reads no scan again. About 5 bytes for each voxel at the plan's
    spacing, 180 MB for 300 x 300 x 400, and as much again for each other spacing or Hounsfield window. It may be
    deleted at any time."""

    tensorboard: bool = False
    """Draw the log's columns as curves too: `tensorboard --logdir RUN` shows them, or those of a folder of runs."""

    resume: bool = False
    """Go on with the run in RUN as it was planned; --epochs N makes it longer, other options are the run's."""

    def run(self) -> None:
        """Train."""
        leads()
        self._check()
        device = pick_device(self.device)
        logs = [curves(self.output)] if self.tensorboard else []
        dataset = open_dataset(self.data)
        keep = ANEW if self.cache is None else Cache(self.cache, dataset)
        run = self._longer(Run.open(self.output)) if self.resume else None
        plan = self._planned(dataset, keep) if run is None else run.plan
        with bar("preparing cases", len(dataset.labelled)) as preparing:
            prepared = prepare_cases(dataset, plan, preparing.tick, keep)
        if run is None:
            run = create(self.output, plan)
        _tell(prepared)
        recipe = run.plan.recipe
        assert recipe is not None
        fabric = fabric_of(device, recipe.precision, self.devices)
        with launched(fabric), bar("training") as progress:
            task = Segmenting(run.plan, prepared.training, prepared.validation)
            trainer = Trainer(run, task, progress, fabric, self.workers, logs)
            scores = train(trainer, minutes=self.minutes, resume=self.resume)
        if scores is not None:
            result(metric_table(scores))
        result(str(self.output))

    def _check(self) -> None:
        if self.minutes is not None and self.epochs is not None:
            raise ValueError("--minutes and --epochs exclude each other: give one of them")
        if self.plan is not None:
            if self.resume:
                raise ValueError("--plan and --resume exclude each other: a run goes on by its own plan")
            self.expect_none_but(("epochs", "device"), f"the plan says it; change it in {self.plan}")

    def _planned(self, dataset: DataSet, keep: Keep) -> Plan:
        """The plan that was given, or one made here."""
        if self.plan is None:
            wishes = self.wishes(dataset)
            with bar("reading cases", len(dataset.labelled)) as reading:
                return plan_dataset(dataset, wishes, reading.tick, keep).plan
        plan = Plan.read(self.plan)
        if self.epochs is not None and plan.recipe is not None:
            plan = replace(plan, recipe=replace(plan.recipe, steps=self.steps))
        return plan

    def _longer(self, run: Run) -> Run:
        """The run with as many epochs as asked for; the schedule is drawn anew to end there."""
        if self.epochs is None or run.plan.recipe is None:
            return run
        plan = replace(run.plan, recipe=replace(run.plan.recipe, steps=self.steps))
        return run.replan(plan) if leads() else replace(run, plan=plan)


def _tell(prepared: Prepared) -> None:
    plan = prepared.plan
    assert plan.recipe is not None
    spacing = " x ".join(f"{mm:g}" for mm in plan.preparation.spacing_mm)
    windows = ", ".join(f"{low:g} to {high:g}" for low, high in plan.preparation.windows)
    unit = "HU" if plan.channels == ("CT",) else f"of {', '.join(plan.channels)}"
    note(
        f"{len(prepared.training)} cases to train on, {len(prepared.validation)} held out, "
        f"{len(plan.names) - 1} classes; spacing {spacing} mm, {windows} {unit}, window {plan.window}, "
        f"{plan.network.stages} with feature size {plan.network.feature_size}, {plan.recipe.precision}"
    )
    if prepared.validation:
        note(f"held out: {few((case.name for case in prepared.validation), MANY)}")
