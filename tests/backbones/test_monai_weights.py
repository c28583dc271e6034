"""MONAI's weights give MONAI's logits; what does not fit is refused in one line that names it.

`SwinUNETR` is built here. `HyenaNDUNETR` needs nvsubquadratic, which lives in an environment of its own: set
FREDHOLM_PEER_PYTHON to that environment's Python to run the tests marked `peer`.
"""

import os
import re
import subprocess

import pytest
import torch
from fredholm.backbones import MixerUNETR, MonaiOptions, from_monai
from monai.networks.nets import SwinUNETR

TOLERANCE = 1e-4  # of the largest logit
WINDOW = ((64, 64, 64), (96, 64, 64))


def assert_close(found, expected) -> None:
    atol = TOLERANCE * expected.abs().max().item()
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def monai(channels=1, classes=3, feature_size=12, **options) -> SwinUNETR:
    """MONAI's network with noise on every parameter, so that nothing is at its start."""
    model = SwinUNETR(channels, classes, feature_size=feature_size, **options).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * parameter.std(correction=0).clamp(min=0.5) * torch.randn_like(parameter))
    return model


def assert_same_logits(theirs, grid, options=None, channels=1, batch=1) -> MixerUNETR:
    model, x = from_monai(theirs.state_dict(), options), torch.randn(batch, channels, *grid)
    assert not model.training
    with torch.no_grad():
        assert_close(model(x), theirs(x))
    return model


SMALL = {
    "as shipped": {},
    "two images": {"channels": 2, "classes": 5},
    "residual convolutions first": {"use_v2": True},
    "tokens normalised": {"patch_norm": True},
    "long windows": {"window_size": (4, 7, 5)},
    "small windows": {"window_size": 2},
    "no biases": {"qkv_bias": False},
    "uneven depths": {"depths": (1, 2, 3, 1)},
    "affine norms": {"norm_name": ("instance", {"affine": True})},
    "narrow perceptrons": {"mlp_ratio": 2.0},
    "other heads": {"num_heads": (2, 4, 6, 8)},
    "everything": {
        "channels": 2,
        "use_v2": True,
        "patch_norm": True,
        "window_size": (5, 4, 3),
        "qkv_bias": False,
        "depths": (2, 1, 1, 2),
    },
}


@pytest.mark.parametrize("options", SMALL.values(), ids=SMALL)
def test_swin_unetr_gives_the_same_logits(options) -> None:
    """On a window whose four grids are longer, as long and shorter than the attention windows."""
    model = assert_same_logits(monai(**options), (64, 32, 32), channels=options.get("channels", 1))
    assert (model.in_channels, model.out_channels) == (options.get("channels", 1), options.get("classes", 3))
    assert (model.stage_letters, model.feature_size) == ("AAAA", 12)


def test_residual_convolutions_first_are_not_affine_where_the_decoder_is() -> None:
    theirs = monai(spatial_dims=2, use_v2=True, norm_name=("instance", {"affine": True}))
    assert_same_logits(theirs, (64, 64))


@pytest.mark.parametrize("options", [{}, {"use_v2": True, "window_size": (4, 7)}, {"channels": 3, "window_size": 5}])
@pytest.mark.parametrize("grid", [(64, 64), (96, 160)])
def test_swin_unetr_gives_the_same_logits_of_images(options, grid) -> None:
    model = monai(spatial_dims=2, **options)
    assert_same_logits(model, grid, channels=options.get("channels", 1), batch=2)


@pytest.mark.slow
@pytest.mark.parametrize(("grid", "feature_size"), [(WINDOW[0], 24), (WINDOW[1], 12)])
def test_swin_unetr_gives_the_same_logits_of_windows(grid, feature_size) -> None:
    assert_same_logits(monai(feature_size=feature_size), grid, batch=2)
    assert_same_logits(monai(feature_size=feature_size, use_v2=True, window_size=(4, 7, 5)), grid)


@pytest.mark.parametrize("axes", [2, 3])
def test_merging_v2_is_an_option(axes) -> None:
    theirs = monai(spatial_dims=axes, downsample="mergingv2")
    assert_same_logits(theirs, (64, 32, 32)[:axes], MonaiOptions(merging="mergingv2"))
    if axes == 3:  # in the plane the two are the same but for the order of voxels, in space "merging" repeats some
        with pytest.raises(AssertionError, match="not close"):
            assert_same_logits(theirs, (64, 32, 32))


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return monai(spatial_dims=2).state_dict()


@pytest.mark.parametrize("prefix", ["module.", "model.", "_orig_mod.", "network.", "state_dict.", "model.module.", ""])
def test_known_prefixes_are_taken_off(state, prefix) -> None:
    found = from_monai({prefix + name: tensor for name, tensor in state.items()}).state_dict()
    for name, tensor in from_monai(state).state_dict().items():
        assert torch.equal(found[name], tensor)


def test_the_weights_are_copies(state) -> None:
    model = from_monai(state)
    before = state["out.conv.conv.bias"].clone()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert torch.equal(state["out.conv.conv.bias"], before)


def test_the_network_trains(state) -> None:
    model = from_monai(state).train()
    model(torch.randn(2, 1, 64, 64)).square().mean().backward()
    idle = [n for n, p in model.named_parameters() if p.grad is None or p.grad.count_nonzero() == 0]
    assert idle == []


def refusal(state) -> str:
    """The one line with which a state dict is refused."""
    with pytest.raises(ValueError, match=r".") as caught:
        from_monai(state)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


def test_a_tensor_left_over_is_refused(state) -> None:
    words = refusal({**state, "encoder7.layer.conv1.conv.weight": torch.zeros(3)})
    assert "left over: encoder7.layer.conv1.conv.weight; missing: none" in words
    assert f"{len(state)} of {len(state) + 1} tensors matched" in words


PLAIN = ["encoder2.layer.conv1.conv.weight", "decoder3.conv_block.conv3.conv.weight", "out.conv.conv.bias"]
DEEP = [
    "swinViT.layers1.0.downsample.norm.weight",
    "swinViT.layers2.0.blocks.1.attn.proj.bias",
    "swinViT.layers1.0.blocks.0.mlp.linear2.weight",
    "swinViT.layers3.0.blocks.0.attn.relative_position_index",
]
ROOTS = [
    "out.conv.conv.weight",
    "swinViT.patch_embed.proj.weight",
    "swinViT.layers1.0.blocks.0.mlp.linear1.weight",
]


@pytest.mark.parametrize(
    "name",
    [
        *PLAIN,
        *DEEP,
        *ROOTS,
        "swinViT.layers1.0.blocks.0.attn.relative_position_index",
        "swinViT.layers2.0.blocks.0.attn.relative_position_bias_table",
    ],
)
def test_a_tensor_missing_is_refused(state, name) -> None:
    words = refusal({each: tensor for each, tensor in state.items() if each != name})
    leaf = ".".join(name.split(".")[-2:])  # the name may be ours
    assert "missing" in words
    assert leaf in words


def test_a_stage_missing_is_refused(state) -> None:
    words = refusal({name: tensor for name, tensor in state.items() if "layers3." not in name})
    assert "layers3" in words
    assert "missing" in words


def test_a_shape_that_does_not_fit_is_refused(state) -> None:
    name = "encoder2.layer.conv1.conv.weight"
    words = refusal({**state, name: state[name][:, :5]})
    assert "conv1.conv.weight: the weights have shape (12, 5, 3, 3), expected (12, 12, 3, 3)" in words


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"weight": torch.zeros(3)},
        {f"layer{n}.weight": torch.zeros(3) for n in range(100)},
        {"state_dict": {"swinViT.patch_embed.proj.weight": torch.zeros(3)}, "epoch": 3},
        {"swinViT": torch.zeros(3)},
    ],
    ids=["empty", "one", "hundred", "checkpoint", "near"],
)
def test_another_dict_is_refused(wrong) -> None:
    words = refusal(wrong)
    assert "no state dict of SwinUNETR or HyenaNDUNETR: no name starts with 'swinViT.', the first are" in words
    assert all(name in words for name in list(wrong)[:3])


def test_the_encoder_alone_is_refused(state) -> None:
    words = refusal({name: tensor for name, tensor in state.items() if name.startswith("swinViT.")})
    assert "out.conv.conv.weight is missing" in words


def test_batch_norm_is_refused() -> None:
    words = refusal(monai(spatial_dims=2, norm_name="batch").state_dict())
    assert "running_mean" in words
    assert "missing: none" in words


# The peer's side: it reads the cases, builds MONAI's network for each, and writes weights, input and logits.
PEER = """
import sys, torch
from monai.networks.nets import HyenaNDUNETR
torch.manual_seed(0)
torch.set_num_threads(1)
folder = sys.argv[1]
for number, (variant, options, grid) in enumerate(torch.load(folder + "/cases.pt")):
    channels = 2 if number % 2 else 1
    model = HyenaNDUNETR.get_variant(variant, in_channels=channels, out_channels=3, feature_size=12, **options).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.1 * parameter.std(correction=0).clamp(min=0.1)
            if "std_param" in name:
                parameter.mul_(torch.exp(0.5 * torch.randn_like(parameter)))
            else:
                parameter.add_(scale * torch.randn_like(parameter))
        # MONAI clamps some parameters in its forward pass, so the weights are those of before.
        state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        x = torch.randn(1, channels, *grid)
        torch.save({"state_dict": state, "input": x, "logits": model(x)}, f"{folder}/{number}.pt")
"""
ZERO = {"hyena_fft_padding": "zero", "hyena_grid_type": "double"}
CASES = [
    *((variant, {}, grid) for variant in ("HHAA", "HAHA", "HHHH") for grid in WINDOW),
    ("HHAA", ZERO, (64, 64, 64)),
    ("HAHA", ZERO, (96, 64, 64)),
    ("HHAA", {"hyena_fft_padding": "zero"}, (64, 32, 64)),
    ("HHHH", {"hyena_l_cache": 48, "hyena_kernel_mlp_dim": 16, "hyena_kernel_layers": 2}, (64, 32, 64)),
    ("HHAA", {"hyena_kernel_size": 5, "hyena_omega_0": 20.0}, (64, 32, 64)),
    ("HHAA", {"use_v2": True, "patch_norm": True, "depths": (1, 2, 1, 1)}, (64, 32, 64)),
    ("HHAA", {"spatial_dims": 2, "window_size": (4, 7)}, (64, 96)),
    ("HHAA", {"spatial_dims": 2, "hyena_mask_max_attenuation": 0.05}, (64, 96)),
]
OPTIONS = {
    "hyena_fft_padding": "padding",
    "hyena_grid_type": "grid",
    "hyena_l_cache": "cache",
    "hyena_mask_max_attenuation": "attenuation",
}


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    """The folder into which MONAI wrote what it made of each case."""
    python = os.environ.get("FREDHOLM_PEER_PYTHON")
    if not python:
        pytest.skip("set FREDHOLM_PEER_PYTHON to a Python that has monai and nvsubquadratic")
    found = subprocess.run([python, "-c", "import nvsubquadratic, monai"], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"FREDHOLM_PEER_PYTHON cannot import them: {found.stderr.strip().splitlines()[-1]}")
    folder = tmp_path_factory.mktemp("peer")
    torch.save(CASES, folder / "cases.pt")
    made = subprocess.run([python, "-c", PEER, str(folder)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(
            number,
            id=f"{variant}-{'x'.join(map(str, grid))}",
        )
        for number, (variant, told, grid) in enumerate(CASES)
    ],
)
def test_hyena_nd_unetr_gives_the_same_logits(peer, number) -> None:
    variant, told, _ = CASES[number]
    made = torch.load(peer / f"{number}.pt")
    options = MonaiOptions(**{OPTIONS[name]: value for name, value in told.items() if name in OPTIONS})
    model = from_monai(made["state_dict"], options)
    assert model.stage_letters == variant
    with torch.no_grad():
        assert_close(model(made["input"]), made["logits"])
    assert_close(model(made["input"]).detach(), made["logits"])  # the path of training


@pytest.mark.peer
@pytest.mark.slow
def test_a_hyena_state_dict_that_does_not_fit_is_refused(peer) -> None:
    state = torch.load(peer / "0.pt")["state_dict"]
    with pytest.raises(ValueError, match="MONAI's HyenaND knows no double grid with circular padding"):
        from_monai(state, MonaiOptions(grid="double"))
    extra = "swinViT.layers1.0.blocks.0.mixer.mixer.rope"
    assert f"left over: {extra}" in refusal({**state, extra: torch.zeros(3)})
    for name in list(state)[::23]:
        words = refusal({each: tensor for each, tensor in state.items() if each != name})
        assert re.search(r"missing: (?!none)|is missing", words), name
