"""`implicit_kernel` is held to its formula, outputs and gradients by every parameter alike."""

import importlib
import itertools
import math

import pytest
import torch
from fredholm.kernels import implicit_kernel
from fredholm.kernels.implicit_kernel.reference import implicit_kernel_reference
from torch import nn

# `fredholm.kernels.implicit_kernel` is the function; its modules are reached by name.
CPU = importlib.import_module("fredholm.kernels.implicit_kernel.cpu")
OPS = torch.ops.fredholm

# Largest error of the output and of the gradients, relative to the largest expected value; the one place.
TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-4),
    torch.bfloat16: (1e-2, 1e-2),
    torch.float16: (2e-3, 2e-3),
}
FULL, HALF = (torch.float64, torch.float32), (torch.bfloat16, torch.float16)
TAPS = [(9,), (1,), (5, 4), (1, 7), (3, 1, 4), (5, 4, 3)]


@pytest.fixture(autouse=True)
def _empty_is_nan():
    """PyTorch fills `empty` with NaN in this mode, so that a place nobody wrote cannot pass for a number."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


class Siren:
    """Random arguments of `implicit_kernel`: `hidden` layers of `width` between the first and the last, 4 channels."""

    def __init__(self, taps, *, hidden=2, width=6, batch=0, window=True, dtype=torch.float64) -> None:
        self.taps, self.layers = taps, hidden + 2
        sizes = [len(taps), *[width] * (hidden + 1), 4]
        shapes = [(after, before) for before, after in itertools.pairwise(sizes)]
        parts = [torch.randn(shape) / math.sqrt(shape[1]) for shape in shapes]
        parts += [torch.randn(shape[0]) for shape in shapes]
        self.film = [1 + 0.3 * torch.randn(batch, hidden, 2, width)] if batch else []
        self.sigma = [0.5 + torch.rand(len(taps), 4)] if window else []
        self.parts = [each.to(dtype) for each in (*parts, *self.film, *self.sigma)]
        self.axes = [torch.linspace(-1, 1, n, dtype=torch.float64).to(dtype) for n in taps]

    def arguments(self, parts) -> tuple[list, list, dict]:
        """Weights, biases and the keyword arguments."""
        n = self.layers
        rest = list(parts[2 * n :])
        film, sigma = rest.pop(0) if self.film else None, rest.pop(0) if self.sigma else None
        return list(parts[:n]), list(parts[n : 2 * n]), {"film": film, "sigma": sigma}

    def sample(self, *parts, function=implicit_kernel, axes=None):
        """The kernel for these parts."""
        weights, biases, options = self.arguments(parts)
        return function(axes or [axis.to(parts[0].dtype) for axis in self.axes], weights, biases, **options)


def assert_close(found, expected, tolerance) -> None:
    atol = tolerance * expected.abs().max().item()
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def results(function, tensors, dy) -> list[torch.Tensor]:
    """The output and the gradients by each tensor."""
    leaves = [each.detach().requires_grad_() for each in tensors]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def assert_matches(siren) -> None:
    """Output and gradients are those of the formula in float64."""
    dtype = siren.parts[0].dtype
    dy = torch.randn(len(siren.film[0]) if siren.film else 1, 4, *siren.taps).to(dtype)
    found = results(siren.sample, siren.parts, dy)
    exact = lambda *parts: siren.sample(*parts, function=implicit_kernel_reference)  # noqa: E731
    expected = results(exact, [each.double() for each in siren.parts], dy.double())
    forward, gradients = TOLERANCE[dtype]
    assert all(each.dtype == dtype for each in found)
    assert found[0].is_contiguous()
    assert_close(found[0], expected[0], forward)
    for ours, truth in zip(found[1:], expected[1:], strict=True):
        assert_close(ours, truth, gradients)


@pytest.mark.parametrize("dtype", FULL)
@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("taps", TAPS)
def test_matches_the_formula(taps, batch, window, dtype) -> None:
    assert_matches(Siren(taps, batch=batch, window=window, dtype=dtype))


@pytest.mark.parametrize("hidden", [0, 1, 4])
def test_matches_the_formula_at_any_depth(hidden) -> None:
    assert_matches(Siren((4, 5), hidden=hidden, batch=2 if hidden else 0))


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_rounded_once(dtype) -> None:
    for taps in TAPS:
        assert_matches(Siren(taps, batch=2, dtype=dtype))


@pytest.mark.parametrize(("taps", "batch", "window"), [((4,), 2, True), ((3, 2), 0, True), ((2, 3, 2), 2, False)])
def test_gradcheck(taps, batch, window) -> None:
    siren = Siren(taps, hidden=1, batch=batch, window=window)
    assert torch.autograd.gradcheck(siren.sample, [each.requires_grad_() for each in siren.parts])


def test_gradients_only_where_they_are_wanted() -> None:
    siren, dy = Siren((4, 5), batch=2), torch.randn(2, 4, 4, 5).double()
    everything = results(siren.sample, siren.parts, dy)[1:]
    for i, part in enumerate(siren.parts):
        others = siren.parts[:i], siren.parts[i + 1 :]
        alone = results(lambda one: siren.sample(*others[0], one, *others[1]), [part], dy)[1]  # noqa: B023
        assert torch.equal(alone, everything[i])


def test_film_makes_one_kernel_for_each_row() -> None:
    siren = Siren((4, 5), batch=3)
    weights, biases, options = siren.arguments(siren.parts)
    together = implicit_kernel(siren.axes, weights, biases, **options)
    assert together.shape == (3, 4, 4, 5)
    for row, film in enumerate(options["film"]):
        alone = implicit_kernel(siren.axes, weights, biases, film=film[None], sigma=options["sigma"])
        assert_close(alone[0], together[row], 1e-14)
    assert not torch.allclose(together[0], together[1])


def test_identity_film_is_none() -> None:
    siren = Siren((4, 5))
    weights, biases, options = siren.arguments(siren.parts)
    film = torch.stack([torch.ones(2, 2, 6), torch.zeros(2, 2, 6)], dim=2).double()
    with_film = implicit_kernel(siren.axes, weights, biases, film=film, sigma=options["sigma"])
    assert_close(
        with_film, implicit_kernel(siren.axes, weights, biases, sigma=options["sigma"]).expand(2, -1, -1, -1), 0
    )


def test_the_window_is_gaussian() -> None:
    """At c = sigma on one axis and 0 on the others the factor is exp(-1/2), at the origin 1."""
    siren = Siren((3, 3, 3), window=False)
    weights, biases, _ = siren.arguments(siren.parts)
    sigma = 0.5 + torch.rand(3, 4).double()
    for axis in range(3):
        for channel in range(4):
            axes = [torch.zeros(1).double() for _ in range(3)]
            axes[axis] = torch.stack([torch.zeros(()).double(), sigma[axis, channel]])
            plain = implicit_kernel(axes, weights, biases)[0, channel].flatten()
            windowed = implicit_kernel(axes, weights, biases, sigma=sigma)[0, channel].flatten()
            assert_close(windowed, plain * torch.tensor([1, math.exp(-0.5)], dtype=torch.float64), 1e-14)


def test_a_finer_grid_passes_through_the_coarser_ones_points() -> None:
    siren = Siren((1, 1), batch=2)
    coarse, fine = ([torch.linspace(-1, 1, n).double() for n in sides] for sides in ((5, 4), (9, 10)))
    kernels = [siren.sample(*siren.parts, axes=axes) for axes in (coarse, fine)]
    assert_close(kernels[1][..., ::2, ::3], kernels[0], 1e-12)


@pytest.mark.parametrize("positions", [1, 7, 24])
@pytest.mark.parametrize("taps", [(9,), (5, 4), (5, 4, 3)])
def test_the_slab_size_changes_nothing(taps, positions, monkeypatch) -> None:
    siren, dy = Siren(taps, batch=2), torch.randn(2, 4, *taps).double()
    whole = results(siren.sample, siren.parts, dy)
    monkeypatch.setattr(CPU, "SLAB_POSITIONS", positions)
    for ours, expected in zip(results(siren.sample, siren.parts, dy), whole, strict=True):
        assert_close(ours, expected, 1e-12)


def test_more_positions_than_one_slab() -> None:
    assert_matches(Siren((33, 32, 32), hidden=1))


def test_strides_do_not_matter() -> None:
    siren, dy = Siren((4, 5)), torch.randn(1, 5, 4, 4).double().permute(0, 2, 3, 1)
    axes = [torch.stack([axis, axis], 1)[:, 0] for axis in siren.axes]
    parts = [part.T.contiguous().T if part.ndim == 2 else part for part in siren.parts]
    found = results(lambda *parts: siren.sample(*parts, axes=axes), parts, dy)
    expected = results(siren.sample, siren.parts, dy.contiguous())
    for ours, truth in zip(found, expected, strict=True):
        assert_close(ours, truth, 1e-14)


def test_gradients_that_come_in_expanded() -> None:
    siren = Siren((4, 5), batch=2)
    one = torch.ones(()).double()
    found, expected = (
        results(siren.sample, siren.parts, dy) for dy in (one.expand(2, 4, 4, 5), one.repeat(2, 4, 4, 5))
    )
    for ours, truth in zip(found, expected, strict=True):
        assert_close(ours, truth, 1e-14)


@pytest.mark.parametrize("dtype", HALF)
def test_autocast_leaves_float32_as_accurate_as_without(dtype) -> None:
    with torch.autocast("cpu", dtype):
        assert_matches(Siren((5, 4, 3), batch=2, dtype=torch.float32))


def test_opcheck() -> None:
    for siren in (Siren((3, 4), batch=2), Siren((4,), hidden=0, window=False)):
        leaves = [each.clone().requires_grad_() for each in siren.parts]
        kernel = siren.sample(*siren.parts)
        for parts in (siren.parts, leaves):
            weights, biases, options = siren.arguments(parts)
            torch.library.opcheck(OPS.implicit_kernel.default, (siren.axes, weights, biases, *options.values()))
        weights, biases, options = siren.arguments(siren.parts)
        arguments = (kernel.cos(), siren.axes, weights, biases, *options.values())
        torch.library.opcheck(OPS.implicit_kernel_gradients.default, arguments)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_equals_eager(dynamic) -> None:
    for batch, window in ((2, True), (0, False)):
        siren = Siren((5, 4), batch=batch, window=window, dtype=torch.float32)
        layer = lambda *parts: siren.sample(*(2 * part for part in parts)).sin()  # noqa: B023, E731
        torch._dynamo.reset()
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        dy = torch.randn(batch or 1, 4, 5, 4)
        with torch.no_grad():
            assert_close(compiled(*siren.parts), layer(*siren.parts), 1e-5)
        for found, eager in zip(results(compiled, siren.parts, dy), results(layer, siren.parts, dy), strict=True):
            assert_close(found, eager, 1e-5)


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.siren = Siren((5, 4), dtype=torch.float32)
        self.parts = nn.ParameterList(self.siren.parts)

    def forward(self, scale):
        return scale * self.siren.sample(*self.parts)


def test_exports() -> None:
    layer, scale = _Layer(), torch.tensor(2.0)
    exported = torch.export.export(layer, (scale,)).module()
    assert_close(exported(scale).detach(), layer(scale).detach(), 1e-6)


def test_gradients_flow_after_inference_mode_came_first() -> None:
    siren = Siren((5, 4), batch=2)
    with torch.inference_mode():
        inferred = siren.sample(*siren.parts)
    assert_close(inferred.clone(), siren.sample(*siren.parts), 0)
    assert_matches(siren)


@pytest.mark.parametrize(("taps", "hidden", "batch"), [((9,), 2, 3), ((7, 11), 1, 0), ((5, 4, 6), 2, 2), ((3,), 0, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_triton_matches_the_formula(in_triton, taps, hidden, batch, dtype) -> None:
    assert_matches(Siren(taps, hidden=hidden, batch=batch, dtype=dtype))
    if dtype == torch.float32:
        assert_matches(Siren(taps, hidden=hidden, batch=batch, dtype=dtype, window=False))


def test_triton_matches_the_formula_at_any_length(in_triton) -> None:
    for n in range(1, 18):
        assert_matches(Siren((n, 18 - n), hidden=1, dtype=torch.float32))
    for n in (24, 31, 48, 96):
        assert_matches(Siren((n,), hidden=1, dtype=torch.float32))


def test_triton_takes_wide_networks_fewer_positions_at_a_time(in_triton) -> None:
    assert_matches(Siren((5, 7), width=40, batch=2, dtype=torch.float32))


def test_triton_takes_many_frequencies_at_full_precision(in_triton) -> None:
    """Angles of hundreds of turns: float32 holds them to 1e-4, and so does the sine."""
    siren = Siren((33,), dtype=torch.float32)
    siren.parts[0] *= 300
    found, exact = siren.sample(*siren.parts), siren.sample(*[part.double() for part in siren.parts])
    assert_close(found, exact, 1e-3)


def test_strides_do_not_matter_to_triton(in_triton) -> None:
    siren, dy = Siren((4, 5), dtype=torch.float32), torch.randn(1, 5, 4, 4).permute(0, 2, 3, 1)
    parts = [part.T.contiguous().T if part.ndim == 2 else part for part in siren.parts]
    found, expected = results(siren.sample, parts, dy), results(siren.sample, siren.parts, dy.contiguous())
    for ours, truth in zip(found, expected, strict=True):
        assert torch.equal(ours, truth)  # the same bits in every run, too


def test_channels_may_lie_further_apart_than_32_bits_count(in_triton, monkeypatch) -> None:
    """Of 2^30 taps the first ones are made; the rest is not touched and so takes no memory."""
    module = importlib.import_module("fredholm.kernels.implicit_kernel.triton")
    launch, siren, some = module.launch, Siren((64,), window=False, dtype=torch.float16), slice(64)
    expected = siren.sample(*siren.parts)
    monkeypatch.setattr(
        module, "launch", lambda kernel, programs, *rest, **options: launch(kernel, 1, *rest, **options)
    )
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)
    axis = torch.empty(2**30, dtype=torch.float32)
    axis[some] = siren.axes[0]
    weights, biases, options = siren.arguments(siren.parts)
    assert torch.equal(module.synthesise([axis], weights, biases, **options)[..., some], expected)


AXES = [torch.zeros(3), torch.zeros(4)]
W, B = [torch.zeros(6, 2), torch.zeros(6, 6), torch.zeros(4, 6)], [torch.zeros(6), torch.zeros(6), torch.zeros(4)]
MISFITS = [
    (lambda: implicit_kernel([], W, B), r"expected one to three axes of coordinates \(taps,\), got \[\]"),
    (lambda: implicit_kernel([*AXES, *AXES], W, B), "expected one to three axes of coordinates"),
    (lambda: implicit_kernel([AXES[0], AXES[1][None]], W, B), r"got \[\(3,\), \(1, 4\)\]"),
    (lambda: implicit_kernel(AXES, W[:1], B[:1]), "expected two or more weights and as many biases, got 1 and 1"),
    (lambda: implicit_kernel(AXES, W, B[:2]), "expected two or more weights and as many biases, got 3 and 2"),
    (lambda: implicit_kernel(AXES[:1], W, B), r"layer 0: expected weight \(\*, 1\) and bias \(\*,\), got \(6, 2\) and"),
    (
        lambda: implicit_kernel(AXES, [W[0], W[1][:, :5], W[2]], B),
        r"layer 1: expected weight \(\*, 6\) .* got \(6, 5\)",
    ),
    (lambda: implicit_kernel(AXES, W, [*B[:2], B[2][:3]]), r"layer 2: .* got \(4, 6\) and \(3,\)"),
    (lambda: implicit_kernel(AXES, [*W[:2], B[2]], B), r"layer 2: .* got \(4,\) and \(4,\)"),
    (
        lambda: implicit_kernel(AXES, W, B, film=torch.zeros(1, 2, 2, 6)),
        r"film must be \(batch, 1, 2, 6\), got \(1, 2,",
    ),
    (
        lambda: implicit_kernel(AXES, W, B, film=torch.zeros(1, 2, 6)),
        r"film must be \(batch, 1, 2, 6\), got \(1, 2, 6\)",
    ),
    (lambda: implicit_kernel(AXES, W, B, sigma=torch.zeros(2, 6)), r"sigma must be \(2, 4\), got \(2, 6\)"),
    (lambda: implicit_kernel(AXES, W, B, sigma=torch.zeros(4)), r"sigma must be \(2, 4\), got \(4,\)"),
    pytest.param(lambda: implicit_kernel(AXES, [torch.zeros(()), *W[1:]], B), "layer 0"),
    pytest.param(lambda: implicit_kernel([AXES[0], AXES[1][:0]], W, B), "taps"),
    pytest.param(
        lambda: implicit_kernel(
            AXES, [W[0], W[1][:5], W[2][:, :5]], [B[0], B[1][:5], B[2]], film=torch.zeros(1, 1, 2, 6)
        ),
        "film",
    ),
]


@pytest.mark.parametrize(("call", "words"), MISFITS)
def test_says_what_does_not_fit(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()
