"""Registers stand in front of a grid and come off again; a pool is a mean of theirs with learned weights."""

import math

import pytest
import torch
from fredholm.backbones import RegisterPool, Registers
from hypothesis import given, settings
from hypothesis import strategies as st

GRIDS = [(6,), (4, 3), (5, 1), (3, 2, 4), (1, 1, 1)]
COUNTS = (1, 3, 4, 9)

every_grid = pytest.mark.parametrize("grid", GRIDS)
every_count = pytest.mark.parametrize("count", COUNTS)


@every_grid
@every_count
def test_split_gives_back_what_prepend_took(grid, count) -> None:
    registers, x = Registers(count, 5), torch.randn(2, *grid, 5)
    longer = registers.prepend(x)
    rest, tokens = registers.split(longer, grid[0])
    assert torch.equal(rest, x)
    assert torch.equal(tokens, registers.tokens.expand(2, -1, -1))


@every_grid
@every_count
def test_registers_are_the_first_tokens_and_the_rest_of_their_planes_is_zero(grid, count) -> None:
    registers, x = Registers(count, 5), torch.randn(2, *grid, 5)
    longer = registers.prepend(x)
    planes = math.ceil(count / math.prod(grid[1:]))
    assert longer.shape == (2, grid[0] + planes, *grid[1:], 5)
    tokens = longer.flatten(1, -2)
    assert torch.equal(tokens[:, :count], registers.tokens.expand(2, -1, -1))
    assert tokens[:, count : planes * math.prod(grid[1:])].count_nonzero() == 0
    assert torch.equal(longer[:, planes:], x)


@settings(deadline=None, max_examples=40)
@given(grid=st.lists(st.integers(1, 5), min_size=1, max_size=3), count=st.integers(1, 30))
def test_a_round_trip_restores_any_grid(grid, count) -> None:
    registers, x = Registers(count, 2), torch.randn(1, *grid, 2)
    carried = torch.randn(1, count, 2)
    rest, tokens = registers.split(registers.prepend(x, carried), grid[0])
    assert torch.equal(rest, x)
    assert torch.equal(tokens, registers.tokens + carried)


@every_grid
def test_carried_registers_are_added(grid) -> None:
    registers, x, carried = Registers(4, 5), torch.randn(3, *grid, 5), torch.randn(3, 4, 5)
    _, tokens = registers.split(registers.prepend(x, carried), grid[0])
    assert torch.equal(tokens, registers.tokens + carried)


@every_grid
def test_gradients_reach_tokens_carried_ones_and_the_grid(grid) -> None:
    registers = Registers(4, 5)
    x, carried = torch.randn(2, *grid, 5, requires_grad=True), torch.randn(2, 4, 5, requires_grad=True)
    registers.prepend(x, carried).sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))
    assert torch.equal(carried.grad, torch.ones_like(carried))
    assert torch.equal(registers.tokens.grad, torch.full((4, 5), 2.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_grid_keeps_its_type(dtype) -> None:
    longer = Registers(3, 5).prepend(torch.randn(2, 4, 3, 5).to(dtype))
    assert longer.dtype == dtype


@every_grid
@every_count
def test_a_pool_starts_as_the_mean_of_the_registers(grid, count) -> None:
    registers, pool = Registers(count, 5), RegisterPool(count)
    longer = registers.prepend(torch.randn(2, *grid, 5), torch.randn(2, count, 5))
    _, tokens = registers.split(longer, grid[0])
    torch.testing.assert_close(pool(longer), tokens.mean(1))


def test_a_pool_is_a_convex_combination_of_registers_and_of_nothing_else() -> None:
    pool, x = RegisterPool(4), torch.randn(3, 5, 2, 6)
    with torch.no_grad():
        pool.scores.copy_(torch.randn(4) * 2)
    tokens = x.flatten(1, -2)[:, :4]
    weights = pool.scores.exp() / pool.scores.exp().sum()
    pooled = pool(x)
    assert pooled.shape == (3, 6)
    torch.testing.assert_close(pooled, (weights[:, None] * tokens).sum(1))
    assert (pooled <= tokens.amax(1) + 1e-6).all()
    assert (pooled >= tokens.amin(1) - 1e-6).all()
    other = x.clone()
    other[:, 2:] += 1  # the registers fill the first two planes
    assert torch.equal(pool(other), pooled)


def test_large_scores_choose_one_register() -> None:
    pool, x = RegisterPool(4), torch.randn(3, 5, 2, 6)
    with torch.no_grad():
        pool.scores[2] = 200.0
    torch.testing.assert_close(pool(x), x.flatten(1, -2)[:, 2])


def test_a_pool_passes_gradients() -> None:
    pool, x = RegisterPool(4), torch.randn(3, 5, 2, 6, requires_grad=True)
    (pool(x) * torch.randn(3, 6)).sum().backward()
    assert pool.scores.grad.count_nonzero() == 4
    assert (x.grad.flatten(1, -2).abs().sum(-1) > 0).sum(1).tolist() == [4, 4, 4]
