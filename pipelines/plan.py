"""The plan of a run: everything needed to repeat it and to predict with it, as a YAML file that people can read.

Made of small records. Reading checks every key, so that a slip of the pen is named and not passed over.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from torch import Tensor, nn

from ..backbones import Encoder, Hyena, MixerUNETR, MonaiOptions, from_monai
from .files import write_text
from .postprocess import Step, check_classes
from .records import read_record


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What is done to a scan before the network sees it.

    Args:
        spacing_mm: Distance between voxels towards the patient's right, front and head, mm.
        window_hu: Hounsfield units that become the ends of `range`; values beyond are cut off.
        range: What they become; air, at or below the lower end, is the first of them.
    """

    spacing_mm: tuple[float, float, float]
    window_hu: tuple[float, float]
    range: tuple[float, float] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        _expect(self, "spacing_mm", self.spacing_mm, 3)
        _expect(self, "window_hu", self.window_hu, 2)
        _expect(self, "range", self.range, 2)
        if min(self.spacing_mm) <= 0:
            raise ValueError(f"spacing_mm: a spacing is three positive numbers of mm, not {self.spacing_mm}")
        if not self.window_hu[0] < self.window_hu[1] or self.range[0] == self.range[1]:
            raise ValueError(
                f"window_hu goes from low to high and range has two ends, these are {self.window_hu} and {self.range}"
            )


@dataclass(frozen=True, kw_only=True)
class Network:
    """Which network, apart from its classes.

    Args:
        stages: A letter for each encoder stage, A windowed attention, H HyenaND.
        feature_size: Channels of the first stage.
        boundary: What lies outside HyenaND's grids.
        registers: Register tokens of the HyenaND stages; 0 makes their kernels static.
        deep_supervision: Coarser decoder levels that learn too.
        monai: Set for weights that MONAI trained; they are kept under MONAI's names.
    """

    stages: str = "HHAA"
    feature_size: int = 48
    boundary: Literal["zero", "periodic"] = "zero"
    registers: int = 0
    deep_supervision: int = 0
    monai: MonaiOptions | None = None

    def __post_init__(self) -> None:
        if self.boundary not in ("zero", "periodic"):
            raise ValueError(f'boundary is "zero" or "periodic", not {self.boundary!r}')
        if not isinstance(self.stages, str):
            raise ValueError(f"stages are letters, not {self.stages!r}")
        for name in ("feature_size", "registers", "deep_supervision"):
            _whole(name, getattr(self, name), 1 if name == "feature_size" else 0)

    def build(self, classes: int) -> MixerUNETR:
        """A network with new weights, for one input channel and this many classes.

        Raises:
            ValueError: A stage letter is unknown or a number does not fit.
        """
        encoder = Encoder(hyena=Hyena(boundary=self.boundary, registers=self.registers))
        return MixerUNETR(
            1, classes, self.stages, self.feature_size, encoder=encoder, deep_supervision=self.deep_supervision
        )

    def load(self, weights: Mapping[str, Tensor], classes: int) -> nn.Module:
        """The network with these weights, in evaluation mode."""
        if self.monai is not None:
            return from_monai(weights, self.monai)
        model = self.build(classes)
        model.load_state_dict(weights)
        return model.eval()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the network is trained.

    Args:
        window: Voxels of a patch along the three axes; also the window of prediction.
        steps: Optimiser steps in all; the schedule is drawn to end there.
        minutes: Time from which `steps` was worked out, None where steps were given.
        batch: Patches of one step on one device.
        accumulate: Steps of the loop whose gradients make one optimiser step.
        learning_rate: Its highest value, after the warm-up.
        warm_up: Steps over which the learning rate rises.
        weight_decay: AdamW's.
        clip: Largest norm of the gradient.
        foreground: Share of patches that are centred on a labelled voxel.
        ema: Decay of the running mean of the weights; 0 keeps the last weights.
        precision: Of the arithmetic.
        validate_every: Steps between validations, 0 for none but the last.
        save_every: Steps between saved states.
        seed: Of weights, patches and augmentation.
    """

    window: tuple[int, int, int] = (96, 96, 96)
    steps: int = 25_000
    minutes: float | None = None
    batch: int = 1
    accumulate: int = 1
    learning_rate: float = 4e-4
    warm_up: int = 50
    weight_decay: float = 1e-5
    clip: float = 1.0
    foreground: float = 0.67
    ema: float = 0.0
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    validate_every: int = 0
    save_every: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        _expect(self, "window", self.window, 3)
        for name in ("steps", "batch", "accumulate"):
            _whole(name, getattr(self, name), 1)
        for name in ("warm_up", "validate_every", "save_every", "seed"):
            _whole(name, getattr(self, name), 0)
        for name in ("learning_rate", "weight_decay", "clip", "foreground", "ema"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or value < 0:
                raise ValueError(f"{name} is a number of 0 or more (4.0e-4, not 4e-4, in YAML), not {value!r}")
        if self.foreground > 1 or self.ema >= 1:
            raise ValueError(f"foreground is at most 1 and ema below 1, these are {self.foreground} and {self.ema}")
        if self.precision not in ("32-true", "bf16-mixed"):
            raise ValueError(f'precision is "32-true" or "bf16-mixed", not {self.precision!r}')


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The whole plan.

    Args:
        names: Class names, background at 0.
        preparation: What is done to a scan.
        network: Which network.
        recipe: How it is trained; None for weights that came from elsewhere.
        window: Voxels of a window of prediction along the three axes.
        postprocessing: What is done to label maps after the network, in this order.
        data: Where it learned: the data set's folder as given, the cases for training and for validation.
        regions: Classes that make up a region, by the region's index; a label map has a voxel's innermost region.
        notes: What a reader should know, each a sentence.
    """

    names: dict[int, str]
    preparation: Preparation
    network: Network
    recipe: Recipe | None = None
    window: tuple[int, int, int] = (96, 96, 96)
    postprocessing: tuple[Step, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    regions: dict[int, list[int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _expect(self, "window", self.window, 3)
        if not isinstance(self.names, dict) or sorted(self.names) != list(range(len(self.names))):
            raise ValueError(f"names go from 0, the background, to the last class without a gap, not {self.names!r}")
        for name, kind in (("preparation", Preparation), ("network", Network)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} is missing")
        if not isinstance(self.postprocessing, tuple) or not all(isinstance(one, Step) for one in self.postprocessing):
            raise ValueError(f"postprocessing is a list of steps, not {self.postprocessing!r}")
        check_classes(self.postprocessing, self.names)
        regions = self.regions.items() if isinstance(self.regions, dict) else [(None, self.regions)]
        for index, parts in regions:
            if not isinstance(parts, list) or not {index, *parts} <= self.names.keys():
                raise ValueError(f"regions are lists of classes by class, not {index!r}: {parts!r}")

    def write(self, path: Path) -> None:
        """Write the YAML file, all or nothing."""
        write_text(path, yaml.safe_dump(_plain(self), sort_keys=False, allow_unicode=True))

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """Read a plan.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is not YAML, or a key is unknown, missing or of the wrong kind; the message names it.
        """
        return read_record(cls, path, _RECORDS)


_RECORDS: dict[str, type] = {
    "preparation": Preparation,
    "network": Network,
    "recipe": Recipe,
    "monai": MonaiOptions,
    "postprocessing": Step,
}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _expect(record: object, name: str, value: object, count: int) -> None:
    numbers = isinstance(value, tuple) and all(isinstance(one, int | float) for one in value)
    if not numbers or len(value) != count:  # pyright: ignore[reportArgumentType]
        raise ValueError(f"{type(record).__name__.lower()}: {name} is {count} numbers, not {value!r}")


def _whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is a whole number of {least} or more, not {value!r}")
