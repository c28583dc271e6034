"""Sound is of second order between walls, where it meets another material, and where it leaves by open ends."""

import itertools
import math

import pytest
import torch
from fredholm.pipelines.simulate.acoustics import INTERVAL, Acoustics

GRIDS = (32, 64, 128)
TIME = 20 * INTERVAL


def orders(errors: list[float]) -> list[float]:
    return [math.log2(a / b) for a, b in itertools.pairwise(errors)]


def places(simulation: Acoustics) -> tuple[torch.Tensor, ...]:
    return torch.meshgrid(*(torch.as_tensor(one) for one in simulation.axes.values()), indexing="ij")


def pulse(where: torch.Tensor) -> torch.Tensor:
    return torch.exp(-(where**2) / (2 * 0.06**2))


def test_a_standing_wave_between_walls_is_of_second_order() -> None:
    errors, wave = [], 1.5 * math.pi * math.sqrt(5)
    for grid in GRIDS:
        simulation = Acoustics(grid=grid, ends=("WALL", "WALL"))
        x, y = places(simulation)
        shape = torch.cos(math.pi * x) * torch.cos(2 * math.pi * y)
        start = torch.stack((shape, torch.full_like(x, 2.0), torch.full_like(x, 1.5)))
        *_, last = simulation.frames(start, 21)
        across = math.pi / (2 * wave) * math.sin(wave * TIME) * torch.sin(math.pi * x) * torch.cos(2 * math.pi * y)
        errors.append((last[:2] - torch.stack((math.cos(wave * TIME) * shape, across))).abs().max().item())
    assert errors[-1] < 2e-4
    assert orders(errors) == pytest.approx([2, 2], abs=0.3)


@pytest.mark.parametrize("axis", [0, 1])
def test_another_material_reflects_and_lets_through_what_it_must(axis: int) -> None:
    """A pulse meets other speed and impedance, 2 and 6 times its own, in the middle; its twin leaves at the end."""
    reflected, passed = (6 - 1) / (6 + 1), 2 * 6 / (6 + 1)
    errors = []
    for grid in GRIDS:
        simulation = Acoustics(grid=grid, ends=("OPEN", "OPEN"))
        where = places(simulation)[axis]
        other = where > 0.5
        start = torch.stack((pulse(where - 0.25), 1.0 + 2.0 * other, 1.0 + other))
        *_, last = simulation.frames(start, 21)
        there = 0.25 + TIME  # where the pulse would be without the other material
        before = pulse(where - there) + reflected * pulse(1 - where - there) + pulse(where - 0.25 + TIME)
        behind = passed * pulse((where - 0.5) / 2 - (there - 0.5))
        errors.append((last[0] - torch.where(other, behind, before) / 2).abs().max().item())
    assert errors[-1] < 4e-3
    assert orders(errors) == pytest.approx([2, 2], abs=0.15)


def test_walls_keep_the_energy_that_open_ends_let_go() -> None:
    left = []
    for ends in (("WALL", "WALL"), ("WALL", "OPEN")):
        simulation = Acoustics(grid=32, ends=ends)
        start = simulation.start((0, 0))
        density, speed = simulation.medium(start)
        first, *_, last = (
            (p**2 / (density * speed**2) + density * (u**2 + v**2)).sum() for p, u, v in simulation.frames(start, 51)
        )
        left.append((last / first).item())
    assert left[0] == pytest.approx(1, abs=0.05)
    assert left[1] < 0.7


def test_a_seed_is_a_start_in_two_materials() -> None:
    simulation = Acoustics(grid=16)
    start = simulation.start((1, 2))
    assert torch.equal(start, simulation.start((1, 2)))
    assert not torch.equal(start, simulation.start((1, 3)))
    assert [len(field.unique()) for field in simulation.medium(start)] == [2, 2]
