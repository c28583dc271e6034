"""Universal interpolation as a residual: nothing without alpha, one set of anchors, and every weight learns."""

import copy

import pytest
import torch
from fredholm.backbones import (
    Anchors,
    Encoder,
    FieldSurrogate,
    GlobalAttention,
    Hyena,
    Interpolation,
    MixerUNETR,
    PointBody,
    PointITNet,
    ResidualBlock,
    SurrogateBody,
    UniversalInterpolation,
    WindowAttention,
    linear_depth,
    logarithmic_depth,
    residuals,
    without_branch,
)
from fredholm.pipelines.tensors import save_tensors
from safetensors.torch import load_file
from torch import nn


def stack(interpolation: Interpolation | None) -> nn.Module:
    sums = residuals(interpolation, [8] * 3)
    return nn.Sequential(*(ResidualBlock(8, GlobalAttention(8, 2), residual=each) for each in sums))


def segmenter(interpolation: Interpolation | None) -> nn.Module:
    encoder = Encoder(
        attention=WindowAttention(window=3), hyena=Hyena(registers=2), depths=(1, 1, 2, 1), interpolation=interpolation
    )
    return MixerUNETR(1, 2, "HAAI", 12, spatial_dims=2, encoder=encoder)


def surrogate(interpolation: Interpolation | None) -> nn.Module:
    body = SurrogateBody(pattern="HAI", depth=3, dim=8, heads=2, width=4, interpolation=interpolation)
    model = FieldSurrogate(3, 2, ("periodic", "zero"), samples=8, body=body)
    nn.init.ones_(model.out.weight)  # which is 0 at the start
    return model


def classifier(interpolation: Interpolation | None) -> nn.Module:
    body = PointBody(dims=(4, 8), neighbours=3, depth=2, width=8, dropout=0.0, interpolation=interpolation)
    return PointITNet(3, body=body)


STACKS = {
    "blocks": (stack, (2, 5, 8)),
    "segmenter": (segmenter, (2, 1, 32, 64)),
    "surrogate": (surrogate, (2, 8, 6, 3)),
    "points": (classifier, (2, 24, 3)),
}
BUILDS = pytest.mark.parametrize(("build", "shape"), STACKS.values(), ids=STACKS)


def layers(model: nn.Module) -> list[UniversalInterpolation]:
    return [module for module in model.modules() if isinstance(module, UniversalInterpolation)]


@BUILDS
def test_with_alpha_at_zero_old_weights_give_the_same_output(build, shape) -> None:
    plain, new = build(None).double().eval(), build(Interpolation(anchors=4, from_layer=2)).double().eval()
    assert not layers(plain)
    missing, unexpected = new.load_state_dict(plain.state_dict(), strict=False)
    assert not unexpected
    assert missing
    assert all(".residual." in name for name in missing)
    x = torch.randn(shape, dtype=torch.float64)
    assert not torch.allclose(new(x), plain(x), rtol=1e-3)
    for layer in layers(new):
        layer.gamma.data.fill_(-torch.inf)
    torch.testing.assert_close(new(x), plain(x), rtol=0, atol=1e-12)


@BUILDS
def test_every_weight_learns_and_is_stored_once(build, shape, tmp_path) -> None:
    model, other = build(Interpolation(anchors=4)).eval(), build(Interpolation(anchors=4)).eval()
    for weight in model.parameters():
        weight.data.add_(0.1 * torch.randn_like(weight))
    x = torch.randn(shape)
    model(x).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.any(), name
    assert sum("learned" in name for name in model.state_dict()) == 1
    save_tensors(tmp_path / "weights", model.state_dict())
    other.load_state_dict(load_file(tmp_path / "weights"))
    torch.testing.assert_close(other(x), model(x))


def test_alpha_grows_with_depth_as_the_paper_starts_it() -> None:
    alphas = [each.alpha.item() for each in Interpolation().residuals([8] * 48)]
    assert alphas == sorted(alphas)
    assert alphas[0] == pytest.approx(0.277, abs=2e-3)
    assert alphas[-1] == pytest.approx(0.731, abs=1e-3)
    assert logarithmic_depth(1, 48) == 0
    assert linear_depth(48, 48) == 1


def test_all_layers_share_one_set_of_anchors() -> None:
    model = stack(Interpolation(anchors=4))
    first, *others = (layer.anchors() for layer in layers(model))
    layers(model)[0].anchors.learned.data.add_(1)
    for layer, before in zip(layers(model), (first, *others), strict=True):
        assert torch.equal(before, first)
        torch.testing.assert_close(layer.anchors(), first + 1)
    moved = copy.deepcopy(model).double()
    assert {layer.anchors().dtype for layer in layers(moved)} == {torch.float64}


def test_anchors_keep_their_distances_in_layers_of_more_channels() -> None:
    narrow, *wide = Interpolation(anchors=5, outside=2).residuals([6, 12, 24, 12])
    expected = torch.cdist(narrow.anchors(), narrow.anchors())
    for layer, dim in zip(wide, (12, 24, 12), strict=True):
        points = layer.anchors()
        assert points.shape == (7, dim)
        torch.testing.assert_close(torch.cdist(points, points), expected)
    assert torch.equal(wide[0].anchors(), wide[2].anchors())


def test_anchors_from_outside_are_filled_in_and_stored() -> None:
    network, again = (classifier(Interpolation(anchors=4, outside=2)).eval() for _ in range(2))
    x, before = torch.randn(2, 24, 3), network(torch.zeros(2, 24, 3))
    layers(network)[0].anchors.outside.copy_(torch.randn(2, 4))
    assert not torch.allclose(network(torch.zeros(2, 24, 3)), before)
    again.load_state_dict(network.state_dict())
    assert torch.equal(again(x), network(x))


def test_layers_before_the_first_keep_the_plain_residual() -> None:
    model = stack(Interpolation(from_layer=3))
    assert [isinstance(block.residual, UniversalInterpolation) for block in model] == [False, False, True]
    with pytest.raises(ValueError, match="starts at layer 4, and there are 3"):
        stack(Interpolation(from_layer=4))


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


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ValueError, match="depth is linear or logarithmic, not 'square'"):
        Interpolation(depth="square")
    with pytest.raises(ValueError, match="anchors and from_layer are 1 or more"):
        Interpolation(from_layer=0)
