"""`fredholm segment train`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from lightning_fabric import Fabric
from lightning_fabric.utilities.rank_zero import rank_zero_only

from ...pipelines.cache import Cache, anew
from ...pipelines.classes import few
from ...pipelines.dataset import DataSet, open_dataset
from ...pipelines.devices import Precision, best_precision, launched, pick_device
from ...pipelines.plan import Network, Recipe
from ...pipelines.planning import Prepared, Wishes, plan_and_prepare, prepare_again
from ...pipelines.run import Run
from ...pipelines.segmenting import Segmenting
from ...pipelines.splits import Fold, Split, read_split
from ...pipelines.training import Trainer
from ..console import bar, mute, note, result
from ..training import curves, train
from .tables import metric_table

EPOCH = 250  # steps that are called an epoch
MANY = 20  # names of cases in one line; plan.yaml has them all


@dataclass
class Train:
    """Train a network on labelled CT volumes.

    DATA is a folder: an MSD or nnU-Net data set with its dataset.json, or pairs such as images/x.nii.gz and
    labels/x.nii.gz, or ct.nii.gz beside labels.nii.gz. Spacing, Hounsfield window and patch size are chosen from the
    data and written to RUN/plan.yaml. Ctrl-C saves the state; --resume goes on.

    Example: fredholm segment train DATA -o RUN --minutes 30
    """

    data: tyro.conf.Positional[Path]
    """Folder of the data set."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """Folder of the run, made anew."""

    stages: str = "HHAA"
    """A letter for each of the four encoder stages: H HyenaND, A windowed attention, I ITNet."""

    minutes: float | None = None
    """Train for so long; the learning rate's schedule is drawn to fit."""

    epochs: int | None = None
    """Train for so many epochs of 250 steps; 100 if neither minutes nor epochs are given."""

    feature_size: int | None = None
    """Channels of the first stage, a multiple of 12; 48 on a GPU, 24 on a CPU."""

    window: tuple[int, int, int] | None = None
    """Largest patch in voxels, multiples of 32; 96 96 96 on a GPU, 64 64 64 on a CPU."""

    batch: int = 1
    """Patches in a step."""

    accumulate: int = 1
    """Steps whose gradients are added up before the weights change."""

    learning_rate: float = 4e-4
    """Highest learning rate."""

    registers: int = 0
    """Register tokens that make HyenaND's kernels depend on the scan; 0 for static kernels."""

    deep_supervision: int = 0
    """Coarser decoder levels, up to 3, that learn too."""

    ema: float = 0.0
    """Decay of a running mean of the weights, such as 0.999; 0 for none."""

    validation: tuple[str, ...] | None = None
    """Names of cases to hold out; without names none. Without any of these three options the data set's own choice is
    taken, or every fifth patient of five or more."""

    split: Path | None = None
    """File that says which cases train and which are held out: {"training": [...], "validation": [...]} in JSON or
    YAML, the plan.yaml of another run, or nnU-Net's splits_final.json with --fold."""

    fold: str | None = None
    """k/n, from 1/n, for cross-validation: hold out the k-th of n parts, dealt out by patients or as in --split."""

    spacing: tuple[float, float, float] | None = None
    """Voxel size in mm towards the patient's right, front and head; the data's median by default."""

    window_hu: tuple[float, float] | None = None
    """Hounsfield units that are told apart, or values of the first channel; those of the labelled voxels by default."""

    mirror: tuple[Literal["right", "front", "head"], ...] = ()
    """Mirror half of the patches along these directions of the patient, so that `predict --mirror` may; not `right`
    where a class has a side."""

    precision: Precision | None = None
    """Arithmetic; bf16-mixed where the hardware has it."""

    validate_every: int = EPOCH
    """Steps from one validation to the next, where cases are held out; 0 for one at the end alone."""

    device: str = "auto"
    """auto, cpu, cuda."""

    devices: int = 1
    """GPUs, or processes on a CPU, that share each step; every one has its own `batch` patches."""

    workers: int = 0
    """Processes that cut and vary patches; 0 is the training process itself."""

    seed: int = 0
    """Of weights, patches and augmentation; the same seed on a CPU gives the same weights, bit for bit."""

    cache: Path | None = None
    """Folder for prepared cases, made if need be: a later training that prepares the same files in the same way maps
    them from there into memory. About 5 bytes for each voxel at the plan's spacing, 180 MB for 300 x 300 x 400, and as
    much again for each other spacing or Hounsfield window. It may be deleted at any time."""

    tensorboard: bool = False
    """Draw the log's columns as curves too: `tensorboard --logdir RUN` shows them, or those of a folder of runs."""

    resume: bool = False
    """Go on with the run in RUN as it was planned; --epochs N makes it longer, other options are the run's."""

    def run(self) -> None:
        """Train."""
        if self.minutes is not None and self.epochs is not None:
            raise ValueError("--minutes and --epochs exclude each other: give one of them")
        device, leads = pick_device(self.device), rank_zero_only.rank == 0  # pyright: ignore[reportFunctionMemberAccess]
        if not leads:
            mute()  # the first process speaks for all
        logs = [curves(self.output)] if self.tensorboard else []
        dataset = open_dataset(self.data)
        keep = anew if self.cache is None else Cache(self.cache, dataset)
        with bar("reading cases", len(dataset.labelled)) as reading:
            if self.resume:
                run = self._longer(Run.open(self.output), leads)
                prepared = prepare_again(dataset, run.plan, reading.tick, keep)
            else:
                wishes = self._wishes(device.type, self._split(dataset))
                prepared = plan_and_prepare(dataset, wishes, reading.tick, keep)
                run = Run.create(self.output, prepared.plan) if leads else Run(self.output, prepared.plan)
        _tell(prepared)
        recipe = run.plan.recipe
        assert recipe is not None
        # The other processes start only now, when nothing is left that could go wrong with data and plan.
        strategy = "ddp" if self.devices > 1 else "auto"
        fabric = Fabric(accelerator=device.type, devices=self.devices, strategy=strategy, precision=recipe.precision)
        with launched(fabric), bar("training") as progress:
            task = Segmenting(run.plan, prepared.training, prepared.validation)
            trainer = Trainer(run, task, progress, fabric, self.workers, logs)
            scores = train(trainer, minutes=self.minutes, resume=self.resume)
        if scores is not None:
            result(metric_table(scores))
        result(str(self.output))

    def _longer(self, run: Run, leads: bool) -> Run:
        """The run with as many epochs as asked for; the schedule is drawn anew to end there."""
        if self.epochs is None or run.plan.recipe is None:
            return run
        plan = replace(run.plan, recipe=replace(run.plan.recipe, steps=EPOCH * self.epochs))
        return run.replan(plan) if leads else replace(run, plan=plan)

    def _split(self, dataset: DataSet) -> Split | None:
        """What was asked for; None leaves the choice to the data set."""
        if self.validation is not None and (self.split is not None or self.fold is not None):
            raise ValueError("--validation excludes --split and --fold: each says which cases are held out")
        names = [case.name for case in dataset.labelled]
        fold = None if self.fold is None else Fold.parse(self.fold)
        if self.split is not None:
            return read_split(self.split, names, fold)
        if fold is not None:
            return Split.of_fold(names, fold)
        return None if self.validation is None else Split.holding_out(names, self.validation)

    def _wishes(self, kind: str, split: Split | None) -> Wishes:
        large = kind == "cuda"
        side = 96 if large else 64
        network = Network(
            stages=self.stages,
            feature_size=self.feature_size or (48 if large else 24),
            registers=self.registers,
            deep_supervision=self.deep_supervision,
        )
        network.build(2)  # an unknown letter is told before a file is read
        recipe = Recipe(
            window=self.window or (side, side, side),
            steps=EPOCH * (100 if self.epochs is None else self.epochs),
            batch=self.batch,
            accumulate=self.accumulate,
            learning_rate=self.learning_rate,
            ema=self.ema,
            validate_every=self.validate_every,
            precision=self.precision or best_precision(pick_device(self.device)),
            seed=self.seed,
        )
        return Wishes(
            network=network,
            recipe=recipe,
            split=split,
            spacing_mm=self.spacing,
            window_hu=self.window_hu,
            mirrored=self.mirror,
        )


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
