"""A surrogate learns from windows: what it predicts is undone exactly, in each unit, and every window has its turn."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fredholm.backbones import Interpolation, SurrogateBody
from fredholm.pipelines.forecast.plan import ForecastRecipe, SurrogatePlan
from fredholm.pipelines.forecast.planning import check_fits, simulation_of
from fredholm.pipelines.forecast.stepping import Stepper
from fredholm.pipelines.forecast.task import Examples, Forecasting
from fredholm.pipelines.well.folder import WellFolder
from fredholm.pipelines.well.statistics import compute_statistics, write_statistics
from fredholm.pipelines.well.windows import Windows
from helpers.well import write_set
from torch.utils.data import default_collate


@pytest.fixture
def folder(tmp_path: Path) -> WellFolder:
    found = WellFolder.open(write_set(tmp_path / "set"))
    write_statistics(found.statistics_file, compute_statistics(found.files("train")))
    return found


@pytest.fixture
def plan(folder: WellFolder) -> SurrogatePlan:
    body = SurrogateBody(pattern="H", depth=1, dim=8, heads=1, width=4)
    return SurrogatePlan(simulation=simulation_of(folder, Windows(folder, "train")), network=body, history=2)


@pytest.mark.parametrize("interpolation", [None, Interpolation(anchors=8, from_layer=2, depth="logarithmic")])
def test_a_plan_comes_back(plan: SurrogatePlan, tmp_path: Path, interpolation: Interpolation | None) -> None:
    plan = replace(plan, network=replace(plan.network, interpolation=interpolation))
    plan.write(tmp_path / "plan.yaml")
    assert SurrogatePlan.read(tmp_path / "plan.yaml") == plan


def test_what_the_data_say_is_in_the_plan(plan: SurrogatePlan) -> None:
    """G4: a checkpoint does not give its scores again if these are not kept with it."""
    simulation = plan.simulation
    assert simulation.boundary == ("periodic", "zero")
    assert simulation.edges == ("PERIODIC", "WALL")
    assert simulation.scalars == ("viscosity", "time step")
    assert simulation.varying == ()


@pytest.mark.parametrize("target", ["difference", "state"])
def test_decoding_undoes_encoding(plan: SurrogatePlan, target) -> None:
    stepper, last, following = Stepper(plan.simulation, target), torch.randn(2, 8, 6, 3), torch.randn(2, 8, 6, 3)
    torch.testing.assert_close(stepper.decode(last, stepper.encode(last, following)), following)


def test_a_new_surrogate_of_differences_says_that_things_go_on(plan: SurrogatePlan) -> None:
    stepper, history = Stepper(plan.simulation, "difference"), torch.randn(2, 2, 8, 6, 3)
    around = stepper.surroundings(torch.zeros(2, 8, 6, 0), torch.full((2, 1), 0.25), torch.full((2,), 0.5))
    with torch.no_grad():
        found = stepper.step(plan.build(), history, around)
    torch.testing.assert_close(found, history[:, -1] + torch.tensor(plan.simulation.statistics.mean_delta))


def test_every_window_has_its_turn_in_an_order_of_the_seed(folder: WellFolder) -> None:
    windows = Windows(folder, "train")
    count = len(windows)
    seen = [Examples(windows, 2 * count, 3, 0.0)[number].window.history for number in range(2 * count)]
    first = {tensor.sum().item() for tensor in seen[:count]}
    assert first == {tensor.sum().item() for tensor in seen[count:]}
    assert len(first) == count
    again = Examples(windows, count, 3, 0.0)
    assert all(torch.equal(again[number].window.history, seen[number]) for number in reversed(range(count)))


@pytest.mark.parametrize("loss", ["vrmse", "mse"])
def test_perfect_foresight_costs_nothing(folder: WellFolder, plan: SurrogatePlan, loss) -> None:
    plan = replace(plan, recipe=ForecastRecipe(loss=loss, unroll=2))
    windows = Windows(folder, "train", 2, 2)
    task = Forecasting(plan, windows)
    batch = default_collate([task.examples(3)[number] for number in range(3)])
    stepper, target, calls = Stepper(plan.simulation, plan.target), batch.window.target, []

    def oracle(_: torch.Tensor) -> torch.Tensor:
        last = target[:, 0] if calls else batch.window.history[:, -1]
        calls.append(1)
        return stepper.encode(last, target[:, len(calls) - 1])

    assert float(task.loss(oracle, batch)) < 1e-5  # pyright: ignore[reportArgumentType]
    assert len(calls) == 2


def test_noise_is_a_function_of_the_number(folder: WellFolder) -> None:
    windows = Windows(folder, "train")
    one, other = (Examples(windows, 8, 0, 0.5) for _ in range(2))
    assert torch.equal(one[5].noise, other[5].noise)
    assert not torch.equal(one[5].noise, one[6].noise)


def test_held_out_trajectories_are_scored_by_channel(folder: WellFolder, plan: SurrogatePlan) -> None:
    task = Forecasting(plan, Windows(folder, "train", 2), Windows(folder, "valid", 2))
    with torch.no_grad():
        rows = {name: task.score(plan.build(), case) for case, name in enumerate(task.held_out)}
    assert list(rows) == ["trajectory 0", "trajectory 1"]
    assert all(list(row) == [1, 2, 3] for row in rows.values())
    assert task.better(0.1, 0.2)


def test_data_of_other_fields_are_refused(folder: WellFolder, plan: SurrogatePlan) -> None:
    """G4: other fields, or the same in another order."""
    other = replace(plan.simulation, channels=("density",))
    with pytest.raises(ValueError, match=r"has fields \['density', 'velocity_x', 'velocity_y'\], the run learned with"):
        check_fits(other, Windows(folder, "test"), "set")
