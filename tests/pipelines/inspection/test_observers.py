"""What is observed is what the layers compute."""

import pytest
import torch
from fredholm.backbones import (
    Encoder,
    FieldSurrogate,
    GlobalAttention,
    Interpolation,
    MixerUNETR,
    SurrogateBody,
    UniversalInterpolation,
    WindowAttention,
    without_branch,
)
from fredholm.pipelines.inspection import observe
from fredholm.pipelines.inspection.measures import entropy_bits, extents
from fredholm.pipelines.inspection.picture import layers_figure

BODY = SurrogateBody(pattern="HA", depth=2, dim=8, heads=2, width=4, interpolation=Interpolation(anchors=4))


@pytest.fixture
def surrogate() -> FieldSurrogate:
    return FieldSurrogate(3, 2, ("periodic", "zero"), samples=8, body=BODY).eval()


def test_each_layer_tells_what_it_has(surrogate) -> None:
    x = torch.randn(2, 8, 6, 3)
    hyena, attention = observe(surrogate, lambda: surrogate(x))
    assert (hyena.name, hyena.mixer) == ("blocks.0", "HyenaND")
    assert (attention.name, attention.mixer) == ("blocks.1", "GlobalAttention")
    assert hyena.found.keys() == {*("alpha", "beta", "gamma", "shares", "rank", "extents", "frequencies", "spectrum")}
    assert attention.found.keys() == {"alpha", "beta", "gamma", "shares", "rank", "entropy", "focus"}
    assert (attention.found["beta"], attention.found["gamma"]) == (2, -1)
    assert sum(attention.found["shares"]) == pytest.approx(1)
    kernel = surrogate.blocks[0].mixer.kernel((2 * (4 // 2) + 1, 5))
    assert hyena.found["extents"] == pytest.approx(extents(kernel[0].detach()))
    assert len(layers_figure([hyena, attention]).axes) == 6


def test_without_data_the_weights_tell_alpha(surrogate) -> None:
    assert [layer.found.keys() for layer in observe(surrogate)] == [{"alpha", "beta", "gamma"}] * 2


def test_nothing_stays_behind(surrogate) -> None:
    observe(surrogate, lambda: surrogate(torch.randn(1, 8, 6, 3)))
    assert not any(module._forward_hooks for module in surrogate.modules())


def test_attention_without_a_question_looks_everywhere(surrogate) -> None:
    attention = surrogate.blocks[1].mixer
    assert isinstance(attention, GlobalAttention)
    torch.nn.init.zeros_(attention.project.weight)
    _, layer = observe(surrogate, lambda: surrogate(torch.randn(2, 8, 16, 3)))
    assert layer.found["entropy"] == pytest.approx(5)
    assert layer.found["focus"] == pytest.approx(0, abs=1e-6)


def test_the_entropy_of_windows_is_that_of_monais_own_softmax() -> None:
    encoder = Encoder(attention=WindowAttention(window=4), depths=(1, 1, 1, 2))
    model = MixerUNETR(1, 2, "HHHA", 12, spatial_dims=2, encoder=encoder).eval()
    block = model.stages[3].blocks[1]  # shifted
    torch.nn.init.normal_(block.attn.qkv.weight)
    own, x = [], torch.randn(1, 1, 96, 96)
    handle = block.attn.softmax.register_forward_hook(lambda _, __, p: own.append(entropy_bits(p.detach().double())))
    model(x)  # with gradients, for without them MONAI takes no softmax of its own
    handle.remove()
    layer = observe(model, lambda: model(x))[-1]
    assert layer.mixer == "WindowAttention"
    assert layer.found["entropy"] == pytest.approx(own[0], rel=1e-5)


def test_the_weights_of_anchors_are_those_of_the_mix() -> None:
    (layer,) = Interpolation(anchors=5, outside=1).residuals([8])
    assert isinstance(layer, UniversalInterpolation)
    layer.double().base = without_branch
    layer.gamma.data.fill_(torch.inf)
    layer.anchors.outside.normal_()
    x, branch = torch.randn(2, 3, 7, 8, dtype=torch.float64)
    torch.testing.assert_close(layer.weights(branch) @ layer.anchors(), layer(x, branch))
