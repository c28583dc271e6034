"""Training: one visible loop on Lightning Fabric.

What a run needs to go on exactly as if it had never stopped is saved with the weights: optimiser, running mean,
random state and the number of the next step, from which patches and learning rate follow.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from ..backbones import ImplicitKernel, UniversalInterpolation
from .devices import Precision, arithmetic
from .interrupts import uninterrupted
from .phases import JOINT, anchors_of
from .recipe import TrainingRecipe
from .run import Run
from .schedule import learning_rate
from .scores import ScoreTable

if TYPE_CHECKING:
    from lightning_fabric import Fabric

LOG_EVERY = 10  # steps that one line of the log sums up
CALIBRATION = 8  # steps that are timed to turn minutes into steps
UNTIMED = 2  # of them, the first, which are slower
ALPHA = "alpha"  # name of the optimiser's group of beta and gamma


class Progress(Protocol):
    """Is told how training goes."""

    def step(self, step: int, steps: int | None, loss: float) -> None:
        """A step was taken; `steps` is None while not yet known."""
        ...

    def note(self, text: str) -> None:
        """Something worth a line."""
        ...


class Task(Protocol):
    """What is learned: all that training must know of data and network."""

    def build(self) -> nn.Module:
        """The network with new weights."""
        ...

    def examples(self, count: int) -> Dataset[Any]:
        """`count` examples, each a function of the plan and of its number alone."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """What is made small, for a batch of examples."""
        ...

    @property
    def held_out(self) -> Sequence[str]:
        """Names of the cases that validation scores; may be empty."""
        ...

    def score(self, forward: Callable[..., Tensor], case: int) -> dict[int, float]:
        """The scores of one held-out case, from the network as a function that cares for device and precision."""
        ...

    def table(self, rows: Mapping[str, Mapping[int, float]]) -> ScoreTable:
        """The scores of all held-out cases."""
        ...

    def better(self, score: float, best: float) -> bool:
        """Whether a mean score is better than another."""
        ...


@dataclass
class Trainer:
    """Trains the network of a run.

    Args:
        run: The run; its plan has a recipe.
        task: What is learned.
        progress: Is told how it goes.
        fabric: Devices and precision.
        workers: Processes that make examples; 0 is this one.
        logs: Are told each line of the log, `step` and columns as log.csv has them, by the first process alone.
    """

    run: Run[Any]
    task: Task
    progress: Progress
    fabric: "Fabric"
    workers: int = 0
    logs: Sequence[Callable[[Mapping[str, float]], None]] = ()

    model: nn.Module = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)
    step: int = field(init=False, default=0)
    validated: int = field(init=False, default=0)
    mean: dict[str, Tensor] = field(init=False, default_factory=dict)
    unlogged: list[float] = field(init=False, default_factory=list)
    seconds: float = field(init=False, default=0.0)
    best: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        torch.manual_seed(self.recipe.seed)
        model = self.task.build()
        if self.recipe.phases is not None:
            self.recipe.phases.start(model)
        groups = _groups(model, self.recipe.weight_decay)
        fused = not any(weight.is_complex() for weight in model.parameters())  # PyTorch fuses real numbers only
        optimizer = torch.optim.AdamW(groups, lr=self.recipe.learning_rate, fused=fused)
        self.model, self.optimizer = cast("tuple", self.fabric.setup(model, optimizer))
        if self.recipe.ema:
            self.mean = {name: value.detach().clone() for name, value in self._weights().items()}

    @property
    def recipe(self) -> TrainingRecipe:
        """The run's recipe."""
        assert self.run.plan.recipe is not None
        return self.run.plan.recipe

    def resume(self) -> None:
        """Go on from the saved state.

        Raises:
            FileNotFoundError: Nothing was saved.
        """
        state = cast("dict", self.run.load_state())
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.mean = state["mean"]
        self.step, self.validated = state["step"], state["validated"]
        self.unlogged, self.seconds, self.best = state["unlogged"], state["seconds"], state["best"]
        torch.set_rng_state(state["random"])
        if self.fabric.is_global_zero:
            self.run.cut_log(self.step)

    def fit(self) -> ScoreTable | None:
        """Train to the last step, then validate and write the weights.

        Returns:
            Dice of the validation cases; None without any, and where the run was finished before.

        Raises:
            FloatingPointError: The loss is no longer a number; the state saved before stays.
            KeyboardInterrupt: After the state was saved.
        """
        if self.step >= self.recipe.steps and self.run.weights_file.is_file():
            return None
        started = time.monotonic() - self.seconds
        with self._saved_if_stopped():
            self._validate_if_due()
            for batch in self._batches():
                self._step(batch)
                self.seconds = time.monotonic() - started
                if self._due(self.recipe.save_every):
                    self.save()
                self._validate_if_due()
            self.save()
            table = self._validate_and_keep_the_best() if self.task.held_out else None
        self._log(**({} if table is None else self._column(table)))
        self.save()
        if self.fabric.is_global_zero:
            self.run.save_weights(self.mean or self._weights())
        self.fabric.barrier()
        return table

    def settle_steps(self, minutes: float) -> None:
        """Time a few steps, and set the number of steps that fill so many minutes.

        The steps are real ones; what they learned is kept. Schedule and plan are drawn anew.
        """
        times = []
        with self._saved_if_stopped():
            for batch in self._batches(CALIBRATION):
                start = time.monotonic()
                self._step(batch)
                times.append(time.monotonic() - start)
        timed = times[UNTIMED:] or times
        each, self.seconds = self.fabric.broadcast((sum(timed) / len(timed), sum(times)))
        steps = max(CALIBRATION + 1, CALIBRATION + int((60 * minutes - self.seconds) / each))
        recipe = replace(
            self.recipe, steps=steps, minutes=minutes, warm_up=min(self.recipe.warm_up, max(8, steps // 10))
        )
        plan = replace(self.run.plan, recipe=recipe)
        self.run = self.run.replan(plan) if self.fabric.is_global_zero else replace(self.run, plan=plan)
        self.progress.note(f"{each:.2f} s a step: {steps} steps in {minutes:g} minutes")

    @torch.inference_mode()
    def validate(self) -> ScoreTable:
        """The scores of each held-out case, with the weights that would be written."""
        kept = {name: value.clone() for name, value in self._weights().items()}
        self.model.load_state_dict({**kept, **self.mean})
        self.model.eval()
        names = self.task.held_out
        share = range(self.fabric.global_rank, len(names), self.fabric.world_size)
        try:
            rows = {names[case]: self.task.score(self._forward, case) for case in share}
        finally:
            self.model.load_state_dict(kept)
            self.model.train()
        rows = self._of_all_processes(rows)
        return self.task.table({name: rows[name] for name in names})

    def save(self) -> None:
        """Write what is needed to go on."""
        if not self.fabric.is_global_zero:
            return
        self.run.save_state(
            {
                "model": self._weights(),
                "optimizer": self.optimizer.state_dict(),
                "mean": self.mean,
                "step": self.step,
                "validated": self.validated,
                "unlogged": self.unlogged,
                "seconds": self.seconds,
                "best": self.best,
                "random": torch.get_rng_state(),
            }
        )

    @contextmanager
    def _saved_if_stopped(self) -> Iterator[None]:
        """Save on Ctrl-C. Each step counts at once or not at all, so what is saved is always between two steps."""
        try:
            yield
        except KeyboardInterrupt:
            self.save()
            raise

    def _validate_if_due(self) -> None:
        if self.task.held_out and self._due(self.recipe.validate_every) and self.validated != self.step:
            table = self._validate_and_keep_the_best()
            self.validated = self.step
            self._log(**self._column(table))

    def _validate_and_keep_the_best(self) -> ScoreTable:
        table = self.validate()
        if self.best is None or self.task.better(table.casewise, self.best):
            self.best = table.casewise
            if self.fabric.is_global_zero:
                self.run.save_weights(self.mean or self._weights(), self.run.best_file)
        return table

    def _of_all_processes(self, rows: dict[str, dict[int, float]]) -> dict[str, dict[int, float]]:
        """The rows of every process together; each case was scored by one of them, so none counts twice."""
        if self.fabric.world_size == 1:
            return rows
        shares: list[dict[str, dict[int, float]]] = [{}] * self.fabric.world_size
        torch.distributed.all_gather_object(shares, rows)
        return {name: row for share in shares for name, row in share.items()}

    def _batches(self, until: int | None = None) -> Iterator[list[Any]]:
        """For each step its batches, as many as are accumulated; each device takes its own examples."""
        recipe, world, rank = self.recipe, self.fabric.world_size, self.fabric.global_rank
        last = (until or recipe.steps) * recipe.accumulate
        numbers = [
            (loop * world + rank) * recipe.batch + index
            for loop in range(self.step * recipe.accumulate, last)
            for index in range(recipe.batch)
        ]
        examples = self.task.examples(last * recipe.batch * world)
        own = torch.Generator()  # PyTorch's own is the network's, and must be after a resume where it was
        loader = DataLoader(examples, recipe.batch, sampler=numbers, num_workers=self.workers, generator=own)
        gathered: list[Any] = []
        for batch in loader:
            gathered.append(batch)
            if len(gathered) == recipe.accumulate:
                yield gathered
                gathered = []

    def _step(self, batches: Sequence[Any]) -> None:
        recipe = self.recipe
        rate = learning_rate(self.step, peak=recipe.learning_rate, warm_up=recipe.warm_up, steps=recipe.steps)
        phase = JOINT if recipe.phases is None else recipe.phases.at(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * (phase.alpha_rate if group.get("name") == ALPHA else 1.0)
        total = 0.0
        for index, batch in enumerate(batches):
            with self.fabric.no_backward_sync(self.model, enabled=index < len(batches) - 1):  # pyright: ignore[reportArgumentType]
                loss = self.task.loss(self.model, self.fabric.to_device(batch)) / len(batches)
                self.fabric.backward(loss)
            total += float(loss.detach())
        total = float(self.fabric.all_reduce(torch.tensor(total, device=self.fabric.device), reduce_op="mean"))  # pyright: ignore[reportArgumentType]
        if not total < float("inf"):
            raise FloatingPointError(
                f"the loss is {total} at step {self.step}: try a lower --learning-rate, or --precision 32-true"
            )
        phase.shape_gradients(anchors_of(self.model))
        self.fabric.clip_gradients(self.model, self.optimizer, max_norm=recipe.clip, error_if_nonfinite=False)
        with uninterrupted():
            self.optimizer.step()
            self.optimizer.zero_grad()
            for name, value in (self._weights() if self.mean else {}).items():
                mean = self.mean[name]
                counts = not (value.is_floating_point() or value.is_complex())
                mean.copy_(value) if counts else mean.lerp_(value, 1 - recipe.ema)
            self.step += 1
            self.unlogged.append(total)
            if self.step % LOG_EVERY == 0:
                self._log()
        self.progress.step(self.step, recipe.steps, total)

    def _log(self, **values: float) -> None:
        if not self.fabric.is_global_zero or not (self.unlogged or values):
            return
        recipe = self.recipe
        rate = learning_rate(self.step - 1, peak=recipe.learning_rate, warm_up=recipe.warm_up, steps=recipe.steps)
        row = {"step": self.step - 1, "lr": rate, "seconds": self.seconds, **values}
        if self.unlogged:
            row["loss"] = sum(self.unlogged) / len(self.unlogged)
        self.unlogged = []
        for log in (self.run.log, *self.logs):
            log(row)

    def _due(self, every: int) -> bool:
        return every > 0 and self.step % every == 0 and self.step < self.recipe.steps

    def _weights(self) -> dict[str, Tensor]:
        return self.model.state_dict()

    def _forward(self, *inputs: Tensor) -> Tensor:
        with arithmetic(self.fabric.device, cast("Precision", self.recipe.precision)):
            return self.model(*(one.to(self.fabric.device) for one in inputs))

    def _column(self, table: ScoreTable) -> dict[str, float]:
        return {self.run.plan.score: table.casewise}


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Weight decay for matrices; none for norms, biases, anchors, and the kernels, which are frequencies and widths.

    What makes alpha is a group of its own where there is any.
    """
    kernels = [part for part in model.modules() if isinstance(part, ImplicitKernel)]
    free = {id(weight) for weight in (*anchors_of(model), *(one for part in kernels for one in part.parameters()))}
    layers = [part for part in model.modules() if isinstance(part, UniversalInterpolation)]
    alphas = [weight for layer in layers for weight in (layer.beta, layer.gamma)]
    own = {id(weight) for weight in alphas}
    common = [weight for weight in model.parameters() if id(weight) not in own]
    decayed = [weight for weight in common if weight.ndim > 1 and id(weight) not in free]
    others = [weight for weight in common if weight.ndim <= 1 or id(weight) in free]
    groups: list[dict[str, object]] = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return [*groups, {"params": alphas, "weight_decay": 0.0, "name": ALPHA}] if alphas else groups
