"""The flow between walls is exact where theory is, of second order in time, and makes nothing of its own."""

import itertools
import math

import pytest
import torch
from fredholm.pipelines.simulate.burgers import INTERVAL, Burgers


def cole_hopf(simulation: Burgers, time: float) -> torch.Tensor:
    """`u = -2 nu grad log(phi)`, where phi solves the equation of heat (Cole 1951, Hopf 1950)."""
    x, y = torch.meshgrid(*(torch.as_tensor(places) for places in simulation.axes.values()), indexing="ij")
    wave, across = 2 * math.pi, math.pi
    size = 0.9 * math.exp(-simulation.viscosity * (wave**2 + across**2) * time)
    phi = 1 + size * torch.cos(wave * x) * torch.cos(across * y)
    slopes = (
        wave * torch.sin(wave * x) * torch.cos(across * y),
        across * torch.cos(wave * x) * torch.sin(across * y),
    )
    return torch.stack([2 * simulation.viscosity * size * slope / phi for slope in slopes])


def test_a_flow_that_heat_tells_is_met_to_second_order_in_time() -> None:
    errors = []
    for steps in (4, 8, 16):
        simulation = Burgers(viscosity=0.1, grid=48, steps=steps)
        *_, last = simulation.frames(cole_hopf(simulation, 0), 6)
        errors.append((last - cole_hopf(simulation, 5 * INTERVAL)).abs().max().item())
    assert errors[-1] < 1e-4
    assert [math.log2(a / b) for a, b in itertools.pairwise(errors)] == pytest.approx([2, 2], abs=0.15)


def test_no_component_leaves_the_bounds_of_its_start() -> None:
    """Each obeys a maximum principle; what a shock rings by is less than a hundredth on the default grid."""
    simulation = Burgers(viscosity=0.01)
    start = simulation.start((0, 0, 0))
    low, high = start.amin((1, 2)), start.amax((1, 2))
    for frame in simulation.frames(start, 21):
        assert (frame.amax((1, 2)) <= high + 0.01).all()
        assert (frame.amin((1, 2)) >= low - 0.01).all()


def test_a_seed_is_a_start() -> None:
    simulation = Burgers(viscosity=0.02, grid=16)
    start = simulation.start((1, 2))
    assert torch.equal(start, simulation.start((1, 2)))
    assert not torch.equal(start, simulation.start((1, 3)))
    assert start.square().sum(0).max().sqrt().item() == pytest.approx(1)
