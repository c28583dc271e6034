"""`fredholm pde train`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from lightning_fabric import Fabric

from ...pipelines.devices import Precision, launched, pick_device
from ...pipelines.run import Run
from ...pipelines.training import Trainer
from ..console import bar, note, result
from ..extras import extra
from ..segment.tables import metric_table
from ..training import curves, train

if TYPE_CHECKING:
    from ...pipelines.forecast.plan import SurrogatePlan
    from ...pipelines.well.windows import Windows

EPOCH = 250  # steps that are called an epoch


@dataclass
class TrainSurrogate:
    """Train a surrogate of simulations in The Well's format.

    DATA holds data/train and data/valid with HDF5 files, and stats.yaml, which `fredholm pde stats` computes. The
    surrogate sees the last frames and predicts the next one. Ctrl-C saves the state; --resume goes on.

    Example: fredholm pde train DATA -o RUN --minutes 15
    """

    data: tyro.conf.Positional[Path]
    """Folder of the data set, the one that holds data/."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """Folder of the run, made anew."""

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

    minutes: float | None = None
    """Train for so long; the learning rate's schedule is drawn to fit."""

    epochs: int | None = None
    """Train for so many epochs of 250 steps; 100 if neither minutes nor epochs are given."""

    batch: int = 8
    """Windows in a step."""

    learning_rate: float = 1e-3
    """Highest learning rate."""

    loss: str = "vrmse"
    """vrmse, which is what is scored, or mse of what is predicted, normalised."""

    noise: float = 0.0
    """Noise on the known frames, as a share of the usual change from step to step; steadies long rollouts."""

    unroll: int = 1
    """Steps that are run on in training."""

    ema: float = 0.0
    """Decay of a running mean of the weights, such as 0.99; 0 for none."""

    precision: Precision = "32-true"
    """Arithmetic."""

    validate_every: int = EPOCH
    """Steps from one validation to the next; 0 for one at the end alone."""

    device: str = "auto"
    """auto, cpu, cuda."""

    workers: int = 0
    """Processes that read windows; 0 is the training process itself."""

    seed: int = 0
    """Of weights and of the windows' order."""

    tensorboard: bool = False
    """Draw the log's columns as curves too: `tensorboard --logdir RUN` shows them, or those of a folder of runs."""

    resume: bool = False
    """Go on with the run in RUN as it was planned; other options are the run's."""

    def run(self) -> None:
        """Train."""
        if self.minutes is not None and self.epochs is not None:
            raise ValueError("--minutes and --epochs exclude each other: give one of them")
        with extra("pde"):
            from ...pipelines.forecast.networks import body_of
            from ...pipelines.forecast.plan import ForecastRecipe, SurrogatePlan
            from ...pipelines.forecast.planning import check_fits, simulation_of
            from ...pipelines.forecast.scores import VRMSE
            from ...pipelines.forecast.task import Forecasting
            from ...pipelines.well.windows import Windows
        from ...pipelines.well.folder import WellFolder

        logs = [curves(self.output)] if self.tensorboard else []
        folder = WellFolder.open(self.data)
        if self.resume:
            run = Run.open(self.output, SurrogatePlan.read)
        else:
            recipe = ForecastRecipe(
                steps=EPOCH * (100 if self.epochs is None else self.epochs),
                batch=self.batch,
                learning_rate=self.learning_rate,
                weight_decay=1e-4,
                ema=self.ema,
                precision=self.precision,
                validate_every=self.validate_every,
                seed=self.seed,
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
            run = Run.create(self.output, plan)
        plan = run.plan
        training = Windows(folder, "train", plan.history, plan.recipe.unroll)
        check_fits(plan.simulation, training, str(self.data))
        validation = Windows(folder, "valid", plan.history) if folder.has("valid") else None
        _tell(plan, training)
        device = pick_device(self.device)
        fabric = Fabric(accelerator=device.type, devices=1, precision=plan.recipe.precision)
        with launched(fabric), bar("training") as progress:
            trainer = Trainer(run, Forecasting(plan, training, validation), progress, fabric, self.workers, logs)
            scores = train(trainer, minutes=self.minutes, resume=self.resume)
        if scores is not None:
            result(metric_table(replace(scores, rows={"one step": scores.mean_per_class}), VRMSE))
        result(str(self.output))

    def _options(self) -> dict[str, int | str]:
        """The options of the network that were given."""
        named = {name: getattr(self, name) for name in ("pattern", "depth", "dim", "patch", "modes")}
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
