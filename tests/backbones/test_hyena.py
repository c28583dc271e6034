"""`HyenaND` is held to the paper's formula, written out, and to what a convolution on its boundaries promises."""

import copy
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from fredholm.backbones import (
    HyenaND,
    ImplicitKernel,
    ProductGates,
    RegisterPool,
    ShortConvolution,
    Siren,
    UnitGates,
    hyena,
)
from fredholm.backbones.hyena import half_grid, whole_grid
from fredholm.kernels import fftconv
from fredholm.kernels.fftconv.reference import fftconv_reference
from torch import nn

GRIDS = {1: (9,), 2: (5, 6), 3: (4, 3, 5)}
MIXED = [boundary for axes in (1, 2) for boundary in itertools.product(("zero", "periodic"), repeat=axes)]
MIXED += [("zero",) * 3, ("periodic", "zero", "periodic")]

every_boundary = pytest.mark.parametrize("boundary", MIXED, ids="-".join)


def assert_close(found, expected, tolerance) -> None:
    atol = tolerance * expected.abs().max().item()
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def perturbed(module, size=0.1):
    """The module with noise on every parameter, so that nothing is at its start."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(size * torch.randn_like(parameter))
    return module


def mixer(boundary, dim=6, *, registers=0, **parts) -> HyenaND:
    axes = len(boundary)
    kernel = ImplicitKernel(dim, axes, siren=Siren(width=8), step=1 / 5, condition=dim if registers else None)
    pool = RegisterPool(registers) if registers else None
    return perturbed(HyenaND(dim, boundary, kernel, pool=pool, **parts))


def inputs(boundary, dim=6, batch=2) -> torch.Tensor:
    return torch.randn(batch, *GRIDS[len(boundary)], dim)


def rms_norm(u, scale):
    return scale * u / torch.sqrt(u.square().mean(-1, keepdim=True) + 1e-6)


def siren(kernel: ImplicitKernel, taps, condition) -> torch.Tensor:
    """K at lags -1 to 1 in units of half the taps, `(batch, dim, *taps)`."""
    axes = [(torch.arange(n).double() - n // 2) / max(1, n // 2) for n in taps]
    c = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)[None]
    h = torch.sin(c @ kernel.first.weight.T + kernel.first.bias)
    for index, layer in enumerate(kernel.hidden):
        h = torch.sin(h @ layer.weight.T + layer.bias)
        if condition is not None:
            z = kernel.film.last(F.gelu(kernel.film.hidden(condition)))
            gamma, beta = z.view(len(z), len(kernel.hidden), 2, *[1] * len(taps), -1)[:, index].unbind(1)
            h = gamma * h + beta
    sigma = kernel.window()
    window = torch.exp(-0.5 * sum((c[..., d, None] / sigma[d]) ** 2 for d in range(len(taps))))
    return ((h @ kernel.last.weight.T + kernel.last.bias) * window).movedim(-1, 1)


def formula(m: HyenaND, x: torch.Tensor) -> torch.Tensor:
    """y = RMSNorm( Sigmoid(v) * ( K(x) conv RMSNorm( l2(q) * SiLU(k) ) ) ) between linear maps, channels last."""
    grid, periodic = x.shape[1:-1], [boundary == "periodic" for boundary in m.boundary]
    projected = (x @ m.project.weight.T).movedim(-1, 1)
    mirrored = m.short.weight[:, 0].flip(*range(1, 1 + len(grid)))[None]  # networks call a correlation convolution
    q, k, v = fftconv_reference(projected, mirrored, periodic=periodic).movedim(1, -1).chunk(3, -1)
    unit = q / torch.sqrt(q.square().sum(-1, keepdim=True) + 1e-6)
    u = rms_norm(unit * F.silu(k), m.gates.inner_scale)
    condition = None
    if m.pool is not None:
        count = len(m.pool.scores)
        condition = (m.pool.scores.softmax(0)[:, None] * x.flatten(1, -2)[:, :count]).sum(1)
    taps = [2 * (n // 2) + 1 if wraps else 2 * n - 1 for n, wraps in zip(grid, periodic, strict=True)]
    kernel = siren(m.kernel, taps, condition)
    h = fftconv_reference(u.movedim(-1, 1), kernel, periodic=periodic, shortcut=m.shortcut).movedim(1, -1)
    return rms_norm(torch.sigmoid(v) * h, m.gates.outer_scale) @ m.out.weight.T


@pytest.mark.parametrize("registers", [0, 3])
@every_boundary
def test_equals_the_papers_formula(boundary, registers) -> None:
    m, x = mixer(boundary, registers=registers), inputs(boundary)
    expected = formula(copy.deepcopy(m).double(), x.double())
    assert_close(m(x), expected, 1e-5)
    with torch.no_grad():
        assert_close(m(x), expected, 1e-5)
    assert_close(m.double()(x.double()), expected, 1e-5)  # coordinates are float32


@pytest.mark.parametrize("registers", [0, 3])
def test_gradients_equal_the_formulas(registers) -> None:
    m, x = mixer(("zero", "periodic"), registers=registers), inputs(("zero", "periodic"))
    exact, dy = copy.deepcopy(m).double(), torch.randn(x.shape)
    m(x).backward(dy)
    formula(exact, x.double()).backward(dy.double())
    for (name, ours), theirs in zip(m.named_parameters(), exact.parameters(), strict=True):
        assert_close(ours.grad, theirs.grad, 1e-4), name


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("registers", [0, 3])
def test_a_large_kernel_is_made_again_with_the_same_gradients(registers, autocast, monkeypatch) -> None:
    boundary = ("zero", "periodic")
    m, x = mixer(boundary, registers=registers), inputs(boundary)
    calls = []
    sample = ImplicitKernel.forward
    monkeypatch.setattr(ImplicitKernel, "forward", lambda *args: calls.append(1) or sample(*args))
    found = []
    for bytes_ in (hyena.LARGE_KERNEL_BYTES, 0):
        monkeypatch.setattr(hyena, "LARGE_KERNEL_BYTES", bytes_)
        leaf = x.clone().requires_grad_()
        m.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y = m(leaf)
        y.square().sum().backward()
        found.append([y.detach(), leaf.grad, *(parameter.grad for parameter in m.parameters())])
    assert len(calls) == 1 + 2
    for kept, again in zip(*found, strict=True):
        assert torch.equal(kept, again)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_periodic_boundaries_commute_with_shifts(axes) -> None:
    boundary = ("periodic",) * axes
    m, x = mixer(boundary), inputs(boundary)
    for axis in range(1, axes + 1):
        for shift in (1, 2):
            assert_close(m(x.roll(shift, axis)), m(x).roll(shift, axis), 1e-5)


def test_mixed_boundaries_commute_with_shifts_of_the_axis_that_wraps_alone() -> None:
    m, x = mixer(("zero", "periodic")), inputs(("zero", "periodic"))
    assert_close(m(x.roll(2, 2)), m(x).roll(2, 2), 1e-5)
    assert (m(x.roll(2, 1)) - m(x).roll(2, 1)).abs().max() > 0.1 * m(x).abs().max()


def test_zero_boundaries_commute_with_shifts_of_what_lies_in_nothing() -> None:
    m, x = mixer(("zero", "zero")), torch.zeros(1, 9, 10, 6)
    x[:, 2:6, 2:7] = torch.randn(1, 4, 5, 6)
    moved = m(x.roll((2, 2), (1, 2)))  # the short convolution's reach stays inside
    assert_close(moved[:, 2:, 2:], m(x)[:, :-2, :-2], 1e-5)


@every_boundary
def test_a_mirrored_input_meets_a_mirrored_operator(boundary) -> None:
    m, x = mixer(boundary), inputs(boundary)
    for axis in range(len(boundary)):
        mirrored = copy.deepcopy(m)
        with torch.no_grad():
            mirrored.kernel.first.weight[:, axis].neg_()
            mirrored.short.weight.copy_(m.short.weight.flip(2 + axis))
        assert_close(mirrored(x.flip(1 + axis)), m(x).flip(1 + axis), 1e-5)


@pytest.mark.parametrize("registers", [0, 3])
@pytest.mark.parametrize("gates", [UnitGates, ProductGates])
@every_boundary
def test_every_parameter_gets_a_gradient(boundary, gates, registers) -> None:
    m, x = mixer(boundary, registers=registers, gates=gates(6)), inputs(boundary)
    (m(x) * torch.randn(x.shape)).sum().backward()
    for name, parameter in m.named_parameters():
        assert parameter.grad is not None and parameter.grad.count_nonzero() > 0, name  # noqa: PT018


def test_a_new_mixer_has_outputs_of_moderate_size() -> None:
    boundary = ("zero", "zero", "zero")
    y = HyenaND(48, boundary, ImplicitKernel(48, 3))(torch.randn(2, 8, 8, 8, 48))
    assert 0.1 < y.std().item() < 3


class TestKeptSpectrum:
    """Without gradients a static kernel's spectrum is kept from one input to the next."""

    @every_boundary
    def test_gives_the_result_of_the_training_path(self, boundary) -> None:
        m, x = mixer(boundary), inputs(boundary)
        expected = m(x).detach()
        for context in (torch.no_grad, torch.inference_mode):
            for _ in range(2):
                with context():
                    assert_close(m.eval()(x), expected, 1e-6)

    def test_is_made_once(self, monkeypatch) -> None:
        m, x = mixer(("zero",)), inputs(("zero",))
        calls = []
        kernel = ImplicitKernel.forward
        monkeypatch.setattr(ImplicitKernel, "forward", lambda *args: calls.append(1) or kernel(*args))
        with torch.no_grad():
            for _ in range(3):
                m(x)
        assert len(calls) == 1

    def check(self, m, x) -> None:
        with torch.no_grad():
            kept = m(x)
        assert_close(kept, m(x).detach(), 1e-6)

    def test_follows_an_optimizer_step(self) -> None:
        for kind in (torch.optim.SGD, torch.optim.AdamW):
            m, x = mixer(("zero", "periodic")), inputs(("zero", "periodic"))
            optimizer = kind(m.parameters(), lr=0.1)
            with torch.no_grad():
                before = m(x)
            m(x).square().sum().backward()
            optimizer.step()
            self.check(m, x)
            assert (m(x) - before).abs().max() > 1e-3 * before.abs().max()

    def test_follows_a_change_of_one_parameter_only(self) -> None:
        m, x = mixer(("zero", "periodic")), inputs(("zero", "periodic"))
        for parameter in m.kernel.parameters():
            self.check(m, x)
            with torch.no_grad():
                parameter.mul_(1.5).add_(0.1)
            self.check(m, x)

    @pytest.mark.parametrize("assign", [False, True])
    def test_follows_load_state_dict(self, assign) -> None:
        boundary = ("zero", "periodic")
        m, x = mixer(boundary), inputs(boundary)
        for _ in range(4):
            self.check(m, x)
            other = mixer(boundary)
            m.load_state_dict(other.state_dict(), assign=assign)
            self.check(m, x)
            assert_close(m(x), other(x), 1e-6)

    def test_follows_the_grid(self) -> None:
        m = mixer(("zero", "periodic"))
        for grid in ((5, 6), (6, 5), (5, 6), (1, 1), (2, 9)):
            self.check(m, torch.randn(1, *grid, 6))

    def test_follows_the_type(self) -> None:
        m, x = mixer(("zero", "periodic")), inputs(("zero", "periodic"))
        for dtype in (torch.float32, torch.float64, torch.float32, torch.bfloat16, torch.float32):
            m, x = m.to(dtype), x.to(dtype)
            with torch.no_grad():
                assert_close(m(x), m(x + 0).detach(), 1e-2 if dtype == torch.bfloat16 else 1e-6)
            if dtype != torch.bfloat16:
                self.check(m, x)

    def test_stays_out_of_copies_and_state_dicts(self) -> None:
        m, x = mixer(("zero",)), inputs(("zero",))
        with torch.no_grad():
            m(x)
        assert set(m.state_dict()) == set(mixer(("zero",)).state_dict())
        twin = copy.deepcopy(m)
        with torch.no_grad():
            for parameter in twin.kernel.parameters():
                parameter.mul_(1.3)
        self.check(twin, x)
        self.check(m, x)

    def test_does_not_stand_in_the_way_of_gradients_afterwards(self) -> None:
        m, x = mixer(("zero",)), inputs(("zero",))
        with torch.inference_mode():
            m(x)
        m(x).sum().backward()
        assert m.kernel.first.weight.grad.count_nonzero() > 0

    def test_follows_a_change_through_data(self) -> None:
        m, x = mixer(("zero",)), inputs(("zero",))
        self.check(m, x)
        for parameter in m.kernel.parameters():
            parameter.data.mul_(1.5)
        self.check(m, x)

    def test_works_with_weights_made_in_inference_mode(self) -> None:
        with torch.inference_mode():
            mixer(("zero",))(inputs(("zero",)))


class TestInputDependence:
    """With a pool each sample has a kernel of its own."""

    def test_two_samples_have_two_kernels(self) -> None:
        m, x = mixer(("zero", "zero"), registers=3), inputs(("zero", "zero"))
        kernels = m.kernel((9, 11), m.pool(x))
        assert (kernels[0] - kernels[1]).abs().max() > 1e-3 * kernels.abs().max()

    def test_at_the_start_all_samples_have_the_static_kernel(self) -> None:
        boundary = ("zero", "zero")
        m = HyenaND(6, boundary, ImplicitKernel(6, 2, condition=6), pool=RegisterPool(3))
        static = HyenaND(6, boundary, ImplicitKernel(6, 2))
        static.load_state_dict(
            {name: v for name, v in m.state_dict().items() if "film" not in name and "pool" not in name}
        )
        x = inputs(boundary)
        assert_close(m(x), static(x), 1e-6)

    @pytest.mark.parametrize("registers", [0, 3])
    @every_boundary
    def test_a_batch_equals_each_alone(self, boundary, registers) -> None:
        m, x = mixer(boundary, registers=registers), inputs(boundary, batch=3)
        together = m(x)
        for row in range(3):
            assert_close(m(x[row : row + 1])[0], together[row], 1e-5)
        with torch.no_grad():
            assert_close(m(x), together, 1e-6)

    def test_a_register_changes_the_kernel_everywhere(self) -> None:
        m, x = mixer(("zero",), registers=1), inputs(("zero",))
        other = x.clone()
        other[:, 0] += 1
        assert ((m(x) - m(other)).abs().amax((0, 2)) > 0).all()


@pytest.mark.parametrize("registers", [0, 3])
def test_runs_on_one_grid_after_another(registers) -> None:
    m = mixer(("zero", "periodic"), registers=registers)
    for grid in ((5, 6), (8, 4), (3, 1), (5, 6)):
        x = torch.randn(2, *grid, 6)
        assert_close(m(x), formula(copy.deepcopy(m).double(), x.double()), 1e-5)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("registers", [0, 3])
@pytest.mark.parametrize("gates", [UnitGates, ProductGates])
def test_bfloat16_autocast_is_close_to_float32(gates, registers, grad) -> None:
    boundary = ("zero", "periodic")
    m, x = mixer(boundary, registers=registers, gates=gates(6)), inputs(boundary)
    with torch.set_grad_enabled(grad):
        expected = m(x)
        with torch.autocast("cpu", torch.bfloat16):
            y = m(x)
    assert y.dtype == torch.bfloat16
    assert_close(y.float(), expected, 2e-2)


@pytest.mark.parametrize("registers", [0, 3])
def test_bfloat16_autocast_trains(registers) -> None:
    m, x = mixer(("zero", "periodic"), registers=registers), inputs(("zero", "periodic"))
    exact, dy = copy.deepcopy(m), torch.randn(x.shape)
    exact(x).backward(dy)
    with torch.autocast("cpu", torch.bfloat16):
        y = m(x)
    y.backward(dy.to(y.dtype))
    for (name, ours), theirs in zip(m.named_parameters(), exact.parameters(), strict=True):
        error = (ours.grad - theirs.grad).norm() / theirs.grad.norm()
        assert error < 0.1, name


def test_float64_gives_float64() -> None:
    for registers in (0, 3):
        m, x = mixer(("zero", "periodic"), registers=registers).double(), inputs(("zero", "periodic")).double()
        y = m(x)
        assert y.dtype == torch.float64
        with torch.no_grad():
            assert_close(m(x), y, 1e-13)


def test_strides_do_not_matter() -> None:
    m, x = mixer(("zero", "periodic")), inputs(("zero", "periodic"))
    assert_close(m(x.movedim(-1, 1).contiguous().movedim(1, -1)), m(x), 1e-6)
    assert_close(m(torch.stack([x, x], -1)[..., 0]), m(x), 1e-6)


class TestProductGates:
    """The gates of MONAI's port."""

    @pytest.mark.parametrize("grid", GRIDS.values())
    @pytest.mark.parametrize("dtype", [torch.float32])
    def test_equal_their_formula(self, grid, dtype) -> None:
        gates = perturbed(ProductGates(6)).to(dtype)
        q, k, h, v = (torch.randn(2, *grid, 6, dtype=dtype) for _ in range(4))
        product = (gates.q_norm(q) * gates.k_norm(k)).movedim(-1, 1)
        expected = F.group_norm(product, 1, gates.norm.weight, gates.norm.bias, gates.norm.eps).movedim(1, -1)
        assert_close(gates.inner(q, k), expected, 1e-5)
        assert torch.equal(gates.outer(h, v), h * v)

    def test_keep_the_digits_of_float64(self) -> None:
        gates = perturbed(ProductGates(6)).double()
        q, k = torch.randn(2, 5, 4, 6).double(), torch.randn(2, 5, 4, 6).double()
        product = (gates.q_norm(q) * gates.k_norm(k)).movedim(-1, 1)
        expected = F.group_norm(product, 1, gates.norm.weight, gates.norm.bias, gates.norm.eps).movedim(1, -1)
        assert_close(gates.inner(q, k), expected, 1e-12)

    def test_serve_a_mixer(self) -> None:
        boundary = ("zero", "periodic")
        m, x = mixer(boundary, gates=ProductGates(6)), inputs(boundary)
        q, k, v = m.short(m.project(x)).chunk(3, -1)
        u = m.gates.inner(q, k).movedim(-1, 1)
        h = fftconv(u, m.kernel((9, 7)), boundary=boundary, shortcut=m.shortcut).movedim(1, -1)
        assert_close(m(x), m.out(h * v), 1e-5)


class TestShortConvolution:
    """A depthwise correlation, as networks have it, channels last."""

    @pytest.mark.parametrize("taps", [1, 3, 5])
    @every_boundary
    def test_equals_its_formula(self, boundary, taps) -> None:
        short, x = ShortConvolution(6, boundary, taps), inputs(boundary)
        mirrored = short.weight[:, 0].flip(*range(1, 1 + len(boundary)))[None]
        periodic = [each == "periodic" for each in boundary]
        expected = fftconv_reference(x.movedim(-1, 1), mirrored, periodic=periodic).movedim(1, -1)
        assert_close(short(x), expected, 1e-6)

    @pytest.mark.parametrize("axes", [1, 2, 3])
    def test_equals_pytorchs_own_on_zeros(self, axes) -> None:
        short, x = ShortConvolution(6, ("zero",) * axes), inputs(("zero",) * axes)
        theirs = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1](6, 6, 3, padding=1, groups=6, bias=False)
        theirs.load_state_dict({"weight": short.weight})
        assert_close(short(x), theirs(x.movedim(-1, 1)).movedim(1, -1), 1e-6)

    def test_wraps_more_often_than_once_on_a_short_axis(self) -> None:
        short, x = ShortConvolution(2, ("periodic",), 5), torch.randn(1, 1, 2)
        assert_close(short(x), x * short.weight.sum((1, 2)), 1e-6)

    def test_wants_an_odd_number_of_taps(self) -> None:
        with pytest.raises(ValueError, match="taps must be odd, so that the convolution has a middle, got 4"):
            ShortConvolution(2, ("zero",), 4)


def meet(taps: int, samples: int, boundary: str) -> bool:
    """Whether a kernel of ones takes a mark at any place to every place."""
    marks = torch.eye(samples)[:, None]
    return bool((fftconv_reference(marks, torch.ones(1, 1, taps), periodic=[boundary == "periodic"]) > 0).all())


@pytest.mark.parametrize("samples", range(1, 8))
def test_a_whole_grid_of_taps_lets_every_voxel_meet_every_other(samples) -> None:
    assert whole_grid(samples, "zero") == 2 * samples - 1
    assert meet(whole_grid(samples, "zero"), samples, "zero")
    assert samples == 1 or not meet(whole_grid(samples, "zero") - 2, samples, "zero")


@pytest.mark.parametrize(
    "samples",
    range(1, 8),
)
def test_a_whole_grid_of_taps_lets_every_voxel_meet_every_other_round_the_circle(samples) -> None:
    assert meet(whole_grid(samples, "periodic"), samples, "periodic")


@pytest.mark.parametrize("samples", range(1, 8))
def test_half_a_grid_of_taps_is_odd_and_no_longer_than_the_grid(samples) -> None:
    for boundary in ("zero", "periodic"):
        taps = half_grid(samples, boundary)
        assert taps % 2 == 1
        assert samples - 1 <= taps <= samples


def test_starts_with_a_shortcut_of_the_size_of_one_over_the_root_of_channels() -> None:
    shortcut = HyenaND(400, ("zero",), ImplicitKernel(400, 1)).shortcut
    assert shortcut.abs().max().item() == pytest.approx(1 / math.sqrt(400), rel=0.05)
