"""The plan of a run: everything needed to repeat it and to predict with it, as a YAML file that people can read.

Made of small records. Reading checks every key, so that a slip of the pen is named and not passed over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from ..backbones import Encoder, Hyena, Interpolation, MixerUNETR, MonaiOptions, from_monai
from .phases import AnchorPhases
from .postprocess import Step, check_classes
from .recipe import TrainingRecipe, expect_numbers, expect_share, expect_whole
from .records import Kind, Recorded
from .structures import stem_and_side

DIRECTIONS = ("right", "front", "head")  # of the patient: where the axes of prepared scans run to


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What is done to a scan before the network sees it.

    Args:
        spacing_mm: Distance between voxels towards the patient's right, front and head, mm.
        window_hu: Hounsfield units that become the ends of `range`; values beyond are cut off.
        range: What they become; air, at or below the lower end, is the first of them.
        windows_of_others: The same as `window_hu` for each further channel, in its own unit.
    """

    spacing_mm: tuple[float, float, float]
    window_hu: tuple[float, float]
    range: tuple[float, float] = (-1.0, 1.0)
    windows_of_others: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        expect_numbers(self, "spacing_mm", self.spacing_mm, 3)
        expect_numbers(self, "window_hu", self.window_hu, 2)
        expect_numbers(self, "range", self.range, 2)
        if min(self.spacing_mm) <= 0:
            raise ValueError(f"spacing_mm: a spacing is three positive numbers of mm, not {self.spacing_mm}")
        if not isinstance(self.windows_of_others, tuple):
            raise ValueError(f"windows_of_others is a list of pairs of numbers, not {self.windows_of_others!r}")
        # pairs are lists in YAML
        others = tuple(tuple(one) if isinstance(one, list) else one for one in self.windows_of_others)
        object.__setattr__(self, "windows_of_others", others)
        for window in others:
            expect_numbers(self, "windows_of_others", window, 2)
            if not window[0] < window[1]:
                raise ValueError(f"windows_of_others go from low to high, this one is {window}")
        if not self.window_hu[0] < self.window_hu[1] or self.range[0] == self.range[1]:
            raise ValueError(
                f"window_hu goes from low to high and range has two ends, these are {self.window_hu} and {self.range}"
            )

    @property
    def windows(self) -> tuple[tuple[float, float], ...]:
        """Of each channel."""
        return (self.window_hu, *self.windows_of_others)


@dataclass(frozen=True, kw_only=True)
class Network:
    """Which network, apart from its classes.

    Args:
        stages: A letter for each encoder stage, A windowed attention, H HyenaND, I ITNet.
        feature_size: Channels of the first stage.
        boundary: What lies outside HyenaND's grids.
        registers: Register tokens of the HyenaND stages; 0 makes their kernels static.
        deep_supervision: Coarser decoder levels that learn too.
        channels: Of the image.
        monai: Set for weights that MONAI trained; they are kept under MONAI's names.
        interpolation: Universal interpolation in the encoder's blocks; None for none.
    """

    stages: str = "HHAA"
    feature_size: int = 48
    boundary: Literal["zero", "periodic"] = "zero"
    registers: int = 0
    deep_supervision: int = 0
    channels: int = 1
    monai: MonaiOptions | None = None
    interpolation: Interpolation | None = None

    def __post_init__(self) -> None:
        if self.boundary not in ("zero", "periodic"):
            raise ValueError(f'boundary is "zero" or "periodic", not {self.boundary!r}')
        if not isinstance(self.stages, str):
            raise ValueError(f"stages are letters, not {self.stages!r}")
        for name in ("feature_size", "channels", "registers", "deep_supervision"):
            expect_whole(name, getattr(self, name), 1 if name in ("feature_size", "channels") else 0)

    def build(self, classes: int) -> MixerUNETR:
        """A network with new weights for this many classes.

        Raises:
            ValueError: A stage letter is unknown or a number does not fit.
        """
        hyena = Hyena(boundary=self.boundary, registers=self.registers)
        encoder = Encoder(hyena=hyena, interpolation=self.interpolation)
        return MixerUNETR(
            self.channels,
            classes,
            self.stages,
            self.feature_size,
            encoder=encoder,
            deep_supervision=self.deep_supervision,
        )

    def load(self, weights: Mapping[str, Tensor], classes: int) -> nn.Module:
        """The network with these weights, in evaluation mode."""
        if self.monai is not None:
            return from_monai(weights, self.monai)
        model = self.build(classes)
        model.load_state_dict(weights)
        return model.eval()


@dataclass(frozen=True, kw_only=True)
class Recipe(TrainingRecipe):
    """How a segmenter is trained.

    Args:
        window: Voxels of a patch along the three axes; also the window of prediction.
        foreground: Share of patches that are centred on a labelled voxel.
        class_weights: Of each class's voxels in the cross-entropy, by class index; those that are not there weigh 1.
    """

    window: tuple[int, int, int] = (96, 96, 96)
    foreground: float = 0.67
    class_weights: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_numbers(self, "window", self.window, 3)
        expect_share(self, "foreground")
        weights = self.class_weights.values() if isinstance(self.class_weights, dict) else [None]
        if not all(isinstance(weight, int | float) and weight > 0 for weight in weights):
            raise ValueError(f"class_weights are positive numbers by class index, not {self.class_weights!r}")


@dataclass(frozen=True, kw_only=True)
class Plan(Recorded):
    """The whole plan.

    Args:
        names: Class names, background at 0.
        preparation: What is done to a scan.
        network: Which network.
        recipe: How it is trained; None for weights that came from elsewhere.
        window: Voxels of a window of prediction along the three axes.
        postprocessing: What is done to label maps after the network, in this order.
        data: Where it learned: the data set's folder as given, the cases for training and for validation.
        channels: Of the image, by name.
        mirrored: Those of `right`, `front` and `head` along which half of the training patches are mirrored; never
            `right` where a class has a side, for its mirror image lies on the other one.
        regions: Classes that make up a region, by the region's index; a label map has a voxel's innermost region.
        notes: What a reader should know, each a sentence.
    """

    score: ClassVar[str] = "dice"
    records: ClassVar[Mapping[str, Kind]] = {
        "preparation": Preparation,
        "network": Network,
        "recipe": Recipe,
        "phases": AnchorPhases,
        "monai": MonaiOptions,
        "interpolation": Interpolation,
        "postprocessing": Step,
    }

    names: dict[int, str]
    preparation: Preparation
    network: Network
    recipe: Recipe | None = None
    window: tuple[int, int, int] = (96, 96, 96)
    postprocessing: tuple[Step, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    channels: tuple[str, ...] = ("CT",)
    mirrored: tuple[str, ...] = ()
    regions: dict[int, list[int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect_numbers(self, "window", self.window, 3)
        if not isinstance(self.names, dict) or sorted(self.names) != list(range(len(self.names))):
            raise ValueError(f"names go from 0, the background, to the last class without a gap, not {self.names!r}")
        for name, kind in (("preparation", Preparation), ("network", Network)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} is missing")
        if not isinstance(self.postprocessing, tuple) or not all(isinstance(one, Step) for one in self.postprocessing):
            raise ValueError(f"postprocessing is a list of steps, not {self.postprocessing!r}")
        check_classes(self.postprocessing, self.names)
        counts = (len(self.channels), self.network.channels, len(self.preparation.windows))
        if len({*counts}) > 1:
            raise ValueError(f"channels: {counts[0]} names, {counts[1]} of the network, {counts[2]} windows")
        self._check_mirrored()
        if self.recipe is not None and not self.recipe.class_weights.keys() <= self.names.keys():
            raise ValueError(
                f"recipe: class_weights has {[*self.recipe.class_weights]}, the classes are {[*self.names]}"
            )
        regions = self.regions.items() if isinstance(self.regions, dict) else [(None, self.regions)]
        for index, parts in regions:
            if not isinstance(parts, list) or not {index, *parts} <= self.names.keys():
                raise ValueError(f"regions are lists of classes by class, not {index!r}: {parts!r}")

    def _check_mirrored(self) -> None:
        if not isinstance(self.mirrored, tuple) or not set(self.mirrored) <= set(DIRECTIONS):
            raise ValueError(f"mirrored is a list of {', '.join(DIRECTIONS)}, not {self.mirrored!r}")
        sided = [name for name in self.names.values() if stem_and_side(name)[1]]
        if sided and "right" in self.mirrored:
            raise ValueError(
                f"mirrored: {sided[0]} has a side, and its mirror image towards the right lies on the other one; "
                "leave `right` away"
            )

    def load(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The network with these weights, in evaluation mode."""
        return self.network.load(weights, len(self.names))
