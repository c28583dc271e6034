"""Rounding the weights once changes no result."""

import pytest
import torch
from fredholm.backbones import Encoder, Hyena, MixerUNETR, round_weights
from torch import nn


@pytest.mark.parametrize(("stages", "grid"), [("HHAA", (32, 32, 32)), ("AAAA", (64, 64)), ("HHHH", (64, 64))])
def test_under_autocast_rounded_weights_give_the_same_logits_bit_for_bit(stages: str, grid: tuple[int, ...]) -> None:
    encoder = Encoder(hyena=Hyena(registers=2 if stages == "HHHH" else 0))
    model = MixerUNETR(1, 3, stages, 12, spatial_dims=len(grid), encoder=encoder).eval()
    x = torch.randn(1, 1, *grid)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        before = model(x)
        round_weights(model, torch.bfloat16)
        after = model(x)
    assert torch.equal(before, after)


def test_norms_and_implicit_kernels_keep_all_their_digits() -> None:
    model = MixerUNETR(1, 3, "HHAA", 12, affine_norm=True)
    round_weights(model, torch.bfloat16)
    kinds = {name: weight.dtype for name, weight in model.named_parameters()}
    exact = [name for name, dtype in kinds.items() if dtype == torch.float32]
    assert any(".mixer.kernel." in name for name in exact)
    assert all(
        weight.dtype == torch.float32
        for module in model.modules()
        if isinstance(module, nn.LayerNorm)
        for weight in module.parameters()
    )
    assert all(kinds[name] == torch.bfloat16 for name in kinds if name.startswith(("head", "embed")))
