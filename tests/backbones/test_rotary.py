"""Turned by their places, a query and a key tell how far the two are apart, and nothing else of the places."""

import pytest
import torch
from fredholm.backbones import AxialRotary, GlobalAttention


@pytest.mark.parametrize("grid", [(7,), (3, 5), (2, 3, 4)])
def test_products_depend_on_the_distance_alone(grid) -> None:
    rotary = AxialRotary(14, len(grid)).double()
    q, k = torch.randn(2, 14, dtype=torch.float64)
    count = torch.Size(grid).numel()
    products = rotary(q.expand(count, 14), grid) @ rotary(k.expand(count, 14), grid).mT
    places = torch.cartesian_prod(*(torch.arange(n) for n in grid)).view(count, -1)
    seen: dict[tuple[int, ...], float] = {}
    for a in range(count):
        for b in range(count):
            lag = tuple((places[a] - places[b]).tolist())
            assert products[a, b].item() == pytest.approx(seen.setdefault(lag, products[a, b].item()), abs=1e-5)
    assert len({round(value, 6) for value in seen.values()}) == len(seen)


def test_lengths_stay() -> None:
    x = torch.randn(2, 3, 20, 8)
    torch.testing.assert_close(AxialRotary(8, 2)(x, (4, 5)).norm(dim=-1), x.norm(dim=-1))


def test_attention_sees_the_order_then() -> None:
    attention, x = GlobalAttention(8, 2, positions=AxialRotary(4, 1)), torch.randn(1, 6, 8)
    order = torch.tensor([1, 0, 2, 3, 4, 5])
    assert not torch.allclose(attention(x[:, order]), attention(x)[:, order], atol=1e-4)


def test_too_few_channels_are_refused() -> None:
    with pytest.raises(ValueError, match="3 axes need heads of 6 channels or more, got 4"):
        AxialRotary(4, 3)
