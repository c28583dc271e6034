"""Global attention is attention, wherever the positions lie."""

import pytest
import torch
from fredholm.backbones import GlobalAttention


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
