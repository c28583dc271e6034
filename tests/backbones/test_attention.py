"""Global attention is attention, wherever the positions lie."""

import pytest
import torch
from fredholm.backbones import GlobalAttention, SlidingWindow


def test_it_is_the_formula() -> None:
    attention, x = GlobalAttention(8, 2).double(), torch.randn(2, 3, 5, 8, dtype=torch.float64)
    q, k, v = attention.project(x.reshape(2, 15, 8)).chunk(3, -1)
    heads = []
    for head in (slice(0, 4), slice(4, 8)):
        weights = (q[..., head] @ k[..., head].mT / 2).softmax(-1)
        heads.append(weights @ v[..., head])
    expected = attention.out(torch.cat(heads, -1)).reshape(x.shape)
    torch.testing.assert_close(attention(x), expected, rtol=0, atol=1e-12)


def test_it_does_not_see_the_order_of_positions() -> None:
    attention, x, order = GlobalAttention(6, 3).double(), torch.randn(1, 7, 6, dtype=torch.float64), torch.randperm(7)
    torch.testing.assert_close(attention(x[:, order]), attention(x)[:, order], rtol=0, atol=1e-12)


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="4 heads do not divide 6 channels"):
        GlobalAttention(6, 4)


@pytest.mark.parametrize("grid", [(9,), (5, 6), (4, 3, 5)])
def test_in_a_window_it_sees_what_is_near_along_every_axis(grid) -> None:
    attention = GlobalAttention(4, 2, sees=SlidingWindow(3)).double()
    x = torch.randn(1, *grid, 4, dtype=torch.float64)
    middle = tuple(n // 2 for n in grid)
    changed = x.clone()
    changed[:, *middle] += 1
    places = torch.cartesian_prod(*(torch.arange(n) for n in grid)).view(*grid, -1)
    near = ((places - torch.tensor(middle)).abs() <= 1).all(-1)
    assert torch.equal((attention(changed) - attention(x))[0].abs().amax(-1) > 1e-12, near)


def test_a_window_as_large_as_the_grid_is_global() -> None:
    attention, x = GlobalAttention(6, 3).double(), torch.randn(2, 4, 5, 6, dtype=torch.float64)
    expected = attention(x)
    attention.sees = SlidingWindow(9)
    torch.testing.assert_close(attention(x), expected, rtol=0, atol=1e-12)


def test_a_window_without_a_middle_is_refused() -> None:
    with pytest.raises(ValueError, match="an odd size, got 4"):
        SlidingWindow(4)
