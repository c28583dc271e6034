"""`anchor_mix` is held to its formula, outputs and gradients alike, and to what an interpolation promises."""

import importlib
import itertools

import pytest
import torch
import torch.nn.functional as F
from fredholm.kernels import anchor_measure, anchor_mix
from fredholm.kernels.anchor_mix.reference import anchor_mix_reference
from helpers.strides import far_apart
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

# `fredholm.kernels.anchor_mix` is the function; its modules are reached by name.
CPU = importlib.import_module("fredholm.kernels.anchor_mix.cpu")
OPS = torch.ops.fredholm

# Largest error of the output and of the gradients, relative to the largest expected value; the one place.
TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-4),
    torch.bfloat16: (1e-2, 1e-2),
    torch.float16: (2e-3, 2e-3),
}
SIZES = [((7,), 5, 3, 4), ((), 6, 6, 8), ((1,), 1, 1, 1), ((2, 3), 4, 5, 1), ((2, 3, 4, 5), 9, 16, 24)]

projected = pytest.mark.parametrize("projected", [False, True])


@pytest.fixture(autouse=True)
def _empty_is_nan():
    """PyTorch fills `empty` with NaN in this mode, so that a place nobody wrote cannot pass for a number."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def rand(*shape, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def tensors(lead=(7,), channels=5, width=3, anchors=4, *, projected=True, dtype=torch.float64) -> list[torch.Tensor]:
    """x, branch, anchors, alpha, shares, and W and bias where there is a projection."""
    some = [rand(*lead, channels, dtype=dtype), rand(*lead, width if projected else anchors, dtype=dtype)]
    some += [rand(anchors, channels, dtype=dtype), torch.rand(()).to(dtype), 0.5 + torch.rand(anchors).to(dtype)]
    return some + ([rand(anchors, width, dtype=dtype), rand(anchors, dtype=dtype)] if projected else [])


def mix(x, branch, anchors, alpha, shares, *projection, function=anchor_mix):
    # Two coordinates are +1 and -1 when normalised, and their gradients epsilon's share, a difference of large terms.
    epsilon = 0.1 if len(anchors) <= 2 else 1e-5
    return function(x, branch, anchors, alpha, projection=projection or None, shares=shares, epsilon=epsilon)


def reference(*some):
    return mix(*some, function=anchor_mix_reference)


def results(function, some, dy) -> list[torch.Tensor]:
    """The output and the gradients by each tensor."""
    leaves = [each.detach().requires_grad_() for each in some]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def assert_close(found, expected, tolerance) -> None:
    atol = tolerance * expected.abs().max().item() if expected.numel() else 0
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def assert_matches(some) -> None:
    """Output and gradients are those of the formula in float64."""
    dy = rand(*some[0].shape, dtype=some[0].dtype)
    found = results(mix, some, dy)
    expected = results(reference, [each.double() for each in some], dy.double())
    forward, gradients = TOLERANCE[some[0].dtype]
    # With one anchor its weight is 1 whatever the rest, so that many gradients are 0: measured by the size of dy.
    floor = dy.double().abs().max() * 1e-3
    assert found[0].is_contiguous()
    assert [each.dtype for each in found] == [some[0].dtype, *(each.dtype for each in some)]
    for ours, truth, tolerance in zip(found, expected, (forward, *[gradients] * 7), strict=False):
        atol = tolerance * max(float(truth.abs().max()), float(floor))
        torch.testing.assert_close(ours.double(), truth, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", TOLERANCE)
@projected
def test_matches_the_formula(projected, dtype) -> None:
    for lead, channels, width, anchors in SIZES:
        assert_matches(tensors(lead, channels, width, anchors, projected=projected, dtype=dtype))


@settings(deadline=None, max_examples=40)
@given(
    lead=st.lists(st.integers(1, 5), max_size=3),
    sizes=st.tuples(*[st.integers(1, 6)] * 3),
    projected=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_matches_the_formula_at_any_small_shape(lead, sizes, projected, seed) -> None:
    torch.manual_seed(seed)
    assert_matches(tensors(tuple(lead), *sizes, projected=projected))


@projected
def test_gradcheck(projected) -> None:
    some = [each.requires_grad_() for each in tensors((3, 2), projected=projected)]
    assert torch.autograd.gradcheck(mix, some)


def test_without_shares_all_anchors_have_the_same() -> None:
    x, branch, anchors, alpha, _, *projection = tensors()
    assert torch.equal(*(mix(x, branch, anchors, alpha, shares, *projection) for shares in (None, torch.ones(4))))


def test_orthogonal_anchors_leave_a_plain_norm_and_softmax() -> None:
    x, branch, _, alpha, _, weight, bias = tensors((20,), 8, 6, 5)
    anchors = torch.linalg.qr(rand(8, 5))[0].T
    w = F.softmax(F.layer_norm(F.linear(branch, weight, bias), (5,)), -1)
    found = anchor_mix(x, branch, anchors, alpha, projection=(weight, bias))
    assert_close(found, torch.lerp(x, w @ anchors, alpha), 1e-7)


@settings(deadline=None, max_examples=30)
@given(count=st.integers(1, 9), channels=st.integers(1, 6), seed=st.integers(0, 1000))
def test_the_interpolated_part_lies_in_the_anchors_convex_hull(count, channels, seed) -> None:
    """No direction sees a row beyond the outermost anchor: that is what a convex hull is."""
    torch.manual_seed(seed)
    x, branch, anchors, _, shares, *projection = tensors((30,), channels, 4, count)
    y = mix(x, 5 * branch, anchors, torch.ones(()).double(), shares, *projection)
    directions = torch.cat([rand(200, channels), torch.eye(channels).double()])
    slack = 1e-12 * anchors.abs().max() * directions.norm(dim=1)
    assert ((y @ directions.T).amax(0) <= (anchors @ directions.T).amax(0) + slack).all()


@settings(deadline=None, max_examples=30)
@given(copies=st.lists(st.integers(1, 3), min_size=1, max_size=6), close=st.booleans(), seed=st.integers(0, 1000))
def test_duplicating_anchors_changes_nothing(copies, close, seed) -> None:
    """The output, and every gradient: those of the copies add up to that of the one."""
    torch.manual_seed(seed)
    some = tensors((6,), 5, 3, len(copies))
    if close:
        some[2] = some[2][:1] + 0.1 * some[2]  # near each other, so that the distances matter
    times = torch.tensor(copies)
    dy = rand(6, 5)

    def repeated(times):
        def function(x, branch, anchors, alpha, *rest):
            anchors, shares, *projection = (each.repeat_interleave(times, 0) for each in (anchors, *rest))
            return anchor_mix(x, branch, anchors, alpha, projection=tuple(projection), shares=shares)

        return function

    found, expected = (results(repeated(number), some, dy) for number in (times, torch.ones_like(times)))
    assert_close(found[0], expected[0], 1e-12)
    for ours, truth in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10)


def test_anchors_that_come_close_end_as_one() -> None:
    """From two anchors' weight to one's without a jump, on the way and at the end."""
    x, branch, _, alpha, _, weight, bias = tensors((6,), 16, 3, 4)
    anchors = torch.linalg.qr(rand(16, 4))[0].T
    index = torch.tensor([0, 1, 2, 3, 3])
    weight, bias, five = weight[index], bias[index], 3 * anchors[index]
    offset = torch.zeros(5, 16).double()
    offset[4] = rand(16)
    y = [
        anchor_mix(x, branch, five + size * offset, alpha, projection=(weight, bias))
        for size in (0.0, *torch.logspace(-8, 0.5, 400).tolist())
    ]
    steps = torch.stack([(after - before).abs().max() for before, after in itertools.pairwise(y)])
    assert steps.max() < 0.05 * (y[-1] - y[0]).abs().max()


def test_permuting_anchors_changes_nothing() -> None:
    some, order = tensors(), torch.tensor([2, 0, 3, 1])
    permuted = [each if i in (0, 1, 3) else each[order] for i, each in enumerate(some)]
    assert_close(mix(*permuted), mix(*some), 1e-14)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_alpha_of_zero_is_the_identity(dtype) -> None:
    x, branch, anchors, alpha, *rest = tensors(dtype=dtype)
    assert torch.equal(mix(x, branch, anchors, 0 * alpha, *rest), x)


def test_alpha_of_one_forgets_x() -> None:
    x, branch, anchors, alpha, *rest = tensors()
    one = torch.ones_like(alpha)
    assert torch.equal(mix(x, branch, anchors, one, *rest), mix(x + 1, branch, anchors, one, *rest))


def test_one_anchor_is_where_all_rows_go() -> None:
    x, branch, anchors, alpha, *rest = tensors(anchors=1)
    assert_close(mix(x, branch, anchors, torch.ones_like(alpha), *rest), anchors.expand_as(x), 1e-15)


def test_a_larger_share_draws_rows_closer() -> None:
    x, branch, anchors, _, shares, *projection = tensors()
    one = torch.ones(()).double()
    distances = []
    for share in (0.0, 0.01, 0.3, 1.0, 30.0, 1e6):
        shares[2] = share
        distances.append((mix(x, branch, anchors, one, shares, *projection) - anchors[2]).norm(dim=-1).mean())
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-4 * distances[0]


def test_anchors_of_zero_draw_to_zero_and_have_finite_gradients() -> None:
    """As training begins: all anchors equal, with no length to measure distances by."""
    x, branch, anchors, alpha, *rest = tensors(dtype=torch.float32)
    dy = rand(7, 5, dtype=torch.float32)
    y, *gradients = results(mix, [x, branch, 0 * anchors, alpha, *rest], dy)
    assert_close(y, (1 - alpha) * x, 1e-6)
    assert all(each.isfinite().all() for each in gradients)
    assert gradients[2].abs().min() > 0  # anchors can leave zero


def test_measure_counts_places_and_not_anchors() -> None:
    anchors = torch.linalg.qr(rand(8, 3))[0].T
    places = torch.tensor([0, 1, 1, 2, 2, 2])
    found = anchor_measure(anchors[places])
    assert_close(found, torch.tensor([1 / 3, 1 / 6, 1 / 6, 1 / 9, 1 / 9, 1 / 9]), 1e-7)
    assert_close(anchor_measure(1e3 * anchors[places]), found, 1e-9)


@pytest.mark.parametrize(
    "layout",
    [lambda x: x.movedim(1, -1), lambda x: x[..., ::2], lambda x: x.transpose(0, 2)[::2], lambda x: x.chunk(2, -1)[1]],
)
@projected
def test_strides_do_not_matter(layout, projected) -> None:
    x = layout(rand(2, 6, 4, 8))
    assert not x.is_contiguous()
    some = tensors(x.shape[:-1], x.shape[-1], x.shape[-1], x.shape[-1], projected=projected)
    assert_matches([x, layout(rand(2, 6, 4, 8)), *(torch.stack([each, each], -1)[..., 0] for each in some[2:])])


def test_gradients_that_come_in_expanded() -> None:
    some, one = tensors(), torch.ones(()).double()
    found, expected = (results(mix, some, dy) for dy in (one.expand(7, 5), one.repeat(7, 5)))
    for ours, truth in zip(found, expected, strict=True):
        assert torch.equal(ours, truth)


@pytest.mark.parametrize("cache_bytes", [1, 100, 1000])
@projected
def test_the_chunk_size_changes_nothing(projected, cache_bytes, monkeypatch) -> None:
    some, dy = tensors((3, 7), projected=projected), rand(3, 7, 5)
    whole = results(mix, some, dy)
    monkeypatch.setattr(CPU, "CACHE_BYTES", cache_bytes)
    for ours, expected in zip(results(mix, some, dy), whole, strict=True):
        assert_close(ours, expected, 1e-13)


def test_rows_do_not_see_each_other() -> None:
    x, branch, *rest = tensors()
    alone = [mix(a, b, *rest) for a, b in zip(x, branch, strict=True)]
    assert_close(torch.stack(alone), mix(x, branch, *rest), 1e-14)


def test_large_coordinates_neither_overflow_nor_vanish() -> None:
    x, branch, *rest = tensors(dtype=torch.float32)
    y, *gradients = results(mix, [x, 1e15 * branch, *rest], torch.ones(7, 5))
    assert all(each.isfinite().all() for each in (y, *gradients))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@projected
def test_autocast_leaves_float32_as_accurate_as_without(projected, dtype) -> None:
    with torch.autocast("cpu", dtype):
        assert_matches(tensors(projected=projected, dtype=torch.float32))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_branch_in_half_precision_mixes_into_a_float32_residual(dtype) -> None:
    x, branch, *rest = tensors(dtype=torch.float32)
    y = mix(x, branch.to(dtype), *rest)
    assert y.dtype == torch.float32
    assert_close(y, mix(x, branch.to(dtype).float(), *rest), 1e-6)


@projected
def test_opcheck(projected) -> None:
    x, branch, anchors, alpha, shares, *projection = tensors(projected=projected)
    measure = anchor_measure(anchors)
    parts = [x, branch, anchors, measure, measure * shares, alpha, *projection]
    leaves = [each.clone().requires_grad_() for each in parts]
    torch.library.opcheck(OPS.anchor_mix.default, (leaves, 1e-5))
    torch.library.opcheck(OPS.anchor_mix.default, (parts, 1e-5))
    torch.library.opcheck(OPS.anchor_mix_gradients.default, (rand(7, 5), parts, 1e-5))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_equals_eager(dynamic) -> None:
    def layer(x, branch, *rest):
        return mix(x.sin(), branch.cos(), *rest) + x

    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for lead in ((4, 5), (3, 7)):
        some, dy = tensors(lead, dtype=torch.float32), rand(*lead, 5, dtype=torch.float32)
        with torch.no_grad():
            assert_close(compiled(*some), layer(*some), 1e-5)
        for ours, eager in zip(results(compiled, some, dy), results(layer, some, dy), strict=True):
            assert_close(ours, eager, 1e-5)


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.anchors = nn.Parameter(torch.randn(4, 5))
        self.project = nn.Linear(5, 4)
        self.alpha = nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        return anchor_mix(x, x.cos(), self.anchors, self.alpha, projection=(self.project.weight, self.project.bias))


def test_exports() -> None:
    layer, x = _Layer(), torch.randn(2, 3, 5)
    exported = torch.export.export(layer, (x,)).module()
    assert_close(exported(x).detach(), layer(x).detach(), 1e-6)


def test_an_empty_batch_stays_empty() -> None:
    some = tensors((0, 3))
    y, dx, dbranch, *others = results(mix, some, rand(0, 3, 5))
    assert (y.shape, dx.shape, dbranch.shape) == ((0, 3, 5), (0, 3, 5), (0, 3, 3))
    assert all(each.count_nonzero() == 0 for each in others)


HALF_AND_FLOAT = [dtype for dtype in TOLERANCE if dtype != torch.float64]
MODULE = "fredholm.kernels.anchor_mix.triton"


@pytest.mark.parametrize("dtype", HALF_AND_FLOAT)
@projected
def test_triton_matches_the_formula(in_triton, projected, dtype) -> None:
    for lead, channels, width, anchors in SIZES:
        assert_matches(tensors(lead, channels, width, anchors, projected=projected, dtype=dtype))


def test_triton_matches_the_formula_at_any_width_and_number_of_anchors(in_triton) -> None:
    for n in range(1, 18):
        assert_matches(tensors((n,), 18 - n, n, 1 + 3 * n % 17, projected=n % 2 == 0, dtype=torch.float32))


@pytest.mark.parametrize(("rows", "anchors", "channels"), [(16, 16, 16), (32, 32, 64)])
@projected
def test_the_tiles_change_nothing(in_triton, projected, rows, anchors, channels, monkeypatch) -> None:
    """Several tiles of rows, anchors, channels and width, none of them full."""
    module = importlib.import_module(MODULE)
    for name, value in (("ROWS", rows), ("ANCHORS", anchors), ("CHANNELS", channels), ("PARTS", 2)):
        monkeypatch.setattr(module, name, value)
    some = tensors((2, rows), channels + 5, channels + 3, 2 * anchors + 3, projected=projected, dtype=torch.float32)
    some[4][: anchors + 1] = 0  # a whole tile of anchors that do not count
    assert_matches(some)


def test_anchors_far_from_the_origin_keep_their_digits_in_triton(in_triton) -> None:
    some = tensors((9,), 6, 3, 40, dtype=torch.float32)
    some[2] += 30
    assert_matches(some)


@pytest.mark.parametrize("layout", [lambda x: x.movedim(1, -1), lambda x: x[..., ::2]])
def test_strides_do_not_matter_to_triton(in_triton, layout) -> None:
    x = layout(rand(2, 6, 4, 8).float())
    some = tensors(x.shape[:-1], x.shape[-1], x.shape[-1], x.shape[-1], dtype=torch.float32)
    assert_matches([x, layout(rand(2, 6, 4, 8).float()), *(torch.stack([each, each], -1)[..., 0] for each in some[2:])])


def test_rows_may_lie_further_apart_than_32_bits_count(in_triton) -> None:
    x, branch, *rest = tensors((3,), dtype=torch.float16)
    assert_matches([far_apart(x, (2**30, 1)), far_apart(branch, (1, 2**30)), *rest])


@projected
def test_triton_gives_the_same_bits_again(in_triton, projected) -> None:
    some, dy = tensors((3, 30), projected=projected, dtype=torch.float32), rand(3, 30, 5).float()
    for once, again in zip(*(results(mix, some, dy) for _ in range(2)), strict=True):
        assert torch.equal(once, again)


def test_a_branch_in_half_precision_and_nothing_at_all_in_triton(in_triton) -> None:
    x, branch, *rest = tensors(dtype=torch.float32)
    assert_close(mix(x, branch.bfloat16(), *rest), mix(x, branch.bfloat16().float(), *rest), 1e-6)
    y, dx, dbranch, *others = results(mix, [x[:0], branch[:0], *rest], x[:0])
    assert (y.shape, dx.shape, dbranch.shape) == ((0, 5), (0, 5), (0, 3))
    assert all(each.count_nonzero() == 0 for each in others)


def test_the_definition_as_a_backend(monkeypatch) -> None:
    monkeypatch.setenv("FREDHOLM_BACKEND", "reference")
    for projected in (False, True):
        assert_matches(tensors(projected=projected, dtype=torch.bfloat16))


X, B, A, ONE = torch.zeros(2, 3), torch.zeros(2, 4), torch.ones(5, 3), torch.ones(())
PROJECTION = torch.zeros(5, 4), torch.zeros(5)
MISFITS = [
    (lambda: anchor_mix(X, B[:1], A, ONE), r"agree in all but channels, got \(2, 3\) and \(1, 4\)"),
    (lambda: anchor_mix(X, B, A[:, :2], ONE, projection=PROJECTION), r"anchors must be \(anchors, 3\), got \(5, 2\)"),
    (lambda: anchor_mix(X, B, A[:0], ONE, projection=PROJECTION), r"anchors must be \(anchors, 3\), got \(0, 3\)"),
    (lambda: anchor_mix(X, B, A, ONE[None], projection=PROJECTION), r"alpha must be one number, got \(1,\)"),
    (lambda: anchor_mix(X, B, A, ONE), "without a projection the branch must have 5 channels, one per anchor, got 4"),
    (lambda: anchor_mix(X, B, A[:4], ONE, projection=PROJECTION), r"must be \(4, 4\) and \(4,\), got \[\(5, 4\), \(5"),
    (lambda: anchor_mix(X, B, A[:4], ONE, shares=ONE), r"shares must have shape \(4,\), got \(\)"),
]


@pytest.mark.parametrize(("call", "words"), MISFITS)
def test_says_what_does_not_fit(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()
