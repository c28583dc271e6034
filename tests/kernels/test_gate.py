"""`gate` is held to its formula, outputs and gradients alike, and to what a norm promises."""

import importlib

import pytest
import torch
from fredholm.kernels import gate
from fredholm.kernels.gate.reference import gate_reference
from helpers.strides import far_apart
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

# `fredholm.kernels.gate` is the function; its modules are reached by name.
CPU = importlib.import_module("fredholm.kernels.gate.cpu")
OPS = torch.ops.fredholm

# Largest error of the output and of the gradients, relative to the largest expected value; the one place.
TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-4),
    torch.bfloat16: (1e-2, 1e-2),
    torch.float16: (2e-3, 2e-3),
}
ACTIVATIONS = ("silu", "sigmoid")
SHAPES = [(7,), (1,), (1, 1), (5, 16), (2, 3, 5), (2, 4, 3, 5, 6)]

every_option = pytest.mark.parametrize(
    ("activation", "unit"), [(activation, unit) for activation in ACTIVATIONS for unit in (False, True)]
)


@pytest.fixture(autouse=True)
def _empty_is_nan():
    """PyTorch fills `empty` with NaN in this mode, so that a place nobody wrote cannot pass for a number."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def assert_close(found, expected, tolerance) -> None:
    atol = tolerance * expected.abs().max().item()
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def results(function, tensors, dy) -> list[torch.Tensor]:
    """The output and the gradients by each tensor that is not None."""
    leaves = [None if each is None else each.detach().requires_grad_() for each in tensors]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, [leaf for leaf in leaves if leaf is not None], dy)]


def assert_matches(x, control, scale, activation, unit, epsilon=1e-6) -> None:
    """Output and gradients are those of the formula in float64."""
    options = {"activation": activation, "unit": unit, "epsilon": epsilon}
    tensors, dy = (x, control, scale), torch.randn(x.shape).to(x.dtype)
    found = results(lambda *three: gate(*three, **options), tensors, dy)
    exact = [None if each is None else each.double() for each in tensors]
    expected = results(lambda *three: gate_reference(*three, **options), exact, dy.double())
    forward, gradients = TOLERANCE[x.dtype]
    assert found[0].is_contiguous()
    assert [each.dtype for each in found] == [x.dtype, *(each.dtype for each in tensors if each is not None)]
    for ours, truth, tolerance in zip(found, expected, (forward, *[gradients] * 3), strict=False):
        assert_close(ours, truth, tolerance)


def rand(*shape, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("scaled", [False, True])
@every_option
def test_matches_the_formula(activation, unit, scaled, dtype) -> None:
    for shape in SHAPES:
        scale = rand(shape[-1], dtype=dtype) if scaled else None
        # With one channel y is all but the sign of x, and its gradient epsilon's share, a difference of large terms.
        epsilon = 0.1 if shape[-1] == 1 else 1e-6
        assert_matches(rand(*shape, dtype=dtype), rand(*shape, dtype=dtype), scale, activation, unit, epsilon)


@settings(deadline=None, max_examples=40)
@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    activation=st.sampled_from(ACTIVATIONS),
    unit=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_matches_the_formula_at_any_small_shape(shape, activation, unit, seed) -> None:
    torch.manual_seed(seed)
    assert_matches(rand(*shape), rand(*shape), rand(shape[-1]), activation, unit, epsilon=1e-2)


@every_option
def test_gradcheck(activation, unit) -> None:
    function = lambda x, control, scale=None: gate(x, control, scale, activation=activation, unit=unit)  # noqa: E731
    inputs = [each.requires_grad_() for each in (rand(3, 2, 4), rand(3, 2, 4), rand(4))]
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradcheck(function, inputs[:2])


LAYOUTS = [
    lambda x: x.movedim(1, -1),
    lambda x: x[..., ::2],
    lambda x: x.transpose(0, 2)[::2],
    lambda x: x[:1].expand(3, -1, -1, -1),
    lambda x: x[..., :1].expand(-1, -1, -1, 5),
    lambda x: x.chunk(2, -1)[1],
]


@pytest.mark.parametrize("layout", LAYOUTS)
@every_option
def test_strides_do_not_matter(layout, activation, unit) -> None:
    x, control = layout(rand(2, 6, 4, 8)), layout(rand(2, 6, 4, 8))
    assert not x.is_contiguous()
    assert_matches(x, control, rand(2 * x.shape[-1])[::2], activation, unit)
    assert_matches(x, control.contiguous(), None, activation, unit)


@every_option
def test_gradients_that_come_in_expanded(activation, unit) -> None:
    tensors, one = (rand(2, 3, 5), rand(2, 3, 5), rand(5)), torch.ones(()).double()
    function = lambda *three: gate(*three, activation=activation, unit=unit)  # noqa: E731
    found, expected = (results(function, tensors, dy) for dy in (one.expand(2, 3, 5), one.repeat(2, 3, 5)))
    for ours, truth in zip(found, expected, strict=True):
        assert torch.equal(ours, truth)


@pytest.mark.parametrize("cache_bytes", [1, 100, 1000])
@every_option
def test_the_chunk_size_changes_nothing(activation, unit, cache_bytes, monkeypatch) -> None:
    tensors, dy = (rand(3, 7, 8), rand(3, 7, 8), rand(8)), rand(3, 7, 8)
    function = lambda *three: gate(*three, activation=activation, unit=unit)  # noqa: E731
    whole = results(function, tensors, dy)
    monkeypatch.setattr(CPU, "CACHE_BYTES", cache_bytes)
    for ours, expected in zip(results(function, tensors, dy), whole, strict=True):
        assert_close(ours, expected, 1e-13)


@every_option
def test_more_rows_than_one_chunk(activation, unit) -> None:
    shape = (5, 13, 1100, 4)  # 71500 rows, 65536 at once
    assert_matches(rand(*shape).float(), rand(*shape).float(), rand(4).float(), activation, unit)


@pytest.mark.parametrize("dtype", TOLERANCE)
@every_option
def test_rows_of_zeros_stay_zero_and_finite(activation, unit, dtype) -> None:
    x, control, scale = (rand(*shape, dtype=dtype) for shape in ((4, 5), (4, 5), (5,)))
    x[1], control[2], x[3], control[3] = 0, 0, 0, 0
    y, *gradients = results(lambda *three: gate(*three, activation=activation, unit=unit), (x, control, scale), x + 1)
    assert y[1].count_nonzero() == y[3].count_nonzero() == 0
    assert (y[2].count_nonzero() == 0) == (activation == "silu")  # the sigmoid of zero is a half
    if not (unit and dtype == torch.float16):  # the derivative at zero, 1 / epsilon, is more than float16 holds
        assert all(each.isfinite().all() for each in gradients)


@every_option
def test_each_row_comes_out_with_mean_square_one(activation, unit) -> None:
    y = gate(rand(50, 16), rand(50, 16), activation=activation, unit=unit, epsilon=1e-12)
    assert_close(y.square().mean(-1), torch.ones(50), 1e-6)


@every_option
def test_scale_multiplies_each_channel(activation, unit) -> None:
    x, control, scale = rand(4, 5), rand(4, 5), rand(5)
    plain = gate(x, control, activation=activation, unit=unit)
    assert_close(gate(x, control, scale, activation=activation, unit=unit), plain * scale, 1e-15)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_unit_makes_the_gate_blind_to_the_length_of_x(activation) -> None:
    x, control = rand(20, 6), rand(20, 6)
    expected = gate(x, control, activation=activation, unit=True)
    lengths = torch.logspace(0, 3, 20).double()[:, None]
    assert_close(gate(lengths * x, control, activation=activation, unit=True), expected, 1e-5)
    assert_close(gate(-x, control, activation=activation, unit=True), -expected, 1e-15)


@every_option
def test_rows_do_not_see_each_other(activation, unit) -> None:
    x, control, scale = rand(4, 3, 5), rand(4, 3, 5), rand(5)
    alone = [gate(a, b, scale, activation=activation, unit=unit) for a, b in zip(x, control, strict=True)]
    assert_close(torch.stack(alone), gate(x, control, scale, activation=activation, unit=unit), 1e-15)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_large_controls_saturate_without_nan(activation) -> None:
    control = torch.tensor([[-1e4, -200.0, 0.0, 200.0, 1e4]])
    for dtype in (torch.float32, torch.float64):
        tensors = (torch.ones(1, 5, dtype=dtype), control.to(dtype), None)
        for each in results(lambda *t: gate(*t, activation=activation), tensors, torch.ones(1, 5, dtype=dtype)):
            assert each.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@every_option
def test_autocast_leaves_float32_as_accurate_as_without(activation, unit, dtype) -> None:
    with torch.autocast("cpu", dtype):
        assert_matches(rand(6, 5).float(), rand(6, 5).float(), rand(5).float(), activation, unit)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_layers_before_are_welcome(dtype) -> None:
    linear, x, control = nn.Linear(6, 8), torch.randn(9, 6), torch.randn(9, 8)
    with torch.autocast("cpu", dtype):
        y = gate(linear(x), control.to(dtype), torch.ones(8), activation="silu", unit=True)
    assert y.dtype == dtype
    assert_close(y, gate(linear(x), control, activation="silu", unit=True), 1e-2)


def test_half_precision_stays_finite_where_squares_would_not() -> None:
    x = torch.full((2, 8), 3e4, dtype=torch.float16)
    for unit in (False, True):
        assert_close(gate(x, x, activation="sigmoid", unit=unit), torch.ones(2, 8), 2e-3)


@every_option
def test_opcheck(activation, unit) -> None:
    x, control, scale, dy = rand(3, 4, 5), rand(3, 4, 5), rand(5), rand(3, 4, 5)
    options = (activation, unit, 1e-6)
    leaves = [each.clone().requires_grad_() for each in (x, control, scale)]
    torch.library.opcheck(OPS.gate.default, (*leaves, *options))
    for each in (None, scale):
        torch.library.opcheck(OPS.gate.default, (x, control, each, *options))
        torch.library.opcheck(OPS.gate_gradients.default, (dy, x, control, each, *options))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_equals_eager(dynamic) -> None:
    def layer(x, control, scale):
        inner = gate(x.sin(), control, scale, activation="silu", unit=True)
        return gate(inner, control.cos(), activation="sigmoid") + x

    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for shape in ((4, 5, 8), (3, 7, 8)):
        x, control, scale, dy = (rand(*size).float() for size in (shape, shape, shape[-1:], shape))
        with torch.no_grad():
            assert_close(compiled(x, control, scale), layer(x, control, scale), 1e-5)
        found, expected = (results(f, (x, control, scale), dy) for f in (compiled, layer))
        for ours, eager in zip(found, expected, strict=True):
            assert_close(ours, eager, 1e-5)


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(5))

    def forward(self, x):
        return gate(x, x.cos(), self.scale, activation="silu", unit=True)


def test_exports() -> None:
    layer, x = _Layer(), torch.randn(2, 3, 5)
    exported = torch.export.export(layer, (x,)).module()
    assert_close(exported(x).detach(), layer(x).detach(), 1e-6)


def test_an_empty_batch_stays_empty() -> None:
    tensors = torch.zeros(0, 3, 5), torch.zeros(0, 3, 5), torch.ones(5)
    y, dx, dcontrol, dscale = results(lambda *t: gate(*t, activation="silu"), tensors, torch.zeros(0, 3, 5))
    assert y.shape == dx.shape == dcontrol.shape == (0, 3, 5)
    assert dscale.count_nonzero() == 0


@pytest.mark.parametrize("dtype", [dtype for dtype in TOLERANCE if dtype != torch.float64])
@every_option
def test_triton_matches_the_formula(in_triton, activation, unit, dtype) -> None:
    for shape in SHAPES:
        epsilon = 0.1 if shape[-1] == 1 else 1e-6
        assert_matches(rand(*shape, dtype=dtype), rand(*shape, dtype=dtype), None, activation, unit, epsilon)
        assert_matches(*(rand(*s, dtype=dtype) for s in (shape, shape, shape[-1:])), activation, unit, epsilon)


def test_triton_matches_the_formula_at_any_width(in_triton) -> None:
    for channels in (*range(2, 18), 24, 31, 48, 96):
        for activation, unit in (("silu", True), ("sigmoid", False)):
            rows = 1 + 2 * channels % 17
            shapes = (2, rows, channels), (2, rows, channels), (channels,)
            assert_matches(*(rand(*shape).float() for shape in shapes), activation, unit)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_do_not_matter_to_triton(in_triton, layout) -> None:
    x, control = layout(rand(2, 6, 4, 8).float()), layout(rand(2, 6, 4, 8).float())
    assert_matches(x, control, rand(2 * x.shape[-1]).float()[::2], "silu", unit=True)
    assert_matches(x, control.contiguous(), None, "sigmoid", unit=False)


def test_rows_may_lie_further_apart_than_32_bits_count(in_triton) -> None:
    x, control = far_apart(rand(3, 4), (2**30, 1)), far_apart(rand(3, 4), (1, 2**30))
    assert_matches(x, control, rand(4).half(), "silu", unit=True)


@pytest.mark.parametrize(("tile", "programs"), [(1, 1), (16, 3), (64, 1000)])
def test_how_triton_shares_out_the_rows_changes_nothing(in_triton, tile, programs, monkeypatch) -> None:
    module = importlib.import_module("fredholm.kernels.gate.triton")
    monkeypatch.setattr(module, "TILE", tile)
    monkeypatch.setattr(module, "PROGRAMS", programs)
    assert_matches(rand(2, 5, 7).float(), rand(2, 5, 7).float(), rand(7).float(), "silu", unit=True)


def test_triton_gives_the_same_bits_again(in_triton) -> None:
    tensors, dy = [rand(*shape).float() for shape in ((3, 200, 24), (3, 200, 24), (24,))], rand(3, 200, 24).float()
    function = lambda *three: gate(*three, activation="silu", unit=True)  # noqa: E731
    for once, again in zip(*(results(function, tensors, dy) for _ in range(2)), strict=True):
        assert torch.equal(once, again)


def test_zeros_and_nothing_at_all_in_triton(in_triton) -> None:
    x = torch.zeros(3, 5)
    assert all(each.isfinite().all() for each in results(lambda *t: gate(*t, activation="silu"), (x, x, None), x + 1))
    empty = torch.zeros(0, 3, 5)
    y, dx, _, dscale = results(lambda *t: gate(*t, activation="silu"), (empty, empty, torch.ones(5)), empty)
    assert y.shape == dx.shape == empty.shape
    assert dscale.count_nonzero() == 0


X = torch.zeros(2, 3)
MISFITS = [
    (lambda: gate(X, X[:1], activation="silu"), r"x and control must have one shape, got \(2, 3\) and \(1, 3\)"),
    (lambda: gate(X[0, 0], X[0, 0], activation="silu"), r"x and control must have one shape, got \(\) and \(\)"),
    (lambda: gate(X, X, torch.ones(2), activation="silu"), r"scale must have shape \(3,\), got \(2,\)"),
    (lambda: gate(X, X, torch.ones(1, 3), activation="silu"), r"scale must have shape \(3,\), got \(1, 3\)"),
    (lambda: gate(X, X, activation="relu"), 'activation must be "silu" or "sigmoid", got \'relu\''),
]


@pytest.mark.parametrize(("call", "words"), MISFITS)
def test_says_what_does_not_fit(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()
