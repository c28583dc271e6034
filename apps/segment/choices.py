"""What a user may choose of a plan, in the words of the commands that make one."""

from collections.abc import Collection
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Literal

import tyro

from ...pipelines.dataset import DataSet
from ...pipelines.devices import Precision, best_precision, pick_device
from ...pipelines.plan import Network, Recipe
from ...pipelines.planning import Wishes
from ...pipelines.splits import Fold, Split, read_split
from ..training import EPOCH, PLAIN_RESIDUALS, InterpolationOptions

EPOCHS = 100
FAST = 8.0  # times as large are the voxels of a fast plan


@dataclass(kw_only=True)
class Choices:
    """Options of `segment plan` and of `segment train`."""

    data: tyro.conf.Positional[Path]
    """Folder of the data set."""

    stages: str = "HHAA"
    """A letter for each of the four encoder stages: H HyenaND, A windowed attention, I ITNet."""

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

    fast: bool = False
    """Plan voxels eight times as large, the finest sides first. Scans take about an eighth of the time, and small
    structures may be missed: for a quick answer, or to be the --crop-run of a finer run."""

    window_hu: tuple[float, float] | None = None
    """Hounsfield units that are told apart, or values of the first channel; those of the labelled voxels by default."""

    mirror: tuple[Literal["right", "front", "head"], ...] = ()
    """Mirror half of the patches along these directions of the patient, so that `predict --mirror` may; not `right`
    where a class has a side."""

    precision: Precision | None = None
    """Arithmetic; bf16-mixed where the hardware has it."""

    validate_every: int = EPOCH
    """Steps from one validation to the next, where cases are held out; 0 for one at the end alone."""

    seed: int = 0
    """Of weights, patches and augmentation; the same seed on a CPU gives the same weights, bit for bit."""

    device: str = "auto"
    """auto, cpu, cuda."""

    interpolation: InterpolationOptions = PLAIN_RESIDUALS

    @property
    def steps(self) -> int:
        """Optimiser steps of so many epochs."""
        return EPOCH * (EPOCHS if self.epochs is None else self.epochs)

    def wishes(self, dataset: DataSet) -> Wishes:
        """What is asked for, and what the device does well where nothing is.

        Raises:
            ValueError: Options that exclude each other, or a value that there is not.
        """
        if self.fast and self.spacing is not None:
            raise ValueError("--fast and --spacing exclude each other: both say how large a voxel is")
        device = pick_device(self.device)
        large = device.type == "cuda"
        side = 96 if large else 64
        network = Network(
            stages=self.stages,
            feature_size=self.feature_size or (48 if large else 24),
            registers=self.registers,
            deep_supervision=self.deep_supervision,
            interpolation=self.interpolation.network,
        )
        network.build(2)  # an unknown letter is told before a file is read
        recipe = Recipe(
            window=self.window or (side, side, side),
            steps=self.steps,
            batch=self.batch,
            accumulate=self.accumulate,
            learning_rate=self.learning_rate,
            ema=self.ema,
            validate_every=self.validate_every,
            precision=self.precision or best_precision(device),
            seed=self.seed,
            phases=self.interpolation.phases,
        )
        return Wishes(
            network=network,
            recipe=recipe,
            split=self._split(dataset),
            spacing_mm=self.spacing,
            window_hu=self.window_hu,
            coarsening=FAST if self.fast else 1.0,
            mirrored=self.mirror,
        )

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

    def expect_none_but(self, kept: Collection[str], why: str) -> None:
        """Refuse options that would have no effect.

        Raises:
            ValueError: One of this class, not in `kept`, is set; `why` it has no effect.
        """
        for one in fields(Choices):
            if one.name not in kept and one.default is not MISSING and getattr(self, one.name) != one.default:
                raise ValueError(f"--{one.name.replace('_', '-')}: {why}")
