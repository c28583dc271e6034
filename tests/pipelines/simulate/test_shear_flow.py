"""The flow is exact where theory is, of second order in time, keeps what is kept, and is the same every time."""

import itertools
import math

import pytest
import torch
from fredholm.pipelines.simulate.shear_flow import INTERVAL, ShearFlow


def places(grid: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = 2 * math.pi * torch.arange(grid, dtype=torch.float64) / grid
    return tuple(torch.meshgrid(x, x, indexing="ij"))


def test_the_vortices_of_taylor_and_green_decay_as_they_must() -> None:
    flow, (x, y), wave = ShearFlow(reynolds=50, schmidt=1, grid=16), places(16), 2 * math.pi
    start = torch.stack((2 * wave * torch.cos(x) * torch.cos(y), torch.zeros_like(x)))
    *_, last = flow.frames(start, 5)
    decay = math.exp(-2 * wave**2 * 4 * INTERVAL / 50)
    velocity = decay * torch.stack((-torch.cos(x) * torch.sin(y), torch.sin(x) * torch.cos(y)))
    torch.testing.assert_close(last[1:], velocity, rtol=0, atol=1e-12)


def test_a_tracer_in_a_steady_shear_is_carried_to_second_order_in_time() -> None:
    x, y = places(32)
    start = torch.stack((-2 * math.pi * torch.cos(y), torch.sin(x)))
    errors = []
    for steps in (4, 8, 16):
        *_, last = ShearFlow(reynolds=math.inf, schmidt=1, grid=32, steps=steps).frames(start, 3)
        errors.append((last[0] - torch.sin(x - 2 * math.pi * 2 * INTERVAL * torch.sin(y))).abs().max().item())
    assert [math.log2(a / b) for a, b in itertools.pairwise(errors)] == pytest.approx([2, 2], abs=0.1)


def test_the_fluid_keeps_its_volume_and_the_tracer_its_mean() -> None:
    flow = ShearFlow(reynolds=500, schmidt=0.5, grid=16)
    first, *_, last = flow.frames(flow.start((0,)), 4)
    waves = 2j * math.pi * torch.fft.fftfreq(16, 1 / 16, dtype=torch.float64)
    u, v = torch.fft.fftn(last[1:], dim=(1, 2))
    assert (waves[:, None] * u + waves * v).abs().max() < 1e-9
    assert last[0].mean().item() == pytest.approx(first[0].mean().item(), abs=1e-12)


def test_a_seed_is_a_start() -> None:
    flow = ShearFlow(reynolds=500, schmidt=0.5, grid=16)
    assert torch.equal(flow.start((1, 2)), flow.start((1, 2)))
    assert not torch.equal(flow.start((1, 2)), flow.start((1, 3)))


def test_the_layers_roll_up() -> None:
    flow = ShearFlow(reynolds=1000, schmidt=1, grid=32)
    first, *_, last = flow.frames(flow.start((0, 0)), 21)
    assert last[2].square().mean() > 10 * first[2].square().mean()
    assert last.abs().max() < 3
