"""`instance_norm` is held to its formula, outputs and gradients alike, and to what a norm promises."""

import itertools
import sys

import pytest
import torch
import torch.nn.functional as F
from fredholm.kernels import instance_norm
from fredholm.kernels.instance_norm.reference import instance_norm_reference
from hypothesis import given, settings
from hypothesis import strategies as st

# `fredholm.kernels.instance_norm` is the function; its modules are reached by name.
CPU = sys.modules["fredholm.kernels.instance_norm.cpu"]
OPS = torch.ops.fredholm

# Largest error of the output and of the gradients, relative to the largest expected value; the one place.
TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-4),
    torch.bfloat16: (1e-2, 1e-2),
    torch.float16: (2e-3, 2e-3),
}
HALF = (torch.bfloat16, torch.float16)
SHAPES = [(2, 3, 9), (1, 1, 2), (2, 4, 5, 6), (1, 3, 1, 7), (3, 2, 4, 3, 5), (1, 5, 8, 7, 6)]
SLOPES = (1.0, 0.01)
KINK = 0.05  # no gradient is asked for closer to the kink of the leaky ReLU than this


LAYOUTS = {
    "channels-first": lambda x: x,
    "channels-last": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
    "transposed": lambda x: x.transpose(2, -1).contiguous().transpose(2, -1),
    "flipped batch": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "one half of the channels": lambda x: torch.cat([x, x], 1)[:, x.shape[1] :],
}

ARGUMENTS = ("scaled", "shifted", "added", "slope")
EVERY = list(itertools.product((False, True), (False, True), (False, True), SLOPES))
SOME = [(False, False, False, 1.0), (False, False, True, 0.01), (True, True, False, 0.01), (True, True, True, 1.0)]


def cases(which, dtypes=()):
    """Every choice of arguments, with every type if any."""
    for scaled, shifted, added, slope in which:
        for dtype in dtypes or [None]:
            values = (scaled, shifted, added, slope, *([dtype] if dtypes else []))
            yield pytest.param(*values)


def every(*dtypes):
    return pytest.mark.parametrize((*ARGUMENTS, *(["dtype"] if dtypes else [])), list(cases(EVERY, dtypes)))


def some(*dtypes):
    return pytest.mark.parametrize((*ARGUMENTS, *(["dtype"] if dtypes else [])), list(cases(SOME, dtypes)))


@pytest.fixture(autouse=True)
def _empty_is_nan():
    """PyTorch fills `empty` with NaN in this mode, so that a place nobody wrote cannot pass for a number."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def assert_close(found, expected, tolerance, least=0) -> None:
    atol = tolerance * max(least, expected.abs().max().item())
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def rand(*shape, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def results(function, tensors, dy) -> list[torch.Tensor]:
    """The output and the gradients by each tensor that is not None."""
    leaves = [None if each is None else each.detach().requires_grad_() for each in tensors]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, [leaf for leaf in leaves if leaf is not None], dy)]


def norm(slope, epsilon=1e-5):
    return lambda x, scale, offset, residual: instance_norm(
        x, scale, offset, residual=residual, slope=slope, epsilon=epsilon
    )


def exact(slope, epsilon=1e-5):
    return lambda x, scale, offset, residual: instance_norm_reference(
        x, scale, offset, residual=residual, slope=slope, epsilon=epsilon
    )


def arguments(x, scaled, shifted, added) -> list:
    """The four tensors, each in the type of `x`, scales among them that are negative."""
    channels, dtype = x.shape[1], x.dtype
    return [
        x,
        rand(channels, dtype=dtype) if scaled else None,
        rand(channels, dtype=dtype) if shifted else None,
        rand(*x.shape, dtype=dtype) if added else None,
    ]


def assert_matches(tensors, slope, epsilon=1e-5) -> None:
    """Output and gradients are those of the formula in float64."""
    x = tensors[0]
    double = [None if each is None else each.double() for each in tensors]
    before = exact(1.0, epsilon)(*double)
    dy = rand(*x.shape, dtype=x.dtype)
    if slope != 1:  # rounding decides on which side of the kink a value lies that is all but zero
        dy = dy.where(before.abs() > KINK, 0)
    found = results(norm(slope, epsilon), tensors, dy)
    expected = results(exact(slope, epsilon), double, dy.double())
    forward, gradients = TOLERANCE[x.dtype]
    assert [each.dtype for each in found] == [x.dtype, *(each.dtype for each in tensors if each is not None)]
    # From one voxel comes zero; what rounding leaves of it is measured by what was summed, of the size of 1.
    for ours, truth, tolerance in zip(found, expected, (forward, *[gradients] * 4), strict=False):
        assert_close(ours, truth, tolerance, least=x[0, 0].numel() == 1)


@every(torch.float64, torch.float32)
def test_matches_the_formula(scaled, shifted, added, slope, dtype) -> None:
    for shape in SHAPES:
        # Two voxels come out as 1 and -1 whatever they are, and the gradient is epsilon's share.
        epsilon = 0.1 if shape[2:] == (2,) else 1e-5
        assert_matches(arguments(rand(*shape, dtype=dtype), scaled, shifted, added), slope, epsilon)


@every(*HALF)
def test_matches_the_formula_in_half_precision(scaled, shifted, added, slope, dtype) -> None:
    for shape in ((2, 3, 40), (2, 4, 9, 10), (1, 3, 8, 7, 6)):
        assert_matches(arguments(rand(*shape, dtype=dtype), scaled, shifted, added), slope)


@settings(deadline=None, max_examples=40)
@given(
    shape=st.lists(st.integers(1, 5), min_size=3, max_size=5),
    added=st.booleans(),
    slope=st.sampled_from((1.0, 0.2)),
    seed=st.integers(0, 1000),
)
def test_matches_the_formula_at_any_small_shape(shape, added, slope, seed) -> None:
    torch.manual_seed(seed)
    assert_matches(arguments(rand(*shape), True, True, added), slope, epsilon=1e-2)
    assert_matches(arguments(rand(*shape), False, False, added), slope, epsilon=1e-2)


@every()
def test_gradcheck(scaled, shifted, added, slope) -> None:
    tensors = arguments(rand(2, 2, 3, 2), scaled, shifted, added)
    present = [each is not None for each in tensors]

    def function(*leaves):
        rest = iter(leaves)
        return norm(slope)(*(next(rest) if here else None for here in present))

    assert torch.autograd.gradcheck(function, [each.requires_grad_() for each in tensors if each is not None])


@pytest.mark.parametrize("slope", [0.2, 1, 3])
def test_any_positive_slope(slope) -> None:
    for scaled in (False, True):
        assert_matches(arguments(rand(2, 3, 5, 6), scaled, scaled, True), slope)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 5, 4), (2, 3, 5, 4, 6)])
def test_strides_do_not_matter(layout, shape) -> None:
    for scaled, dtype in ((True, torch.float64), (False, torch.float64), (True, torch.float16)):
        x, scale, offset, residual = arguments(rand(*shape, dtype=dtype), scaled, scaled, True)
        assert_matches([layout(x), scale, offset, layout(residual)], 0.01)
        assert_matches([layout(x), scale, offset, residual], 0.01)


def test_expanded_tensors() -> None:
    x, residual = rand(2, 3, 1, 6).expand(-1, -1, 4, -1), rand(2, 3, 1, 1).expand(-1, -1, 4, 6)
    assert_matches([x, None, None, residual], 0.01)
    tensors, one = arguments(rand(2, 3, 5), True, True, True), torch.ones(()).double()
    found, expected = (results(norm(0.01), tensors, dy) for dy in (one.expand(2, 3, 5), one.repeat(2, 3, 5)))
    for ours, truth in zip(found, expected, strict=True):
        assert_close(ours, truth, 1e-14)


@some(*TOLERANCE)
def test_a_batch_equals_each_alone(scaled, shifted, added, slope, dtype) -> None:
    tensors = arguments(rand(3, 4, 5, 6, dtype=dtype), scaled, shifted, added)
    dy = rand(3, 4, 5, 6, dtype=dtype)
    together = results(norm(slope), tensors, dy)
    for row in range(3):
        own = [None if each is None else each[row : row + 1] if each.ndim > 1 else each for each in tensors]
        alone = results(norm(slope), own, dy[row : row + 1])
        assert torch.equal(alone[0][0], together[0][row])
        assert torch.equal(alone[1][0], together[1][row])


@pytest.mark.parametrize("cache_bytes", [1, 100, 1000])
@some()
def test_the_chunk_size_changes_nothing(scaled, shifted, added, slope, cache_bytes, monkeypatch) -> None:
    tensors, dy = arguments(rand(2, 4, 7, 5, 3), scaled, shifted, added), rand(2, 4, 7, 5, 3)
    whole = results(norm(slope), tensors, dy)
    monkeypatch.setattr(CPU, "CACHE_BYTES", cache_bytes)
    for ours, expected in zip(results(norm(slope), tensors, dy), whole, strict=True):
        assert_close(ours, expected, 1e-12)


@some()
def test_more_voxels_than_one_chunk(scaled, shifted, added, slope) -> None:
    tensors = arguments(rand(1, 6, 48, 49, 50, dtype=torch.float32), scaled, shifted, added)  # 43690 voxels at once
    assert_matches(tensors, slope)


@pytest.mark.parametrize("mean", [-3, 30])
def test_a_mean_costs_no_digits_in_float32(mean) -> None:
    x = rand(1, 6, 40, 40, 40).float() + mean
    for scaled in (False, True):
        assert_matches(arguments(x, scaled, scaled, False), 1.0)


def test_a_scan_that_is_mostly_air_costs_no_digits_in_float32() -> None:
    body = torch.rand(1, 1, 64, 32, 32) < 0.02
    x = rand(1, 12, 64, 32, 32).float().where(body, -1)  # what lies in the body stands far out of such a sum
    y = instance_norm(x).double()
    expected = instance_norm_reference(x.double(), None, None, residual=None, slope=1, epsilon=1e-5)
    assert_close(y, expected, 2e-6)


def test_a_large_mean_costs_no_more_digits_than_in_pytorch() -> None:
    x = rand(1, 6, 40, 40, 40).float() + 1000
    expected = instance_norm_reference(x.double(), None, None, residual=None, slope=1, epsilon=1e-5)
    ours, theirs = ((y - expected).abs().max().item() for y in (instance_norm(x), F.instance_norm(x)))
    assert ours <= 2 * theirs


@pytest.mark.parametrize("value", [3.7, 1000.1])
def test_a_constant_channel_comes_out_as_zero(value) -> None:
    y = instance_norm(torch.full((1, 12, 40, 40, 40), value))
    assert y.abs().max() < 2e-5 * value  # 1 / sqrt(epsilon) times a digit of the value


def test_a_large_residual_keeps_the_gradients_digits() -> None:
    x, residual = rand(1, 4, 20, 20, dtype=torch.float32), 1000 * rand(1, 4, 20, 20, dtype=torch.float32)
    assert_matches([x, None, None, residual], 1.0)
    assert_matches([x, None, None, residual], 0.01)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("grid", [(1,), (1, 1), (1, 1, 1)])
def test_one_voxel_gives_offset_and_residual(grid, dtype) -> None:
    x, scale, offset, residual = arguments(rand(2, 3, *grid, dtype=dtype), True, True, True)
    shift = offset.view(3, *(1 for _ in grid)).expand_as(x)
    tolerance = 30 * TOLERANCE[dtype][0] if dtype == torch.float32 else TOLERANCE[dtype][0]  # see the next test
    assert_close(instance_norm(x), torch.zeros_like(x), tolerance, least=1)
    assert_close(instance_norm(x, scale, offset), shift, tolerance)
    assert_close(instance_norm(x, scale, offset, residual=residual), shift + residual, tolerance, least=1)
    assert_close(instance_norm(x, residual=residual), residual, tolerance)
    expected = F.leaky_relu((shift + residual).double(), 0.01)
    assert_close(instance_norm(x, scale, offset, residual=residual, slope=0.01), expected, tolerance, least=1)
    dx, dscale, doffset, dresidual = results(norm(1), (x, scale, offset, residual), torch.ones_like(x))[1:]
    assert dx.count_nonzero() == dscale.count_nonzero() == 0
    assert torch.equal(doffset, torch.full_like(offset, 2))
    assert torch.equal(dresidual, torch.ones_like(x))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_one_voxel_gives_zero_exactly(dtype) -> None:
    assert instance_norm(rand(2, 30, 1, 1, 1, dtype=dtype)).count_nonzero() == 0


@pytest.mark.parametrize("layout", ["channels-first", "channels-last"])
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 5, 4), (1, 3, 5, 4, 6), (2, 1, 5, 4)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_result_is_channels_last(dtype, shape, layout) -> None:
    x, scale, offset, residual = arguments(rand(*shape, dtype=dtype), True, True, True)
    move = LAYOUTS[layout]
    assert instance_norm(move(x), scale, offset, residual=move(residual)).movedim(1, -1).is_contiguous()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_each_channel_comes_out_with_mean_zero_and_variance_one(dtype) -> None:
    y = instance_norm((rand(2, 3, 9, 8, 7) * 5 + 2).to(dtype)).double()
    variance, mean = torch.var_mean(y, (2, 3, 4), correction=0)
    assert_close(variance, torch.ones(2, 3), 2 * TOLERANCE[dtype][0] + 1e-6)
    assert mean.abs().max() < TOLERANCE[dtype][0]


def test_blind_to_the_scale_and_mean_of_each_channel() -> None:
    x = rand(2, 3, 5, 6)
    other = x * torch.tensor([0.5, 2, 10]).double().view(3, 1, 1) + 7
    for slope in SLOPES:
        found = instance_norm(other, slope=slope, epsilon=1e-14)
        assert_close(found, instance_norm(x, slope=slope, epsilon=1e-14), 1e-10)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_equals_pytorchs_own(axes) -> None:
    x, scale, offset, _ = arguments(rand(2, 4, *(5, 6, 7)[:axes]), True, True, False)
    assert_close(instance_norm(x, scale, offset), F.instance_norm(x, weight=scale, bias=offset), 1e-12)


def test_a_scale_of_zero_has_a_gradient() -> None:
    x, dy = rand(2, 3, 5, 6), rand(2, 3, 5, 6)
    tensors = [x, torch.tensor([0.0, 1.0, -2.0]).double(), rand(3), rand(2, 3, 5, 6)]
    for ours, truth in zip(results(norm(0.5), tensors, dy), results(exact(0.5), tensors, dy), strict=True):
        assert_close(ours, truth, 1e-12)


def test_the_input_is_left_as_it_was() -> None:
    for dtype in TOLERANCE:
        tensors = arguments(rand(2, 3, 5, 6, dtype=dtype), True, True, True)
        before = [each.clone() for each in tensors]
        results(norm(0.01), tensors, rand(2, 3, 5, 6, dtype=dtype))
        for each, copy in zip(tensors, before, strict=True):
            assert torch.equal(each, copy)


@pytest.mark.parametrize("dtype", HALF)
@some()
def test_autocast_leaves_float32_as_accurate_as_without(scaled, shifted, added, slope, dtype) -> None:
    with torch.autocast("cpu", dtype):
        assert_matches(arguments(rand(2, 3, 5, 6).float(), scaled, shifted, added), slope)


@pytest.mark.parametrize("dtype", HALF)
def test_autocast_mixes_half_inputs_with_float32_parameters_and_residuals(dtype) -> None:
    x, (scale, offset, residual) = rand(2, 3, 9, 8, dtype=dtype), (rand(3).float(), rand(3).float(), rand(2, 3, 9, 8))
    dy = rand(2, 3, 9, 8, dtype=dtype)
    with torch.autocast("cpu", dtype):
        found = results(norm(0.5), (x, scale, offset, residual.float()), dy)
    assert [each.dtype for each in found] == [dtype, dtype, *[torch.float32] * 3]
    before = exact(1)(x.double(), scale.double(), offset.double(), residual)
    dy = dy.where(before.abs() > KINK, 0)
    with torch.autocast("cpu", dtype):
        found = results(norm(0.5), (x, scale, offset, residual.float()), dy)
    expected = results(exact(0.5), (x.double(), scale.double(), offset.double(), residual), dy.double())
    for ours, truth in zip(found, expected, strict=True):
        assert_close(ours, truth, TOLERANCE[dtype][0])


@pytest.mark.parametrize("parameters", [torch.float32, None])
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_sums_in_float32(dtype, parameters) -> None:
    x, scale, offset, residual = arguments(rand(2, 6, 20, 20, dtype=dtype), True, True, True)
    scale, offset = scale.to(parameters or dtype), offset.to(parameters or dtype)
    _, moments = OPS.instance_norm(x + 10, scale, offset, residual, 0.01, 1e-5)
    assert_close(moments[:, 0], (x + 10).double().mean((2, 3)), 1e-6)


def test_half_precision_stays_finite_where_squares_would_not() -> None:
    x = (rand(1, 2, 8, 8) * 1e4).half()
    assert_close(instance_norm(x), instance_norm(x.double()), 2e-3)


@some()
def test_opcheck(scaled, shifted, added, slope) -> None:
    x, scale, offset, residual = arguments(rand(2, 3, 4, 5), scaled, shifted, added)
    leaves = [None if each is None else each.clone().requires_grad_() for each in (x, scale, offset, residual)]
    torch.library.opcheck(OPS.instance_norm.default, (*leaves, slope, 1e-5))
    torch.library.opcheck(OPS.instance_norm.default, (x, scale, offset, residual, slope, 1e-5))
    y, moments = OPS.instance_norm(x, scale, offset, residual, slope, 1e-5)
    keeps = CPU.keeps_input(x, scale, offset)
    given_back = (rand(2, 3, 4, 5), y, x if keeps else residual, moments, scale, slope, added, keeps)
    torch.library.opcheck(OPS.instance_norm_gradients.default, given_back)


@pytest.mark.parametrize(
    ("parameters", "layout"),
    [
        (torch.float32, "channels-last"),
        (torch.float32, "channels-first"),
        (None, "channels-last"),
    ],
)
@pytest.mark.parametrize("dtype", HALF)
def test_opcheck_in_half_precision(dtype, parameters, layout) -> None:
    x, scale, offset, residual = arguments(rand(2, 3, 4, 5, dtype=dtype), True, True, True)
    scale, offset = scale.to(parameters or dtype), offset.to(parameters or dtype)
    leaves = [each.requires_grad_() for each in (LAYOUTS[layout](x), scale, offset, residual)]
    # The rounding of half precision makes "compiled equals eager" a question of luck.
    kinds = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(OPS.instance_norm.default, (*leaves, 0.01, 1e-5), test_utils=kinds)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_equals_eager(dynamic) -> None:
    def layer(x, scale, offset, residual):
        return instance_norm(x.sin(), scale, offset, residual=residual.cos(), slope=0.01) * 2 + instance_norm(x)

    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for shape in ((2, 4, 5, 6, 3), (3, 4, 6, 7, 2)):
        tensors, dy = arguments(rand(*shape).float(), True, True, True), rand(*shape).float()
        with torch.no_grad():
            assert_close(compiled(*tensors), layer(*tensors), 1e-5)
        for ours, eager in zip(results(compiled, tensors, dy), results(layer, tensors, dy), strict=True):
            assert_close(ours, eager, 1e-5)


def test_gradients_flow_after_inference_mode_came_first() -> None:
    tensors = arguments(rand(2, 3, 5, 6), True, True, True)
    with torch.inference_mode():
        norm(0.01)(*tensors)
    assert_matches(tensors, 0.01)


X, C = torch.zeros(2, 3, 4), torch.zeros(3)
MISFITS = [
    (lambda: instance_norm(X[0]), r"expected \(batch, channels, \*grid\) with no axis of length 0, got \(3, 4\)"),
    (lambda: instance_norm(X[..., :0]), r"no axis of length 0, got \(2, 3, 0\)"),
    (lambda: instance_norm(X, C[:2]), r"scale must have shape \(3,\), got \(2,\)"),
    (lambda: instance_norm(X, C, C[None]), r"offset must have shape \(3,\), got \(1, 3\)"),
    (lambda: instance_norm(X, residual=X[:1]), r"residual must have the shape of x \(2, 3, 4\), got \(1, 3, 4\)"),
    (lambda: instance_norm(X, slope=0), "slope must be positive, so that the result tells its sign, got 0"),
    (lambda: instance_norm(X, slope=-0.1), "slope must be positive"),
]


@pytest.mark.parametrize(("call", "words"), MISFITS)
def test_says_what_does_not_fit(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()
