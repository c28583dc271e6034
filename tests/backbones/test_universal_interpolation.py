"""Universal interpolation as a residual: nothing without alpha, one set of anchors, and every weight learns."""

import pytest
import torch
from fredholm.backbones import (
    Anchors,
    FieldSurrogate,
    GlobalAttention,
    Interpolation,
    ResidualBlock,
    SurrogateBody,
    UniversalInterpolation,
    linear_depth,
    logarithmic_depth,
    without_branch,
)
from torch import nn


def stack(interpolation: Interpolation | None, layers: int = 3) -> nn.Sequential:
    residuals = interpolation.residuals(8, layers) if interpolation else [torch.add] * layers
    return nn.Sequential(*(ResidualBlock(8, GlobalAttention(8, 2), residual=each) for each in residuals)).double()


def test_with_alpha_at_zero_old_weights_give_the_same_output() -> None:
    plain, new = stack(None), stack(Interpolation())
    missing, unexpected = new.load_state_dict(plain.state_dict(), strict=False)
    assert not unexpected
    assert all(".residual." in name for name in missing)
    for module in new.modules():
        if isinstance(module, UniversalInterpolation):
            module.gamma.data.fill_(-torch.inf)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    torch.testing.assert_close(new(x), plain(x), rtol=0, atol=1e-12)


def test_alpha_grows_with_depth_as_the_paper_starts_it() -> None:
    alphas = [each.alpha.item() for each in Interpolation().residuals(8, 48)]
    assert alphas == sorted(alphas)
    assert alphas[0] == pytest.approx(0.277, abs=2e-3)
    assert alphas[-1] == pytest.approx(0.731, abs=1e-3)
    assert logarithmic_depth(1, 48) == 0
    assert linear_depth(48, 48) == 1


def test_all_layers_share_one_set_of_anchors() -> None:
    model = stack(Interpolation(anchors=4))
    assert len({id(block.residual.anchors) for block in model}) == 1
    assert sum(weight.shape == (4, 8) for name, weight in model.named_parameters() if "learned" in name) == 1


def test_layers_before_the_first_keep_the_plain_residual() -> None:
    model = stack(Interpolation(from_layer=3))
    assert [isinstance(block.residual, UniversalInterpolation) for block in model] == [False, False, True]


def test_with_the_papers_base_and_alpha_at_one_the_result_lies_among_the_anchors() -> None:
    anchors = Anchors(8, 4)
    layer = UniversalInterpolation(anchors, 1.0, base=without_branch).double()
    layer.gamma.data.fill_(torch.inf)
    y = layer(*torch.randn(2, 6, 8, dtype=torch.float64))
    points = anchors().detach()
    weights = torch.linalg.lstsq(points.T, y.T.detach()).solution
    torch.testing.assert_close(points.T @ weights, y.T.detach())
    assert (weights > 0).all()
    torch.testing.assert_close(weights.sum(0), torch.ones(6, dtype=torch.float64))


def test_anchors_from_outside_weigh_less_and_do_not_learn() -> None:
    outside = torch.randn(2, 8)
    anchors = Anchors(8, 4, outside)
    assert anchors.shares.tolist() == pytest.approx([1, 1, 1, 1, 0.3, 0.3])
    assert torch.equal(anchors()[4:], outside)
    layer = UniversalInterpolation(anchors, 0.5)
    layer(*torch.randn(2, 3, 8)).sum().backward()
    assert {name for name, _ in layer.named_parameters()} == {
        *("anchors.learned", "project.weight", "project.bias", "beta", "gamma")
    }
    with pytest.raises(ValueError, match=r"anchors from outside must be \(anchors, 8\)"):
        Anchors(8, 4, torch.randn(2, 7))


@pytest.mark.parametrize("pattern", ["HA", "HI"])
def test_every_weight_of_a_surrogate_with_anchors_learns(pattern) -> None:
    body = SurrogateBody(pattern=pattern, depth=2, dim=8, heads=2, width=4, interpolation=Interpolation(anchors=4))
    model = FieldSurrogate(3, 2, ("periodic", "zero"), samples=8, body=body)
    for weight in model.parameters():
        weight.data.add_(0.1 * torch.randn_like(weight))
    model(torch.randn(2, 8, 6, 3)).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.any(), name


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ValueError, match="depth is linear or logarithmic, not 'square'"):
        Interpolation(depth="square")
    with pytest.raises(ValueError, match="anchors and from_layer are 1 or more"):
        Interpolation(from_layer=0)
