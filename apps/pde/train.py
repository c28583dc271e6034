"""`fredholm pde train`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from ...pipelines.run import Run
from ..console import note, result
from ..extras import extra
from ..segment.tables import metric_table
from ..training import TrainingOptions, create

if TYPE_CHECKING:
    from ...pipelines.forecast.plan import SurrogatePlan
    from ...pipelines.well.windows import Windows


@dataclass(kw_only=True)
class TrainSurrogate(TrainingOptions):
    """Train a surrogate of simulations in The Well's format.

    DATA holds data/train and data/valid with HDF5 files, and stats.yaml, which `fredholm pde stats` computes. The
    surrogate sees the last frames and predicts the next one. Ctrl-C saves the state; --resume goes on.

    Example: fredholm pde train DATA -o RUN --minutes 15
    """

    data: tyro.conf.Positional[Path]
    """Folder of the data set, the one that holds data/."""

    model: str = "hyena"
    """hyena, or what it is measured against: unet (the classic one) and cnextunet, as in The Well's benchmark, or the
    Fourier operators fno and tfno (extra `peers`). All are given the same frames, constant fields and parameters."""

    pattern: str | None = None
    """hyena: a letter for each block, repeated, H HyenaND, A global attention, I ITNet; HHHA if not given."""

    depth: int | None = None
    """Blocks; of U-nets how often the grid is halved; 4 if not given."""

    dim: int | None = None
    """Channels; of U-nets those of the finest level. If not given 96 for hyena, and for other models what brings the
    number of weights nearest to that of hyena with all defaults."""

    patch: int | None = None
    """hyena: samples along each axis that become one token; 2 if not given."""

    modes: int | None = None
    """fno and tfno: waves along each axis that the weights act on; if not given 16, in a volume 8."""

    history: int = 4
    """Known frames."""

    target: str = "difference"
    """What is predicted: difference, the change from the last frame, or state, the next frame."""

    loss: str = "vrmse"
    """vrmse, which is what is scored, or mse of what is predicted, normalised."""

    noise: float = 0.0
    """Noise on the known frames, as a share of the usual change from step to step; steadies long rollouts."""

    unroll: int = 1
    """Steps that are run on in training."""

    def run(self) -> None:
        """Train."""
        self.check()
        with extra("pde"):
            from ...pipelines.forecast.networks import body_of
            from ...pipelines.forecast.plan import ForecastRecipe, SurrogatePlan
            from ...pipelines.forecast.planning import check_fits, simulation_of
            from ...pipelines.forecast.scores import VRMSE
            from ...pipelines.forecast.task import Forecasting
            from ...pipelines.well.windows import Windows
        from ...pipelines.well.folder import WellFolder

        logs = self.logs()
        folder = WellFolder.open(self.data)
        if self.resume:
            run = Run.open(self.output, SurrogatePlan.read)
        else:
            recipe = ForecastRecipe(
                **self.for_recipe(),
                weight_decay=1e-4,
                loss=self.loss,  # pyright: ignore[reportArgumentType]
                noise=self.noise,
                unroll=self.unroll,
            )
            simulation = simulation_of(folder, Windows(folder, "train", self.history, self.unroll))
            plan = SurrogatePlan(
                simulation=simulation,
                model=self.model,  # pyright: ignore[reportArgumentType]
                network=body_of(self.model, simulation.ports(self.history), self._options()),
                history=self.history,
                target=self.target,  # pyright: ignore[reportArgumentType]
                recipe=recipe,
                data={"folder": str(self.data)},
            )
            plan.build()  # what does not fit is told before a run is made
            run = create(self.output, plan)
        plan = run.plan
        training = Windows(folder, "train", plan.history, plan.recipe.unroll)
        check_fits(plan.simulation, training, str(self.data))
        validation = Windows(folder, "valid", plan.history) if folder.has("valid") else None
        _tell(plan, training)
        scores = self.train(run, Forecasting(plan, training, validation), logs)
        if scores is not None:
            result(metric_table(replace(scores, rows={"one step": scores.mean_per_class}), VRMSE))
        result(str(self.output))

    def _options(self) -> dict[str, Any]:
        """The options of the network that were given."""
        named = {name: getattr(self, name) for name in ("pattern", "depth", "dim", "patch", "modes")}
        named["interpolation"] = self.interpolation.network
        return {name: value for name, value in named.items() if value is not None}


def _tell(plan: "SurrogatePlan", training: "Windows") -> None:
    from ...pipelines.forecast.networks import weights_of

    simulation = plan.simulation
    varying = [simulation.scalars[index] for index in simulation.varying]
    note(
        f"{simulation.name}: {len(training.trajectories)} trajectories, {len(training)} windows; "
        f"{', '.join(simulation.channels)} on {' x '.join(map(str, simulation.grid))}, "
        f"{', '.join(simulation.edges)}; depends on {', '.join(varying) or 'no parameter'}; "
        f"{plan.model} with {weights_of(plan.build()):,} weights"
    )
