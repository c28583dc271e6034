"""`MixerUNETR`: shapes, that nothing in it is idle, and that batch, layout and compilation change nothing."""

import copy

import pytest
import torch
from fredholm.backbones import (
    Encoder,
    Hyena,
    HyenaND,
    ImplicitKernel,
    MixerUNETR,
    ShortConvolution,
    StepCoordinates,
    WindowAttention,
)
from torch import nn

PATTERNS = ("AAAA", "HHAA", "HAHA", "HHHH")
EACH = [*((each, 0) for each in PATTERNS), ("HHAA", 4), ("HAHA", 4), ("HIIH", 4)]  # stages and registers
IMAGE, VOLUME = (64, 64), (64, 32, 64)  # the coarsest grid has four voxels, which a norm does not turn into zero

every_pattern = pytest.mark.parametrize("stages", PATTERNS)


def assert_close(found, expected, tolerance) -> None:
    atol = tolerance * expected.abs().max().item()
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def perturbed(module):
    """The module with noise on every parameter, so that nothing is at its start."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return module


def network(stages="HHAA", *, axes=2, registers=0, **options) -> MixerUNETR:
    encoder = options.pop("encoder", None) or Encoder(hyena=Hyena(registers=registers), depths=(2, 1, 1, 1))
    return perturbed(MixerUNETR(1, 3, stages, 12, spatial_dims=axes, encoder=encoder, **options))


def assert_all_have_gradients(model, x) -> None:
    outputs = model(x)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    sum((y * torch.randn(y.shape)).sum() for y in outputs).backward()
    idle = [n for n, p in model.named_parameters() if p.grad is None or p.grad.count_nonzero() == 0]
    assert idle == []
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("grid", [(32, 32), (64, 32), (32, 96), (32, 32, 32), (64, 32, 32)])
@every_pattern
def test_logits_have_the_grid_of_the_image(stages, grid, training) -> None:
    model = MixerUNETR(2, 5, stages, 12, spatial_dims=len(grid), encoder=Encoder(depths=(2, 1, 1, 1)))
    y = model.train(training)(torch.randn(1, 2, *grid))
    assert y.shape == (1, 5, *grid)
    assert y.isfinite().all()


@pytest.mark.parametrize("registers", [0, 4])
def test_a_window_of_32_voxels_trains(registers) -> None:
    """The coarsest grid is one voxel, at which MONAI's norms give up (MONAI#4693)."""
    model, x = network(axes=3, registers=registers).train(), torch.randn(2, 1, 32, 32, 32)
    model(x).square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("stages", "registers"), [*((each, 0) for each in PATTERNS), ("HHAA", 4), ("HAHA", 4), ("HIIH", 4)]
)
def test_every_parameter_gets_a_gradient(stages, registers) -> None:
    assert_all_have_gradients(network(stages, registers=registers), torch.randn(2, 1, *IMAGE))


@pytest.mark.parametrize(("stages", "registers"), [("AAAA", 0), ("HHAA", 0), ("HHAA", 4), ("HHHH", 4), ("HHII", 0)])
def test_every_parameter_gets_a_gradient_in_volumes(stages, registers) -> None:
    assert_all_have_gradients(network(stages, axes=3, registers=registers), torch.randn(1, 1, *VOLUME))


@pytest.mark.parametrize(
    "encoder",
    [
        Encoder(convolve_first=True),
        Encoder(patch_norm=True, mlp_ratio=2.0),
        Encoder(merging="mergingv2"),
        Encoder(attention=WindowAttention(window=(4, 7), heads=(2, 4, 8, 12), qkv_bias=False)),
        Encoder(hyena=Hyena(boundary=("periodic", "zero"), registers=2), depths=(1, 2, 1, 1)),
    ],
)
def test_every_parameter_gets_a_gradient_whatever_the_encoder(encoder) -> None:
    model = network(encoder=encoder, affine_norm=True, deep_supervision=3).train()
    assert_all_have_gradients(model, torch.randn(2, 1, *IMAGE))


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("axes", [2, 3])
def test_deep_supervision_gives_coarser_logits_in_training_only(axes, count) -> None:
    model, grid = network(axes=axes, deep_supervision=count), (64, 32, 32)[:axes]
    x = torch.randn(1, 1, *grid)
    found = model.train()(x)
    if count == 0:
        assert found.shape == (1, 3, *grid)
        return
    assert [tuple(y.shape) for y in found] == [(1, 3, *(n // 2**k for n in grid)) for k in range(count + 1)]
    with torch.no_grad():
        assert_close(model.eval()(x), found[0].detach(), 1e-5)
    assert_all_have_gradients(network(axes=2, deep_supervision=count).train(), torch.randn(2, 1, *IMAGE))


def step_mixer(dim, boundary, pool):
    kernel = ImplicitKernel(
        dim, len(boundary), coordinates=StepCoordinates(1 / 31), condition=None if pool is None else dim
    )
    return HyenaND(dim, boundary, kernel, short=ShortConvolution(3 * dim, boundary, taps=1), pool=pool)


@pytest.mark.parametrize("axes", [2, 3])
def test_registers_of_zeros_change_nothing_at_the_start(axes) -> None:
    """FiLM starts as the identity, and planes of zeros on an axis with zeros outside are the outside itself.

    So it is with one block for each stage, before what the grid leaves in the planes comes back; with no short
    convolution to reach into them; with kernels that keep their extent; and with nothing carried to the next stage.
    """
    grid = (64, 32, 32)[:axes]
    with_registers, without = (
        MixerUNETR(
            1,
            3,
            "HHAA",
            12,
            spatial_dims=axes,
            encoder=Encoder(hyena=Hyena(registers=count, mixer=step_mixer), depths=(1, 1, 1, 1)),
        ).eval()
        for count in (4, 0)
    )
    with torch.no_grad():
        for stage in with_registers.stages:
            for part in (getattr(stage, "registers", None), stage.carry):
                for parameter in [] if part is None else part.parameters():
                    parameter.zero_()
    own = without.state_dict()
    without.load_state_dict({name: value for name, value in with_registers.state_dict().items() if name in own})
    x = torch.randn(2, 1, *grid)
    with torch.no_grad():
        assert_close(with_registers(x), without(x), 1e-4)


@pytest.mark.parametrize("stages", ["HHAA", "HAHA", "AHAH"])
def test_registers_reach_the_logits_from_the_first_stage_that_has_them(stages) -> None:
    model, x = network(stages, registers=4).eval(), torch.randn(1, 1, *IMAGE)
    with torch.no_grad():
        before = model(x)
        model.stages[stages.index("H")].registers.tokens.add_(1.0)
        assert (model(x) - before).abs().max() > 1e-3 * before.abs().max()


def test_registers_are_carried_from_a_hyena_stage_to_the_next_one_and_no_further() -> None:
    for stages, expected in (("HHAA", "1000"), ("HAHA", "1100"), ("HHHH", "1110"), ("AHAH", "0110"), ("AAAA", "0000")):
        model = network(stages, registers=2)
        assert "".join(str(int(stage.carry is not None)) for stage in model.stages) == expected
        assert all(stage.carry is None for stage in network(stages).stages)


@pytest.mark.parametrize(
    ("stages", "registers"), [*((each, 0) for each in PATTERNS), ("HHAA", 4), ("HAHA", 4), ("HIIH", 4)]
)
def test_a_batch_equals_each_alone(stages, registers) -> None:
    model, x = network(stages, registers=registers).eval(), torch.randn(3, 1, *IMAGE)
    with torch.no_grad():
        together = model(x)
        for row in range(3):
            assert_close(model(x[row : row + 1])[0], together[row], 1e-4)


@pytest.mark.parametrize(("axes", "registers"), [(2, 0), (2, 4), (3, 0), (3, 4)])
def test_layout_changes_nothing(axes, registers) -> None:
    model, x = network(axes=axes, registers=registers).eval(), torch.randn(2, 1, *(64, 32, 32)[:axes])
    x = x.repeat(1, 2, *[1] * axes)
    model = perturbed(
        MixerUNETR(2, 3, "HHAA", 12, spatial_dims=axes, encoder=Encoder(hyena=Hyena(registers=registers)))
    )
    model.eval()
    last = x.movedim(1, -1).contiguous().movedim(-1, 1)
    with torch.no_grad():
        expected = model(x)
        assert_close(model(last), expected, 1e-5)
        assert_close(model(torch.stack([x, x], -1)[..., 0]), expected, 1e-5)


@pytest.mark.parametrize("registers", [0, 4])
def test_the_same_again_gives_the_same_again(registers) -> None:
    model, x = network(registers=registers, encoder=None).eval(), torch.randn(1, 1, *IMAGE)
    with torch.no_grad():
        first = model(x)
        assert torch.equal(model(x), first)
        assert torch.equal(copy.deepcopy(model)(x), first)
        other = network(registers=registers)
        other.load_state_dict(model.state_dict())
        assert torch.equal(other.eval()(x), first)


@every_pattern
def test_training_mode_gives_the_logits_of_evaluation(stages) -> None:
    model, x = network(stages), torch.randn(2, 1, *IMAGE)
    expected = model.train()(x).detach()
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert_close(model.eval()(x), expected, 1e-4)


def test_evaluation_follows_training() -> None:
    model, x = network(), torch.randn(2, 1, *IMAGE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(2):
        model.train()(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        expected = model(x).detach()
        with torch.no_grad():
            assert_close(model.eval()(x), expected, 1e-4)


def test_drop_path_skips_branches_in_training_only() -> None:
    model, x = network(encoder=Encoder(drop_path=0.9)), torch.randn(4, 1, *IMAGE)
    with torch.no_grad():
        assert not torch.equal(model.train()(x), model(x))
        assert torch.equal(model.eval()(x), model(x))


@pytest.mark.parametrize(("stages", "axes", "registers"), [("AAAA", 3, 0), ("HHAA", 2, 0), ("HHAA", 3, 4)])
def test_bfloat16_autocast_is_finite_and_close(stages, axes, registers) -> None:
    model, x = network(stages, axes=axes, registers=registers), torch.randn(1, 1, *[32] * axes)
    with torch.no_grad():
        expected = model.eval()(x)
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
    assert (y.float() - expected).norm() < 0.1 * expected.norm()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model.train()(x).float().square().mean()
    loss.backward()
    assert loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_works_in_float64() -> None:
    model, x = network(registers=4).eval(), torch.randn(1, 1, *IMAGE)
    with torch.no_grad():
        single = model(x)
        double = model.double()(x.double())
    assert double.dtype == torch.float64
    assert_close(single, double, 1e-4)


def test_runs_on_one_size_after_another() -> None:
    model = network(registers=3).eval()
    fresh = copy.deepcopy(model)
    with torch.no_grad():
        for grid in ((64, 64), (32, 96), (96, 32), (64, 64)):
            x = torch.randn(1, 1, *grid)
            assert torch.equal(model(x), copy.deepcopy(fresh)(x))


class _Blur(nn.Module):
    def forward(self, x):
        return x.mean(tuple(range(1, x.ndim - 1)), keepdim=True).expand_as(x)


def test_takes_a_mixer_of_the_users_own() -> None:
    encoder = Encoder(hyena=Hyena(mixer=lambda dim, boundary, pool: _Blur()))
    y = network(encoder=encoder)(torch.randn(1, 1, *IMAGE))
    assert y.shape == (1, 3, *IMAGE)


@pytest.mark.slow
def test_compiled_equals_eager() -> None:
    model, x = network("HHAA", registers=4), torch.randn(1, 1, 32, 64)
    dy = torch.randn(1, 3, 32, 64)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    for training in (False, True):
        model.train(training)
        with torch.no_grad():
            assert_close(compiled(x), model(x), 1e-4)
    found, expected = [], []
    for call, kept in ((compiled, found), (model, expected)):
        model.zero_grad()
        call(x).backward(dy)
        kept.extend(parameter.grad for parameter in model.parameters())
    for ours, eager in zip(found, expected, strict=True):
        assert (ours - eager).norm() <= 1e-3 * eager.norm() + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "registers"), [("AAAA", 0), ("HHAA", 4)])
def test_exports(stages, registers) -> None:
    model, x = network(stages, registers=registers).eval(), torch.randn(1, 1, 32, 64)
    exported = torch.export.export(model, (x,)).module()
    with torch.no_grad():
        assert_close(exported(x), model(x), 1e-4)


X = torch.zeros(1, 1, 32, 32, 32)
MISFITS = [
    (
        lambda: MixerUNETR(1, 2, "HHXA"),
        r"stages 'HHXA': unknown letter 'X'; known are A \(WindowAttention\), H \(Hyena\), I \(Integral\)",
    ),
    (lambda: MixerUNETR(1, 2, "hhaa"), "unknown letter 'h'"),
    (lambda: MixerUNETR(1, 2, "HHA"), r"expected four stages and depths, got 'HHA' and \(2, 2, 2, 2\)"),
    (lambda: MixerUNETR(1, 2, "HHAAA"), "expected four stages and depths, got 'HHAAA'"),
    (lambda: MixerUNETR(1, 2, encoder=Encoder(depths=(2, 2, 2))), r"got 'HHAA' and \(2, 2, 2\)"),
    (lambda: MixerUNETR(1, 2, feature_size=10), "feature_size must be a multiple of 12, got 10"),
    (lambda: MixerUNETR(1, 2, feature_size=0), "feature_size must be a multiple of 12, got 0"),
    (lambda: MixerUNETR(1, 2, spatial_dims=1), "spatial_dims must be 2 or 3, got 1"),
    (lambda: MixerUNETR(1, 2, deep_supervision=4), "deep_supervision must be 0 to 3, got 4"),
    (lambda: MixerUNETR(1, 2, deep_supervision=-1), "deep_supervision must be 0 to 3, got -1"),
    (
        lambda: MixerUNETR(1, 2, "AAAA", 12, encoder=Encoder(attention=WindowAttention(window=(4, 7)))),
        r"expected one value or 3, one for each axis, got \(4, 7\)",
    ),
    (
        lambda: MixerUNETR(1, 2, feature_size=12, encoder=Encoder(hyena=Hyena(boundary=("zero", "periodic")))),
        r"expected one value or 3, one for each axis, got \('zero', 'periodic'\)",
    ),
]


@pytest.mark.parametrize(("call", "words"), MISFITS)
def test_says_what_does_not_fit(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("grid", [(33, 32, 32), (48, 48, 48), (32, 32, 16), (32, 32, 31)])
def test_a_size_that_is_no_multiple_of_32_is_refused(grid) -> None:  # D8
    model = network(axes=3)
    words = rf"each axis must be a multiple of 32, got a grid of \({grid[0]}, {grid[1]}, {grid[2]}\)"
    with pytest.raises(ValueError, match=words):
        model(torch.zeros(1, 1, *grid))


@pytest.mark.parametrize("patch", [1, 4])
def test_a_patch_that_does_not_fit_is_refused(patch) -> None:
    with pytest.raises(ValueError, match="patch"):
        network(encoder=Encoder(patch=patch))(torch.zeros(1, 1, *(1024, 1024) if patch == 4 else (32, 32)))


@pytest.mark.parametrize("axes", [2, 3])
def test_the_last_layer_can_be_taken_off_and_done_later(axes: int) -> None:
    model, x = network(axes=axes).eval(), torch.randn(1, 1, *(32,) * axes)
    before = model(x)
    body, head = model.split()
    channels = body(x)
    assert channels.shape[1] == model.feature_size
    assert torch.equal(head(channels), before)
    assert torch.equal(model(x), before)  # the network itself stays whole
    assert {id(weight) for weight in model.parameters()} == {
        id(weight) for part in (body, head) for weight in part.parameters()
    }
