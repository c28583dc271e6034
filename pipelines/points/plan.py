"""The plan of a classifier's run: everything needed to repeat it and to classify, as YAML that people can read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor, nn

from ...backbones import Interpolation, PointBody, PointITNet
from ..phases import AnchorPhases
from ..recipe import TrainingRecipe, expect_share, expect_whole
from ..records import Kind, Recorded
from .augment import Augmentation


@dataclass(frozen=True, kw_only=True)
class PointRecipe(TrainingRecipe):
    """How a classifier is trained.

    Args:
        smoothing: Share of the label that is spread over all classes in the loss.
    """

    smoothing: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_share(self, "smoothing")


@dataclass(frozen=True, kw_only=True)
class PointPlan(Recorded):
    """The whole plan.

    Args:
        names: The classes.
        points: Points of a cloud that the network sees.
        normals: Whether it sees their normals.
        network: Which network.
        augmentation: How training clouds are changed.
        recipe: How it is trained.
        data: Where it learned.
        notes: What a reader should know, each a sentence.
    """

    score: ClassVar[str] = "accuracy"
    records: ClassVar[Mapping[str, Kind]] = {
        "network": PointBody,
        "interpolation": Interpolation,
        "augmentation": Augmentation,
        "recipe": PointRecipe,
        "phases": AnchorPhases,
    }

    names: tuple[str, ...]
    points: int = 512
    normals: bool = False
    network: PointBody = field(default_factory=PointBody)
    augmentation: Augmentation = field(default_factory=Augmentation)
    recipe: PointRecipe = field(default_factory=PointRecipe)
    data: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.names) < 2 or len({*self.names}) < len(self.names):
            raise ValueError(f"names are two or more classes, each once, not {self.names!r}")
        stages = len(self.network.dims) - 1
        least = self.network.neighbours * self.network.shrink ** max(0, stages - 1) if stages else 1
        expect_whole("points", self.points, least)

    def build(self) -> PointITNet:
        """The network with new weights."""
        return PointITNet(len(self.names), 3 * self.normals, self.network)

    def load(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The network with these weights, in evaluation mode."""
        model = self.build()
        model.load_state_dict(weights)
        return model.eval()
