"""Training is a function of its plan: the same on every number of workers, and the same with a stop in the middle."""

import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fredholm.backbones import ImplicitKernel, Interpolation, ResidualBlock, residuals
from fredholm.pipelines import segmenting, training
from fredholm.pipelines.phases import AnchorPhases, anchors_of
from fredholm.pipelines.plan import Network, Plan, Preparation, Recipe
from fredholm.pipelines.run import Run
from fredholm.pipelines.sampling import PreparedCase
from fredholm.pipelines.scores import dice
from fredholm.pipelines.segmenting import Segmenting
from fredholm.pipelines.sliding import Tiling, label_volume
from fredholm.pipelines.training import CALIBRATION, Trainer
from lightning_fabric import Fabric
from safetensors.torch import load_file
from torch import Tensor, nn

SIDE = 16
RECIPE = Recipe(window=(8, 8, 8), steps=12, learning_rate=1e-2, warm_up=3, save_every=0, ema=0.9, seed=5)


@dataclass
class Watcher:
    """Keeps what it is told; asks for a stop after a step."""

    stop_after: int | None = None
    losses: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def step(self, step: int, steps: int | None, loss: float) -> None:
        self.losses.append(loss)
        if step == self.stop_after:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)


class Interrupted(Segmenting):
    """Somebody presses Ctrl-C whenever it is validated."""

    def score(self, forward: object, case: int) -> dict[int, float]:
        raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _often_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "LOG_EVERY", 3)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of two layers, for laws that hold for any."""

    def build(_: Network, classes: int) -> nn.Module:
        return nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.SiLU(), nn.Conv3d(4, classes, 1))

    monkeypatch.setattr(Network, "build", build)


class Deep(nn.Module):
    """Layers that interpolate between two convolutions."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Conv3d(1, 4, 3, padding=1), nn.Conv3d(4, classes, 1)
        sums = residuals(Interpolation(anchors=3), [4, 4])
        self.blocks = nn.Sequential(*(ResidualBlock(4, nn.Linear(4, 4), residual=one) for one in sums))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(x).movedim(1, -1)).movedim(-1, 1))


@pytest.fixture
def deep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Network, "build", lambda _, classes: Deep(classes))


def case(number: int, side: int = SIDE) -> PreparedCase:
    """A bright and a grey ball before a dark ground, with noise."""
    rng = np.random.default_rng(number)
    grid = torch.stack(torch.meshgrid(*(torch.arange(side),) * 3, indexing="ij")).float()
    labels = torch.zeros(side, side, side, dtype=torch.uint8)
    for index in (1, 2):
        centre = torch.from_numpy(rng.uniform(0.3, 0.7, 3) * side).float()
        labels[(grid - centre[:, None, None, None]).norm(dim=0) < side * 0.22] = index
    image = torch.tensor([-0.8, 0.0, 0.7])[labels.long()] + 0.05 * torch.from_numpy(rng.normal(size=labels.shape))
    return PreparedCase.of(f"case {number}", image[None].float().clamp(-1, 1), labels)


def plan(recipe: Recipe = RECIPE, network: Network | None = None) -> Plan:
    return Plan(
        names={0: "background", 1: "grey", 2: "bright"},
        preparation=Preparation(spacing_mm=(1.0, 1.0, 1.0), window_hu=(-100.0, 100.0)),
        network=network or Network(feature_size=12),
        recipe=recipe,
        window=recipe.window,
    )


def trainer(
    folder: Path,
    recipe: Recipe = RECIPE,
    *,
    watcher: Watcher | None = None,
    validation: int = 1,
    workers: int = 0,
    network: Network | None = None,
    side: int = SIDE,
) -> Trainer:
    """A new trainer; on the run in the folder if there is one."""
    run = Run.open(folder) if folder.exists() else Run.create(folder, plan(recipe, network))
    fabric = Fabric(accelerator="cpu", devices=1, precision=recipe.precision)
    cases = [case(number, side) for number in range(3)]
    held_out = [case(9 + number, side) for number in range(validation)]
    return Trainer(run, Segmenting(run.plan, cases, held_out), watcher or Watcher(), fabric, workers)


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(Run.open(folder).weights_file)


def log(folder: Path) -> list[dict[str, float]]:
    rows = Run.open(folder).read_log()
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def assert_same_run(one: Path, other: Path) -> None:
    """Weights bit for bit, and every line of the log but its seconds."""
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(tensor, second[name], rtol=0, atol=0)
    assert log(one) == log(other)


def resumed(folder: Path, recipe: Recipe = RECIPE, **more) -> Trainer:
    again = trainer(folder, recipe, **more)
    torch.manual_seed(1234)  # what a new process may have
    again.resume()
    return again


@pytest.mark.usefixtures("small")
def test_one_seed_gives_bit_equal_losses_and_weights(tmp_path: Path) -> None:  # E6
    watchers = [Watcher(), Watcher()]
    for index, watcher in enumerate(watchers):
        torch.manual_seed(index), torch.rand(index + 1)
        trainer(tmp_path / str(index), watcher=watcher).fit()
    assert watchers[0].losses == watchers[1].losses
    assert len(watchers[0].losses) == RECIPE.steps
    assert_same_run(tmp_path / "0", tmp_path / "1")


@pytest.mark.usefixtures("small")
def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    one, other = Watcher(), Watcher()
    trainer(tmp_path / "a", watcher=one).fit()
    trainer(tmp_path / "b", replace(RECIPE, seed=6), watcher=other).fit()
    assert not set(one.losses) & set(other.losses)


@pytest.mark.usefixtures("small")
def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:  # E6
    for workers in (0, 2):
        trainer(tmp_path / str(workers), workers=workers).fit()
    assert_same_run(tmp_path / "0", tmp_path / "2")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("stop", [1, 5, 6, 11, 12])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_run_that_was_stopped_goes_on_as_if_it_never_had(tmp_path: Path, stop: int, accumulate: int) -> None:
    recipe = replace(RECIPE, accumulate=accumulate)
    trainer(tmp_path / "whole", recipe).fit()
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "halves", recipe, watcher=Watcher(stop_after=stop)).fit()
    assert not (tmp_path / "halves" / "weights.safetensors").exists()
    assert Run.open(tmp_path / "halves").load_state()["step"] == stop
    again = resumed(tmp_path / "halves", recipe)
    assert again.step == stop
    again.fit()
    assert_same_run(tmp_path / "whole", tmp_path / "halves")


IN_PHASES = replace(RECIPE, phases=AnchorPhases(activation=4, joint=8))


@pytest.mark.usefixtures("deep")
def test_anchors_learn_in_phases(tmp_path: Path) -> None:
    taught = trainer(tmp_path / "run", IN_PHASES)
    first = taught.model.get_parameter("blocks.0.residual.beta")
    (anchors,) = anchors_of(taught.model)
    sizes, rates = [], []
    taught.optimizer.register_step_post_hook(
        lambda optimizer, *_: (
            sizes.append(float(anchors.detach().abs().max())),
            rates.append(optimizer.param_groups[2]["lr"] / optimizer.param_groups[0]["lr"]),
        )
    )
    taught.fit()
    assert sizes[:4] == [0.0] * 4
    assert all(size > 0 for size in sizes[4:])
    assert rates == pytest.approx([1.0] * 4 + [0.1] * 4 + [1.0] * 4)
    assert any(weight is first for weight in taught.optimizer.param_groups[2]["params"])
    assert float(first.detach()) != 2.0


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize("stop", [2, 4, 6, 8, 10])
def test_a_run_that_was_stopped_in_a_phase_goes_on_in_it(tmp_path: Path, stop: int) -> None:
    trainer(tmp_path / "whole", IN_PHASES).fit()
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "halves", IN_PHASES, watcher=Watcher(stop_after=stop)).fit()
    resumed(tmp_path / "halves", IN_PHASES).fit()
    assert_same_run(tmp_path / "whole", tmp_path / "halves")


@pytest.mark.usefixtures("small")
def test_it_may_be_stopped_many_times(tmp_path: Path) -> None:
    trainer(tmp_path / "whole").fit()
    watchers = [Watcher(stop_after=stop) for stop in (2, 3, 7, 8)]
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "parts", watcher=watchers[0]).fit()
    for watcher in watchers[1:]:
        with pytest.raises(KeyboardInterrupt):
            resumed(tmp_path / "parts", watcher=watcher).fit()
    last = Watcher()
    resumed(tmp_path / "parts", watcher=last).fit()
    assert [len(watcher.losses) for watcher in (*watchers, last)] == [2, 1, 4, 1, 4]
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.usefixtures("small")
def test_a_run_that_was_killed_goes_on_from_its_last_state_and_cuts_the_log(tmp_path: Path) -> None:
    recipe = replace(RECIPE, save_every=4)
    trainer(tmp_path / "whole", recipe).fit()

    class Killed(Watcher):
        def step(self, step: int, steps: int | None, loss: float) -> None:
            if step == 10:
                raise RuntimeError("power is off")

    with pytest.raises(RuntimeError, match="power is off"):
        trainer(tmp_path / "killed", recipe, watcher=Killed()).fit()
    assert [row["step"] for row in log(tmp_path / "killed")] == [2, 5, 8]
    again = resumed(tmp_path / "killed", recipe)
    assert again.step == 8
    assert [row["step"] for row in log(tmp_path / "killed")] == [2, 5]
    again.fit()
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.usefixtures("small")
def test_a_run_without_a_state_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"state/last\.pt is missing"):
        trainer(tmp_path / "run").resume()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "validation",
    [0, 1],
)
def test_a_finished_run_that_is_resumed_does_nothing_more(tmp_path: Path, validation: int) -> None:  # E5
    trainer(tmp_path / "run", validation=validation).fit()
    weights_before, log_before = weights(tmp_path / "run"), log(tmp_path / "run")
    watcher = Watcher()
    again = resumed(tmp_path / "run", validation=validation, watcher=watcher)
    again.fit()
    assert watcher.losses == []
    assert again.step == RECIPE.steps
    for name, tensor in weights(tmp_path / "run").items():
        assert torch.equal(tensor, weights_before[name])
    assert log(tmp_path / "run") == log_before


@pytest.mark.usefixtures("small")
def test_a_stop_during_validation_goes_on_as_if_it_never_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(RECIPE, validate_every=0)
    trainer(tmp_path / "whole", recipe).fit()
    stopping = trainer(tmp_path / "halves", recipe)
    before = {}
    stopping.task = Interrupted(**vars(stopping.task))
    monkeypatch.setattr(stopping.progress, "step", lambda *_: before.update(clone(stopping.model)))
    stopping.run = stopping.run.replan(plan(replace(recipe, validate_every=6)))
    with pytest.raises(KeyboardInterrupt):
        stopping.fit()
    saved = Run.open(tmp_path / "halves").load_state()["model"]
    for name, tensor in saved.items():  # pyright: ignore[reportAttributeAccessIssue]
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


@pytest.mark.usefixtures("small")
def test_a_stop_during_the_last_validation_loses_no_step(tmp_path: Path) -> None:
    stopping = trainer(tmp_path / "run")
    stopping.task = Interrupted(**vars(stopping.task))
    with pytest.raises(KeyboardInterrupt):
        stopping.fit()
    assert Run.open(tmp_path / "run").load_state()["step"] == RECIPE.steps


@pytest.mark.usefixtures("small")
def test_a_validation_that_was_stopped_is_made_after_all(tmp_path: Path) -> None:
    recipe = replace(RECIPE, validate_every=6, ema=0.0)
    trainer(tmp_path / "whole", recipe).fit()
    stopping = trainer(tmp_path / "halves", recipe)
    stopping.task = Interrupted(**vars(stopping.task))
    with pytest.raises(KeyboardInterrupt):
        stopping.fit()
    resumed(tmp_path / "halves", recipe).fit()
    assert_same_run(tmp_path / "whole", tmp_path / "halves")


@pytest.mark.usefixtures("small")
def test_a_stop_in_the_midst_of_a_step_goes_on_as_if_it_never_had(tmp_path: Path) -> None:
    trainer(tmp_path / "whole").fit()
    stopping = trainer(tmp_path / "halves")
    step = stopping.optimizer.step

    def step_and_stop(*args: object, **more: object) -> None:
        step(*args, **more)  # pyright: ignore[reportArgumentType]
        if stopping.step == 4:
            signal.raise_signal(signal.SIGINT)  # as Ctrl-C does

    stopping.optimizer.step = step_and_stop  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(KeyboardInterrupt):
        stopping.fit()
    resumed(tmp_path / "halves").fit()
    assert_same_run(tmp_path / "whole", tmp_path / "halves")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_names_the_step_and_leaves_the_last_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    calls = []
    supervised = segmenting.deeply_supervised

    def broken(*given) -> Tensor:
        calls.append(1)
        return supervised(*given) * (value if len(calls) == 8 else 1.0)

    recipe = replace(RECIPE, save_every=4)
    trainer(tmp_path / "whole", recipe).fit()
    monkeypatch.setattr(segmenting, "deeply_supervised", broken)
    with pytest.raises(FloatingPointError, match=f"the loss is {value} at step 7: try a lower --learning-rate"):
        trainer(tmp_path / "run", recipe).fit()
    assert Run.open(tmp_path / "run").load_state()["step"] == 4
    assert not (tmp_path / "run" / "weights.safetensors").exists()
    resumed(tmp_path / "run", recipe).fit()
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def clone(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


@pytest.mark.usefixtures("small")
def test_accumulation_makes_one_optimiser_step_of_two_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {}
    for name, recipe in {
        "one": replace(RECIPE, batch=1, accumulate=2, steps=6),
        "other": replace(RECIPE, batch=2, accumulate=1, steps=6),
        "plain": replace(RECIPE, batch=1, accumulate=1, steps=12),
    }.items():
        taught = trainer(tmp_path / name, recipe)
        losses, steps, supervised, step = [], [], segmenting.deeply_supervised, taught.optimizer.step
        monkeypatch.setattr(
            segmenting, "deeply_supervised", lambda *args, f=supervised, kept=losses: (kept.append(1), f(*args))[1]
        )
        taught.optimizer.step = lambda *args, f=step, kept=steps, **more: (kept.append(1), f(*args, **more))
        taught.fit()
        monkeypatch.setattr(segmenting, "deeply_supervised", supervised)
        counts[name] = (len(losses), len(steps))
    assert counts == {"one": (12, 6), "other": (6, 6), "plain": (12, 12)}
    # the mean of two patches, one after the other or both at once
    for first, second in zip(log(tmp_path / "one"), log(tmp_path / "other"), strict=True):
        assert first == pytest.approx(second, rel=1e-3)
    for name, tensor in weights(tmp_path / "one").items():
        torch.testing.assert_close(tensor, weights(tmp_path / "other")[name], rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("small")
def test_the_running_mean_of_the_weights_is_written(tmp_path: Path) -> None:
    taught = trainer(tmp_path / "run", validation=0)
    expected = clone(taught.model)

    class Meaning(Watcher):
        def step(self, step: int, steps: int | None, loss: float) -> None:
            for name, value in clone(taught.model).items():
                expected[name].lerp_(value, 1 - RECIPE.ema)

    taught.progress = Meaning()
    taught.fit()
    assert weights(tmp_path / "run").keys() == expected.keys()
    for name, tensor in weights(tmp_path / "run").items():
        assert torch.equal(tensor, expected[name])
        assert not torch.equal(tensor, taught.model.state_dict()[name])


@pytest.mark.usefixtures("small")
def test_without_a_running_mean_the_last_weights_are_written(tmp_path: Path) -> None:
    taught = trainer(tmp_path / "run", replace(RECIPE, ema=0.0))
    taught.fit()
    for name, tensor in weights(tmp_path / "run").items():
        assert torch.equal(tensor, taught.model.state_dict()[name])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_the_dice_of_the_held_out_cases_is_that_of_the_weights_written(tmp_path: Path, ema: float) -> None:
    recipe = replace(RECIPE, ema=ema, steps=30)
    table = trainer(tmp_path / "run", recipe, validation=2).fit()
    assert table is not None
    assert list(table.rows) == ["case 9", "case 10"]
    model = recipe_network(tmp_path / "run")
    for number in (9, 10):
        held_out = case(number)
        with torch.inference_mode():
            labels = label_volume(held_out.image, model, Tiling(window=recipe.window, overlap=0.25), air=-1.0)
        assert table.rows[held_out.name] == dice(labels, held_out.labels.numpy(), [1, 2])
    assert log(tmp_path / "run")[-1]["dice"] == pytest.approx(table.casewise, rel=1e-5)


def recipe_network(folder: Path) -> nn.Module:
    model = Network().build(3)
    model.load_state_dict(weights(folder))
    return model.eval()


@pytest.mark.usefixtures("small")
def test_validation_on_the_way_is_logged_and_changes_nothing(tmp_path: Path) -> None:
    trainer(tmp_path / "plain").fit()
    trainer(tmp_path / "watched", replace(RECIPE, validate_every=4)).fit()
    assert [row["step"] for row in log(tmp_path / "watched") if "dice" in row] == [3, 7, 11]
    assert [row["step"] for row in log(tmp_path / "plain") if "dice" in row] == [11]
    for name, tensor in weights(tmp_path / "plain").items():
        assert torch.equal(tensor, weights(tmp_path / "watched")[name])


@pytest.mark.usefixtures("small")
def test_without_cases_held_out_nothing_is_scored(tmp_path: Path) -> None:
    assert trainer(tmp_path / "run", replace(RECIPE, validate_every=4), validation=0).fit() is None
    assert not any("dice" in row for row in log(tmp_path / "run"))


@pytest.mark.usefixtures("small")
def test_the_log_has_a_line_for_every_few_steps_with_their_mean_loss(tmp_path: Path) -> None:
    watcher = Watcher()
    trainer(tmp_path / "run", replace(RECIPE, steps=7), watcher=watcher, validation=0).fit()
    rows = Run.open(tmp_path / "run").read_log()
    assert [row["step"] for row in rows] == [2, 5, 6]
    for row, part in zip(rows, (slice(0, 3), slice(3, 6), slice(6, 7)), strict=True):
        assert row["loss"] == pytest.approx(np.mean(watcher.losses[part]), rel=1e-5)
        assert row["lr"] > 0
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)


@pytest.mark.usefixtures("small")
def test_the_state_holds_tensors_and_plain_types_only(tmp_path: Path) -> None:  # I1
    trainer(tmp_path / "run").fit()
    state = torch.load(tmp_path / "run" / "state" / "last.pt", weights_only=True)
    assert {"model", "optimizer", "mean", "step", "random"} <= state.keys()


def clock(monkeypatch: pytest.MonkeyPatch, tick: float = 1.0) -> None:
    """Each look at the clock is so many seconds after the last, so a step takes as many."""
    times = iter(range(10**9))
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: tick * next(times)))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("minutes", "steps"), [(1.0, 60), (0.5, 30), (0.01, CALIBRATION + 1), (-3, CALIBRATION + 1)])
def test_minutes_are_turned_into_steps_that_stand_in_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: float, steps: int
) -> None:
    clock(monkeypatch)
    taught = trainer(tmp_path / "run", replace(RECIPE, warm_up=50))
    taught.settle_steps(minutes)
    recipe = Plan.read(tmp_path / "run" / "plan.yaml").recipe
    assert recipe is not None
    assert (recipe.steps, recipe.minutes) == (steps, minutes)
    assert recipe.warm_up == max(8, steps // 10)
    assert taught.recipe == recipe
    assert taught.step == CALIBRATION
    assert isinstance(taught.progress, Watcher)
    assert taught.progress.notes == [f"1.00 s a step: {steps} steps in {minutes:g} minutes"]


@pytest.mark.usefixtures("small")
def test_the_steps_that_were_timed_count_and_the_rest_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock(monkeypatch)
    watcher = Watcher()
    taught = trainer(tmp_path / "run", watcher=watcher)
    taught.settle_steps(0.25)
    taught.fit()
    assert len(watcher.losses) == taught.recipe.steps == 15
    assert [row["step"] for row in log(tmp_path / "run") if "loss" in row] == [2, 5, 8, 11, 14]


@pytest.mark.usefixtures("small")
def test_a_run_of_minutes_that_was_stopped_goes_on_with_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock(monkeypatch)
    whole = trainer(tmp_path / "whole")
    whole.settle_steps(0.25)
    whole.fit()
    halves = trainer(tmp_path / "halves", watcher=Watcher(stop_after=11))
    halves.settle_steps(0.25)
    with pytest.raises(KeyboardInterrupt):
        halves.fit()
    again = resumed(tmp_path / "halves")
    assert (again.step, again.recipe.steps) == (11, 15)
    again.fit()
    assert_same_run(tmp_path / "whole", tmp_path / "halves")


@pytest.mark.usefixtures("small")
def test_a_stop_while_steps_are_timed_can_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "run", watcher=Watcher(stop_after=4)).settle_steps(1.0)
    assert resumed(tmp_path / "run").step == 4


def test_kernels_norms_and_biases_do_not_decay() -> None:
    model = Network(stages="HHAA", feature_size=12).build(2)
    decayed, free = training._groups(model, 0.5)
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.5, 0.0)
    of_decayed, of_free = ({id(weight) for weight in group["params"]} for group in (decayed, free))  # pyright: ignore[reportGeneralTypeIssues]
    assert of_decayed.isdisjoint(of_free)
    assert len(of_decayed | of_free) == len(list(model.parameters()))
    kernels = [part for part in model.modules() if isinstance(part, ImplicitKernel)]
    assert kernels
    assert {id(weight) for kernel in kernels for weight in kernel.parameters()} <= of_free
    assert all(weight.ndim > 1 for weight in model.parameters() if id(weight) in of_decayed)


REAL = Network(stages="HHAA", feature_size=12)
REAL_RECIPE = Recipe(window=(32, 32, 32), steps=3, learning_rate=1e-3, warm_up=1, save_every=0, ema=0.5)


def test_the_real_network_trains_stops_and_goes_on_bit_for_bit(tmp_path: Path) -> None:  # E6
    whole, options = Watcher(), {"network": REAL, "side": 32, "validation": 0}
    trainer(tmp_path / "whole", REAL_RECIPE, watcher=whole, **options).fit()
    first, second = Watcher(stop_after=1), Watcher()
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "halves", REAL_RECIPE, watcher=first, **options).fit()
    resumed(tmp_path / "halves", REAL_RECIPE, watcher=second, **options).fit()
    assert first.losses + second.losses == whole.losses
    assert_same_run(tmp_path / "whole", tmp_path / "halves")
    model = Run.open(tmp_path / "whole").load_model()
    assert all(torch.isfinite(weight).all() for weight in model.parameters())


def test_the_real_network_trains_with_registers_and_coarser_levels_in_bfloat16(tmp_path: Path) -> None:
    network = replace(REAL, registers=2, deep_supervision=2)
    recipe = replace(REAL_RECIPE, steps=2, precision="bf16-mixed")
    watcher = Watcher()
    trainer(tmp_path / "run", recipe, network=network, side=32, watcher=watcher, validation=1).fit()
    assert np.isfinite(watcher.losses).all()
    assert 0 <= log(tmp_path / "run")[-1]["dice"] <= 1
    assert {tensor.dtype for tensor in weights(tmp_path / "run").values() if tensor.is_floating_point()} == {
        torch.float32
    }


@pytest.mark.slow
def test_the_loss_falls_and_the_balls_are_found(tmp_path: Path) -> None:
    recipe = Recipe(window=(32, 32, 32), steps=40, learning_rate=4e-3, warm_up=5, save_every=0)
    watcher = Watcher()
    table = trainer(tmp_path / "run", recipe, watcher=watcher, network=REAL, side=32).fit()
    assert np.mean(watcher.losses[-10:]) < 0.5 * np.mean(watcher.losses[:5])
    assert table is not None
    assert table.casewise > 0.8
