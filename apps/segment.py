"""`fredholm segment`: train, predict, evaluate."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro
from lightning_fabric import Fabric

from ..kernels import reuse_host_memory
from ..pipelines.classes import Classes
from ..pipelines.dataset import open_dataset
from ..pipelines.devices import best_precision, pick_device
from ..pipelines.files import write_text
from ..pipelines.nifti import check_target, read_labels, read_volume, write_labels
from ..pipelines.plan import Network, Recipe
from ..pipelines.planning import Prepared, Wishes, plan_and_prepare, prepare_again
from ..pipelines.predict import Predictor
from ..pipelines.run import Run
from ..pipelines.scores import DiceTable, evaluate_pair
from ..pipelines.training import CALIBRATION, Trainer
from ..pipelines.volume import Volume
from .console import bar, note, result, table

EPOCH = 250  # steps that are called an epoch
SUFFIXES = (".nii.gz", ".nii")

Precision = Literal["32-true", "bf16-mixed"]


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
    """A letter for each of the four encoder stages: H HyenaND, A windowed attention."""

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
    """Names of cases to hold out; without names none, without the option every fifth case of five or more."""

    spacing: tuple[float, float, float] | None = None
    """Voxel size in mm towards the patient's right, front and head; the data's median by default."""

    window_hu: tuple[float, float] | None = None
    """Hounsfield units that are told apart; those of the labelled voxels by default."""

    precision: Precision | None = None
    """Arithmetic; bf16-mixed where the hardware has it."""

    device: str = "auto"
    """auto, cpu, cuda."""

    workers: int = 0
    """Processes that cut and vary patches; 0 is the training process itself."""

    seed: int = 0
    """Of weights, patches and augmentation; the same seed on a CPU gives the same weights, bit for bit."""

    resume: bool = False
    """Go on with the run in RUN as it was planned; --epochs N makes it longer, other options are the run's."""

    def run(self) -> None:
        """Train."""
        if self.minutes is not None and self.epochs is not None:
            raise ValueError("--minutes and --epochs exclude each other: give one of them")
        device = pick_device(self.device)
        dataset = open_dataset(self.data)
        with bar("reading cases", len(dataset.labelled)) as reading:
            if self.resume:
                run = self._longer(Run.open(self.output))
                prepared = prepare_again(dataset, run.plan, reading.tick)
            else:
                prepared = plan_and_prepare(dataset, self._wishes(device.type), reading.tick)
                run = Run.create(self.output, prepared.plan)
        _tell(prepared)
        recipe = run.plan.recipe
        assert recipe is not None
        fabric = Fabric(accelerator=device.type, devices=1, precision=recipe.precision)
        with bar("training") as progress:
            trainer = Trainer(run, prepared.training, prepared.validation, progress, fabric, self.workers)
            scores = train(trainer, minutes=self.minutes, resume=self.resume)
        if scores is not None:
            result(dice_table(scores))
        result(str(self.output))

    def _longer(self, run: Run) -> Run:
        """The run with as many epochs as asked for; the schedule is drawn anew to end there."""
        if self.epochs is None or run.plan.recipe is None:
            return run
        return run.replan(replace(run.plan, recipe=replace(run.plan.recipe, steps=EPOCH * self.epochs)))

    def _wishes(self, kind: str) -> Wishes:
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
            precision=self.precision or best_precision(pick_device(self.device)),
            seed=self.seed,
        )
        return Wishes(
            network=network,
            recipe=recipe,
            validation=self.validation,
            spacing_mm=self.spacing,
            window_hu=self.window_hu,
        )


def train(trainer: Trainer, *, minutes: float | None, resume: bool = False) -> DiceTable | None:
    """Settle the number of steps where minutes were asked for, then train to the end."""
    if resume:
        trainer.resume()
        note(f"going on at step {trainer.step} of {trainer.recipe.steps}")
        if trainer.step >= trainer.recipe.steps:
            note("the run is finished already")
    if minutes is not None and trainer.step < CALIBRATION:
        trainer.settle_steps(minutes)
    return trainer.fit()


def _tell(prepared: Prepared) -> None:
    plan = prepared.plan
    assert plan.recipe is not None
    spacing = " x ".join(f"{mm:g}" for mm in plan.preparation.spacing_mm)
    low, high = plan.preparation.window_hu
    note(
        f"{len(prepared.training)} cases to train on, {len(prepared.validation)} held out, "
        f"{len(plan.names) - 1} classes; spacing {spacing} mm, {low:g} to {high:g} HU, window {plan.window}, "
        f"{plan.network.stages} with feature size {plan.network.feature_size}, {plan.recipe.precision}"
    )


@dataclass
class Predict:
    """Label CT volumes with a trained network.

    Give one scan and the file to write, or a folder of scans and a folder for the label maps; the network is loaded
    once. A label map has the grid, the axis order and the header of its scan.

    Example: fredholm segment predict -i ct.nii.gz -o labels.nii.gz --run RUN
    """

    input: Annotated[Path, tyro.conf.arg(aliases=("-i",))]
    """A NIfTI file, or a folder of them."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """File to write, or folder if the input is one."""

    run_folder: Annotated[Path, tyro.conf.arg(name="run")]
    """Folder of the run."""

    overlap: float = 0.5
    """Share of a window that its neighbour sees too."""

    assume: str | None = None
    """Axis order, such as RAS, for files that do not say theirs."""

    precision: Precision | None = None
    """Arithmetic; bf16-mixed where the hardware has it."""

    compile: bool = False
    """Compile the network: the first window takes a minute or more, later ones less."""

    device: str = "auto"
    """auto, cpu, cuda."""

    def run(self) -> None:
        """Label every scan; a failed one is told, and the others are done all the same."""
        reuse_host_memory()
        jobs = list(_jobs(self.input, self.output))
        for _, labels in jobs:
            check_target(labels)
        run = Run.open(self.run_folder)
        predictor = Predictor.of(run, device=self.device, precision=self.precision, overlap=self.overlap)
        for remark in run.plan.notes:
            note(f"note: {remark}")
        if self.compile:
            predictor.compile()
        failed = 0
        for scan, labels in jobs:
            try:
                self._one(predictor, scan, labels)
                result(str(labels))
            except (OSError, ValueError) as error:
                if len(jobs) == 1:
                    raise
                failed += 1
                note(f"fredholm: {scan.name}: {error}")
        if failed:
            raise ValueError(f"{failed} of {len(jobs)} scans failed, the others are in {self.output}")

    def _one(self, predictor: Predictor, scan: Path, labels: Path) -> None:
        volume = read_volume(scan, assume=self.assume)
        with bar(scan.name, predictor.windows(volume)) as progress:
            write_labels(labels, predictor.label(volume, progress.tick), like=volume)


def _jobs(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Scans and the files for their label maps."""
    if source.is_dir():
        scans = sorted(
            path for path in source.iterdir() if path.name.lower().endswith(SUFFIXES) and path.name[0] != "."
        )
        if not scans:
            raise FileNotFoundError(f"no NIfTI file (.nii, .nii.gz) in {source}")
        if target.resolve() == source.resolve():
            raise ValueError(f"the label maps would overwrite the scans: give another -o than {target}")
        target.mkdir(parents=True, exist_ok=True)
        yield from ((scan, target / scan.name) for scan in scans)
        return
    if not source.exists():
        raise FileNotFoundError(f"no such file: {source}")
    if target.is_dir():
        target = target / source.name
    if target.resolve() == source.resolve():
        raise ValueError(f"the label map would overwrite the scan: give another -o than {target}")
    yield source, target


def _niftis(folder: Path) -> list[Path]:
    visible = (path for path in folder.iterdir() if path.name[0] != ".")
    return sorted(path for path in visible if path.name.lower().endswith(SUFFIXES))


@dataclass
class Evaluate:
    """Compare label maps with a reference: Dice of each class.

    Both are files, or folders whose files have the same names. A class that neither has is not scored; one that only
    one of them has scores 0.

    Example: fredholm segment evaluate predictions/ labelsTs/ --names dataset.json --json scores.json
    """

    prediction: tyro.conf.Positional[Path]
    """Label map, or folder of them."""

    reference: tyro.conf.Positional[Path]
    """Label map to compare with, or folder of them."""

    names: Path | None = None
    """JSON file {"1": "spleen", ...} or dataset.json. A list of values there is one class of the reference."""

    json: Path | None = None
    """File for the scores."""

    def run(self) -> None:
        """Score and tell."""
        pairs = _pairs(self.prediction, self.reference)
        references = {name: read_labels(reference) for name, _, reference in pairs}
        predictions = {name: read_labels(prediction) for name, prediction, _ in pairs}
        classes = self._classes([*references.values(), *predictions.values()])
        rows = {}
        for name, _, path in pairs:
            own = references[name]
            try:
                merged = Volume(classes.indices(own.array), own.affine, own.source, own.path)
                rows[name] = evaluate_pair(predictions[name], merged, classes.names)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        scores = DiceTable(rows, classes.names)
        if self.json is not None:
            write_text(self.json, json.dumps(scores.as_dict(), indent=2) + "\n")
        result(dice_table(scores))

    def _classes(self, maps: list[Volume]) -> Classes:
        if self.names is not None:
            return Classes.read_file(self.names)
        values = sorted({int(value) for volume in maps for value in np.unique(volume.array) if value})
        return Classes({0: "background", **{value: f"class {value}" for value in values}}, None)


def _pairs(prediction: Path, reference: Path) -> list[tuple[str, Path, Path]]:
    for path in (prediction, reference):
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
    if prediction.is_dir() != reference.is_dir():
        raise ValueError("prediction and reference must both be files or both be folders")
    if prediction.is_file():
        return [(_stem(prediction), prediction, reference)]
    theirs, ours = ({path.name: path for path in _niftis(folder)} for folder in (reference, prediction))
    shared = sorted(theirs.keys() & ours.keys())
    if not shared:
        raise ValueError(f"no file of {prediction} has the name of one in {reference}")
    missing = sorted(theirs.keys() - ours.keys())
    if missing:
        warnings.warn(
            f"{len(missing)} references have no prediction and are not scored, first {missing[0]}", stacklevel=2
        )
    return [(_stem(ours[name]), ours[name], theirs[name]) for name in shared]


def _stem(path: Path) -> str:
    return next((path.name[: -len(suffix)] for suffix in SUFFIXES if path.name.lower().endswith(suffix)), path.stem)


def dice_table(scores: DiceTable) -> str:
    """The scores as a table in plain text, classes down, cases across where there are few."""
    cases = list(scores.rows) if len(scores.rows) <= 4 else []
    columns = [(case, scores.rows[case], scores.mean_per_case[case]) for case in cases]
    if len(cases) != 1:
        columns.append(("mean", scores.mean_per_class, scores.casewise))
    lines = [[name, *(row[index] for _, row, _ in columns)] for index, name in scores.names.items() if index]
    last = ["mean of classes", *(mean for _, _, mean in columns)]
    return table(["Dice", *(title for title, _, _ in columns)], [*lines, last])


Commands = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Predict, tyro.conf.subcommand("predict")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
)


@dataclass
class Segment:
    """Label the organs of CT volumes: train, predict, evaluate."""

    command: tyro.conf.OmitSubcommandPrefixes[tyro.conf.OmitArgPrefixes[Commands]] = field()

    def run(self) -> None:
        """Run the chosen command."""
        self.command.run()
