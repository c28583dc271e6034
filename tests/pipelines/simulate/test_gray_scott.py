"""The solver is exact where it can be, of second order where not, and the same every time."""

import math
from itertools import pairwise

import pytest
import torch
from fredholm.pipelines.simulate.etd import etd2
from fredholm.pipelines.simulate.gray_scott import DIFFUSION, REGIMES, SPACING, GrayScott


def test_the_step_is_of_second_order_on_the_logistic_equation() -> None:
    errors = []
    for steps in (20, 40, 80):
        u = torch.tensor(0.1, dtype=torch.float64)
        advance = etd2(torch.ones((), dtype=torch.float64), lambda v: -(v**2), 4 / steps)
        for _ in range(steps):
            u = advance(u)
        errors.append(abs(float(u) - 1 / (1 + 9 * math.exp(-4))))
    orders = [math.log2(a / b) for a, b in pairwise(errors)]
    assert orders == pytest.approx([2, 2], abs=0.2)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_diffusion_and_feed_alone_are_exact(dim: int) -> None:
    simulation = GrayScott(feed=0.03, kill=0.06, dim=dim, grid=16)
    wave = 2 * math.pi / (16 * SPACING)
    x = torch.arange(16, dtype=torch.float64) * SPACING
    ripple = 0.2 * torch.cos(wave * x).expand((16,) * dim)
    start = torch.stack((1 + ripple, torch.zeros_like(ripple)))
    *_, last = simulation.frames(start, 5)
    factor = math.exp(-(0.03 + DIFFUSION[0] * wave**2) * 40)
    torch.testing.assert_close(last[0], 1 + factor * ripple, rtol=1e-12, atol=1e-12)
    assert not last[1].any()


def test_the_whole_is_of_second_order_in_time() -> None:
    def last(step: float) -> torch.Tensor:
        simulation = GrayScott(feed=0.029, kill=0.057, grid=16, step=step, every=int(32 / step))
        *_, found = simulation.frames(simulation.start((0,)), 2)
        return found

    truth = last(1 / 16)
    first, second = ((last(step) - truth).abs().max() for step in (2.0, 1.0))
    assert math.log2(first / second) == pytest.approx(2, abs=0.25)


def test_a_seed_is_a_start() -> None:
    simulation = GrayScott(feed=0.029, kill=0.057, grid=16)
    assert torch.equal(simulation.start((1, 2)), simulation.start((1, 2)))
    assert not torch.equal(simulation.start((1, 2)), simulation.start((1, 3)))


@pytest.mark.parametrize("regime", REGIMES)
def test_every_regime_lives(regime: str) -> None:
    feed, kill = REGIMES[regime]
    simulation = GrayScott(feed=feed, kill=kill, every=1000)
    *_, (_, b) = simulation.frames(simulation.start((0, 0)), 2)
    assert b.std() > 0.01
