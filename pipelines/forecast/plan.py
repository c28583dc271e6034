"""The plan of a surrogate's run: everything needed to repeat it and to run on with it, as YAML that people can read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from ...backbones import Interpolation
from ...kernels import Boundary
from ..phases import AnchorPhases
from ..recipe import TrainingRecipe, expect_amount, expect_whole
from ..records import Kind, Recorded
from ..well.statistics import ChannelStatistics
from .networks import Body, Model, Ports, network_of

Target = Literal["difference", "state"]
Loss = Literal["vrmse", "mse"]


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What is simulated, and the numbers that normalise it.

    Args:
        name: Of the data set.
        grid: Samples along each axis of the training data.
        edges: What lies at the ends of each axis: PERIODIC, WALL, OPEN, or two of them where the ends differ.
        channels: Names of the changing channels, a vector's component each.
        constant_channels: Names of those that do not change.
        scalars: Names of the parameters; the time step is one of them, the last.
        statistics: Of the changing channels, from the training split.
        constant_statistics: Of the others.
        scalar_mean: Of each parameter, over the trajectories of the training split.
        scalar_std: Of each; 1 where it never varies.
    """

    name: str
    grid: tuple[int, ...]
    edges: tuple[str, ...]
    channels: tuple[str, ...]
    constant_channels: tuple[str, ...]
    scalars: tuple[str, ...]
    statistics: ChannelStatistics
    constant_statistics: ChannelStatistics
    scalar_mean: tuple[float, ...]
    scalar_std: tuple[float, ...]

    @property
    def boundary(self) -> tuple[Boundary, ...]:
        """What the network's convolutions find outside the grid."""
        return tuple("periodic" if edge == "PERIODIC" else "zero" for edge in self.edges)

    def ports(self, history: int) -> Ports:
        """What a network must fit that is given so many known frames."""
        return Ports(
            fields=history * len(self.channels) + len(self.constant_channels),
            following=len(self.channels),
            boundary=self.boundary,
            scalars=len(self.varying),
            grid=self.grid,
        )

    @property
    def varying(self) -> tuple[int, ...]:
        """The parameters that vary in training; of the others nothing can be learned."""
        return tuple(index for index, std in enumerate(self.scalar_std) if std != 1.0)


@dataclass(frozen=True, kw_only=True)
class ForecastRecipe(TrainingRecipe):
    """How a surrogate is trained.

    Args:
        loss: "vrmse", the root of the mean squared error over the target's spatial variance, which is what is scored;
            or "mse", the mean squared error of what the network predicts, normalised.
        noise: Standard deviation of noise on the known frames, as a share of that of the change from step to step.
        unroll: Steps that are run on in training, each from the predictions before it.
    """

    loss: Loss = "vrmse"
    noise: float = 0.0
    unroll: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_amount(self, "noise")
        expect_whole("unroll", self.unroll, 1)
        if self.loss not in ("vrmse", "mse"):
            raise ValueError(f'loss is "vrmse" or "mse", not {self.loss!r}')


@dataclass(frozen=True, kw_only=True)
class SurrogatePlan(Recorded):
    """The whole plan.

    Args:
        simulation: What is simulated.
        model: Which network, by its name in the table of networks.
        network: The network's options, a record of that row's kind.
        history: Frames that are known.
        target: What the network predicts, normalised: the change from the last frame, or the next one.
        recipe: How it is trained.
        data: Where it learned.
        notes: What a reader should know, each a sentence.
    """

    score: ClassVar[str] = "vrmse"
    records: ClassVar[Mapping[str, Kind]] = {
        "simulation": Simulation,
        "statistics": ChannelStatistics,
        "constant_statistics": ChannelStatistics,
        "network": lambda plan: network_of(plan.get("model", "hyena")).body,
        "interpolation": Interpolation,
        "recipe": ForecastRecipe,
        "phases": AnchorPhases,
    }

    simulation: Simulation
    model: Model = "hyena"
    network: Body
    history: int = 4
    target: Target = "difference"
    recipe: ForecastRecipe = field(default_factory=ForecastRecipe)
    data: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect_whole("history", self.history, 1)
        if self.target not in ("difference", "state"):
            raise ValueError(f'target is "difference" or "state", not {self.target!r}')
        bodies = {"simulation": Simulation, "network": network_of(self.model).body, "recipe": ForecastRecipe}
        for name, kind in bodies.items():
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} is missing")

    def build(self) -> nn.Module:
        """The network with new weights.

        Raises:
            ValueError: It cannot be made for the grid, or needs a package that is not installed.
        """
        return network_of(self.model).build(self.simulation.ports(self.history), self.network)

    def load(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The network with these weights, in evaluation mode."""
        model = self.build()
        model.load_state_dict(weights)
        return model.eval()
