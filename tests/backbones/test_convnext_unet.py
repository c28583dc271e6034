"""Every weight of the CNextU-net has its part, which in the benchmark's own code is not so."""

import pytest
import torch
from fredholm.backbones import ConvNextUNet


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_every_weight_gets_a_gradient(axes: int) -> None:
    model, x = (
        ConvNextUNet(3, 2, ("periodic", "zero", "zero")[:axes], dim=4, depth=2),
        torch.randn(2, *(4, 8, 4)[:axes], 3),
    )
    y = model(x)
    assert y.shape == (*x.shape[:-1], 2)
    y.square().mean().backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()] == []


def test_as_benchmarked_it_has_as_many_weights_and_its_finest_skip() -> None:
    model = ConvNextUNet(44, 11, ("periodic",) * 2)
    skip = 42 * 11 * 3 * 3
    assert (sum(weight.numel() for weight in model.parameters()) - skip) / 1e6 == pytest.approx(18.6, abs=0.05)


def test_on_a_periodic_axis_it_commutes_with_shifts_by_its_coarsest_cell() -> None:
    model = ConvNextUNet(3, 2, ("periodic", "zero"), dim=4, depth=2).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        x = torch.randn(1, 16, 8, 3).double()
        torch.testing.assert_close(model(x.roll(4, 1)), model(x).roll(4, 1), rtol=0, atol=1e-12)
        assert (model(x.roll(4, 2)) - model(x).roll(4, 2)).abs().max() > 1e-3
