"""The spectral blocks of Fourier operators take part, which in `the_well` 1.2 they do not."""

import sys

import pytest
import torch
from fredholm.backbones import FourierOperator


@pytest.mark.parametrize("tucker", [None, 0.1])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_every_weight_gets_a_gradient(axes: int, tucker: float | None) -> None:
    model = FourierOperator(3, 2, (4,) * axes, dim=8, depth=2, tucker=tucker)
    x = torch.randn(2, *(8, 6, 4)[:axes], 3)
    y = model(x)
    assert y.shape == (*x.shape[:-1], 2)
    y.square().mean().backward()
    without = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.abs().any()]
    assert without == []
    assert any(weight.is_complex() for weight in model.parameters())


def test_a_sample_sees_all_others() -> None:
    model, x = FourierOperator(1, 1, (8,), dim=8), torch.zeros(1, 16, 1, requires_grad=True)
    model(x)[0, 0].sum().backward()
    assert x.grad is not None
    assert (x.grad[0, 1:] != 0).all()


def test_bfloat16_around_it_is_not_its_own() -> None:
    model, x = FourierOperator(1, 1, (4, 4), dim=4, depth=1), torch.randn(1, 8, 8, 1)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model(x), model(x.float()))
        assert model(x).dtype == torch.float32


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neuralop.models", None)
    with pytest.raises(ValueError, match=r"need neuraloperator: pip install 'fredholm\[peers\]'"):
        FourierOperator(1, 1, (4,))
