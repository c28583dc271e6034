"""`integral_transform` is held to the sum over pairs, outputs and gradients alike, and to what an integral promises."""

import importlib
import itertools
import math
import sys

import pytest
import torch
import torch.nn.functional as F
from fredholm.kernels import (
    Distances,
    LowRankKappa,
    MLPKappa,
    PairwiseKappa,
    Points,
    Products,
    Selection,
    SoftmaxKappa,
    integral_transform,
    itnet_kappa,
)
from fredholm.kernels.integral_transform.reference import (
    integral_transform_reference,
    itnet_reference,
    mlp_reference,
)
from torch import nn
from torch.utils import deterministic
from torch.utils._python_dispatch import TorchDispatchMode

# `fredholm.kernels.integral_transform` is the function; its modules are reached by name.
CPU = importlib.import_module("fredholm.kernels.integral_transform.cpu")
PAIRWISE = sys.modules["fredholm.kernels.integral_transform.pairwise"]
Parts = sys.modules["fredholm.kernels.integral_transform.parts"].Parts
OPS = torch.ops.fredholm

# Largest error of the output and of the gradients, relative to the largest expected value; the one place.
TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-4),
    torch.bfloat16: (1e-2, 1e-2),
    torch.float16: (2e-3, 2e-3),
}
SECOND = {"matrices": (4, 3), "diagonals": (3,)}  # out and in, or channels

every_second = pytest.mark.parametrize("second", SECOND)


@pytest.fixture(autouse=True)
def _empty_is_nan():
    """PyTorch fills `empty` with NaN in this mode, so that a place nobody wrote cannot pass for a number."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def rand(*shape, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def assert_close(found, expected, tolerance) -> None:
    atol = tolerance * expected.abs().max().item() if expected.numel() else 0
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def results(function, tensors, dy=None) -> list[torch.Tensor]:
    """The output and the gradients by each tensor."""
    leaves = [each.detach().requires_grad_() for each in tensors]
    y = function(*leaves)
    gradients = torch.autograd.grad(y, leaves, torch.ones_like(y) if dy is None else dy, materialize_grads=True)
    return [y.detach(), *gradients]


def assert_matches(function, reference, tensors) -> None:
    """Output and gradients are those of the definition in float64."""
    with torch.no_grad():
        y = function(*tensors)
    dy = rand(*y.shape, dtype=y.dtype)
    found = results(function, tensors, dy)
    expected = results(reference, [each.double() for each in tensors], dy.double())
    forward, gradients = TOLERANCE[y.dtype]
    assert [each.dtype for each in found] == [y.dtype, *(each.dtype for each in tensors)]
    assert_close(found[0], expected[0], forward)
    for ours, truth in zip(found[1:], expected[1:], strict=True):
        assert_close(ours, truth, gradients)


class ITNet:
    """Random arguments of ITNet's kernel with 5 axes' worth of everything small: 4 frequencies, 3 channels, width 6."""

    def __init__(self, batch=2, targets=5, sources=7, *, axes=3, second="matrices", dtype=torch.float64) -> None:
        width, count, channels, out = 6, 4, 3, SECOND[second]
        inputs = 6 * count + 1 + 3 * channels
        self.frequencies = rand(count, axes, dtype=dtype)
        self.tensors = [
            rand(batch, targets, axes, dtype=dtype),
            rand(batch, sources, axes, dtype=dtype),
            rand(batch, targets, channels, dtype=dtype),
            rand(batch, sources, channels, dtype=dtype),
            torch.rand(batch, sources).to(dtype),
            (rand(width, inputs) / math.sqrt(inputs)).to(dtype),
            rand(width, dtype=dtype),
            rand(*out, width, dtype=dtype),
            rand(*out, dtype=dtype),
        ]

    def __call__(self, p_x, p_y, u_x, u_y, measure, *layers):
        kappa = itnet_kappa(Points(p_x, u_x), Points(p_y, u_y), self.frequencies, layers[:2], layers[2:])
        return integral_transform(kappa, u_y, measure)

    def literal(self, p_x, p_y, u_x, u_y, measure, *layers):
        frequencies = self.frequencies.double()
        kappa = itnet_reference(Points(p_x, u_x), Points(p_y, u_y), frequencies, layers[:2], layers[2:])
        return integral_transform_reference(kappa, u_y, measure)


TERMS = {
    "none": (False, False),
    "products": (True, False),
    "distances": (False, True),
    "both": (True, True),
}
every_term = pytest.mark.parametrize("terms", TERMS)


class MLP:
    """Random arguments of `MLPKappa`, u and the measure last, as a list of tensors."""

    def __init__(
        self, batch=2, targets=5, sources=7, *, terms="both", second="matrices", rank=2, dtype=torch.float64
    ) -> None:
        self.products, self.distances = TERMS[terms]
        width, features, axes, out = 4, 5, 3, SECOND[second]
        shapes = [(batch, targets, width), (batch, sources, width), (*out, width), out]
        if self.products:
            shapes += [(batch, targets, rank, features), (batch, sources, features), (rank, width, features)]
        if self.distances:
            shapes += [(batch, targets, axes), (batch, sources, axes), (width,)]
        self.tensors = [rand(*shape, dtype=dtype) for shape in (*shapes, (batch, sources, 3), (batch, sources))]

    def kappa(self, left, right, weight, bias, *terms) -> MLPKappa:
        products = Products(*terms[:3]) if self.products else None
        distances = Distances(*terms[-3:]) if self.distances else None
        return MLPKappa(left, right, weight, bias, products, distances)

    def __call__(self, *tensors):
        *parts, u, measure = tensors
        return integral_transform(self.kappa(*parts), u, measure)

    def literal(self, *tensors):
        *parts, u, measure = tensors
        return integral_transform_reference(mlp_reference(self.kappa(*parts)), u, measure)


@pytest.mark.parametrize("dtype", TOLERANCE)
@every_second
def test_itnet_matches_its_literal_definition(second, dtype) -> None:
    for sizes in ((2, 5, 7), (1, 1, 1), (1, 3, 9), (3, 4, 2)):
        for axes in (1, 2, 3):
            itnet = ITNet(*sizes, axes=axes, second=second, dtype=dtype)
            if sizes != (1, 1, 1):
                assert_matches(itnet, itnet.literal, itnet.tensors)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_itnet_on_one_cloud_matches_its_literal_definition(dtype) -> None:
    """Targets that are the sources: distances of 0 among them, which have no slope."""
    itnet = ITNet(dtype=dtype)
    p, u, *rest = itnet.tensors[1], itnet.tensors[3], *itnet.tensors[4:]
    ours, literal = (lambda p, u, *rest, f=f: f(p, p, u, u, *rest) for f in (itnet, itnet.literal))
    assert_matches(ours, literal, [p, u, *rest])


@pytest.mark.parametrize("rank", [1, 2, 3])
@every_term
@every_second
def test_a_perceptron_matches_the_sum_over_pairs(terms, second, rank) -> None:
    mlp = MLP(terms=terms, second=second, rank=rank)
    assert_matches(mlp, mlp.literal, mlp.tensors)


@every_term
@every_second
def test_gradcheck(terms, second) -> None:
    mlp = MLP(2, 2, 3, terms=terms, second=second)
    assert torch.autograd.gradcheck(mlp, [each.requires_grad_() for each in mlp.tensors])


@pytest.mark.parametrize(("block_bytes", "columns"), [(1, 1), (300, 2), (1000, 3), (10000, 5)])
@pytest.mark.parametrize("selected", [False, True])
def test_the_block_size_changes_nothing(block_bytes, columns, selected, monkeypatch) -> None:
    mlp = MLP(2, 9, 11)
    function = selecting(mlp, torch.randint(11, (2, 9, 7))) if selected else mlp
    whole = results(function, mlp.tensors)
    monkeypatch.setattr(CPU, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(CPU, "COLUMNS", columns)
    for ours, expected in zip(results(function, mlp.tensors), whole, strict=True):
        assert_close(ours, expected, 1e-13)


def selecting(mlp, index, *, literal=False):
    """The same perceptron over a selection whose weights are the sources' measure, where they were taken."""
    batch = torch.arange(len(index))[:, None, None]

    def ours(*tensors):
        *parts, u, measure = tensors
        return integral_transform(mlp.kappa(*parts), u, Selection(index, measure[batch, index]))

    def pairs(*tensors):
        *parts, u, measure = tensors
        kappa = mlp_reference(mlp.kappa(*parts))
        times = F.one_hot(index, u.shape[1]).sum(2).to(u.dtype)
        return integral_transform_reference(kappa, u, measure[:, None] * times)

    return pairs if literal else ours


@pytest.mark.parametrize("lists", [1, 5])
@every_term
@every_second
def test_a_selection_sums_over_what_it_lists(lists, terms, second) -> None:
    """Each as often as it is listed; one list for each target or one for all."""
    mlp = MLP(terms=terms, second=second)
    index = torch.randint(7, (2, lists, 9))
    assert_matches(selecting(mlp, index), selecting(mlp, index, literal=True), mlp.tensors)


def test_a_selection_of_all_is_the_whole() -> None:
    mlp = MLP()
    everything = torch.arange(7).expand(2, 5, 7)
    for ours, truth in zip(results(selecting(mlp, everything), mlp.tensors), results(mlp, mlp.tensors), strict=True):
        assert_close(ours, truth, 1e-13)


def test_without_a_measure_it_is_the_mean() -> None:
    *parts, u, measure = MLP().tensors
    kappa = MLP().kappa(*parts)
    mean = torch.full_like(measure, 1 / 7)
    assert_close(integral_transform(kappa, u), integral_transform(kappa, u, mean), 1e-15)


def test_clouds_of_different_size_share_a_batch() -> None:
    """Each as if alone, whatever stands in the padding, which gets no gradient."""
    whole = MLP(1, 4, 7)
    *parts, u, measure = whole.tensors
    size = 5
    short = [each[:, :size] if each.ndim > 1 and each.shape[:2] == (1, 7) else each for each in whole.tensors]
    alone = results(whole, short)
    measure = measure.clone()
    measure[:, size:] = 0
    padded = results(whole, [*parts, u, measure])
    for ours, truth in zip(padded[:-1], alone[:-1], strict=True):
        if ours.shape == truth.shape:
            assert_close(ours, truth, 1e-13)
        else:
            assert_close(ours[:, :size], truth, 1e-13)
            assert ours[:, size:].count_nonzero() == 0


def test_a_batch_is_each_cloud_alone() -> None:
    mlp = MLP(3)
    shared = [each.shape[0] != 3 or each.ndim < 2 for each in mlp.tensors]
    shared[3] = True
    alone = [
        mlp(*(each if one else each[i : i + 1] for each, one in zip(mlp.tensors, shared, strict=True)))
        for i in range(3)
    ]
    assert_close(torch.cat(alone), mlp(*mlp.tensors), 1e-14)


def test_the_order_of_points_does_not_matter() -> None:
    itnet = ITNet()
    p_x, p_y, u_x, u_y, measure, *layers = itnet.tensors
    y = itnet(*itnet.tensors)
    order = torch.randperm(7)
    assert_close(itnet(p_x, p_y[:, order], u_x, u_y[:, order], measure[:, order], *layers), y, 1e-14)
    order = torch.randperm(5)
    assert_close(itnet(p_x[:, order], p_y, u_x[:, order], u_y, measure, *layers), y[:, order], 1e-14)


def test_a_point_in_two_halves_is_the_point() -> None:
    """It is an integral: what a place weighs counts, not how many points lie there."""
    itnet = ITNet()
    p_x, p_y, u_x, u_y, measure, *layers = itnet.tensors
    twice = torch.tensor([0, 1, 2, 3, 3, 4, 5, 6])
    halves = measure[:, twice] * torch.tensor([1, 1, 1, 0.5, 0.5, 1, 1, 1])
    assert_close(itnet(p_x, p_y[:, twice], u_x, u_y[:, twice], halves, *layers), itnet(*itnet.tensors), 1e-14)


def test_it_is_linear_in_the_measure() -> None:
    *rest, measure = MLP().tensors
    other, mlp = rand(2, 7), MLP()
    assert_close(mlp(*rest, 2 * measure - other), 2 * mlp(*rest, measure) - mlp(*rest, other), 1e-13)


def test_a_kernel_of_zero_gives_zero() -> None:
    left, right, weight, bias, *rest = MLP().tensors
    assert MLP()(left, right, 0 * weight, 0 * bias, *rest).count_nonzero() == 0


@pytest.mark.parametrize(("offset", "dtype"), [(4096.0, torch.float32), (2.0**20, torch.float64)])
def test_relative_terms_are_as_exact_far_from_the_origin(offset, dtype) -> None:
    """Positions that stay exact when moved, float64 beside float32 features, and frequencies of the paper's size."""
    itnet = ITNet()
    itnet.frequencies = 10 * itnet.frequencies.float()
    p_x, p_y, *rest = (each.float() for each in itnet.tensors)
    p_x, p_y = ((128 * each).round().to(dtype) / 128 for each in (p_x, p_y))
    rest[3][:, : 4 * 4] = 0  # no waves of one point's place
    near, far = itnet(p_x, p_y, *rest), itnet(p_x + offset, p_y + offset, *rest)
    assert_close(far, near, 1e-6)
    assert_close(near, itnet.literal(p_x.double(), p_y.double(), *(each.double() for each in rest)), 1e-5)


def test_a_smooth_function_is_integrated_better_the_more_points_there_are() -> None:
    """y(x) = integral over [0, 1] of exp(-|x - y|) cos(pi y); midpoints are exact to second order."""
    x = torch.linspace(0, 1, 5, dtype=torch.float64)[None, :, None]

    def error(n: int) -> float:
        y = ((torch.arange(n, dtype=torch.float64) + 0.5) / n)[None, :, None]
        kappa = PairwiseKappa(lambda x, y: torch.exp(-(x - y).abs())[..., 0], (x,), (y,))
        found = integral_transform(kappa, torch.cos(math.pi * y))
        p = x[..., 0]
        exact = (2 * torch.cos(math.pi * p) - torch.exp(-p) + torch.exp(p - 1)) / (1 + math.pi**2)
        return float((found[..., 0] - exact).abs().max())

    errors = [error(n) for n in (40, 80, 160, 320)]
    assert all(3.5 < coarse / fine < 4.5 for coarse, fine in itertools.pairwise(errors))


FUNCTIONS = {
    "numbers": lambda p, q, w: torch.tanh(p @ w[:, 0] - (q @ w[:, 1]) ** 2),
    "diagonals": lambda p, q, w: torch.tanh(p @ w - (q @ w) ** 2),
    "matrices": lambda p, q, w: torch.tanh((p @ w)[..., None] - (q @ w)[..., None, :] ** 2)[..., :2, :],
}


@pytest.mark.parametrize(("block_bytes", "columns"), [(1 << 24, 256), (1, 2), (200, 3)])
@pytest.mark.parametrize("lists", [0, 1, 5])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_any_function_of_a_pair_can_be_kappa(kind, lists, block_bytes, columns, monkeypatch) -> None:
    """Numbers, diagonals and matrices, with gradients for what the function closes over."""
    monkeypatch.setattr(PAIRWISE, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(PAIRWISE, "COLUMNS", columns)
    function, index = FUNCTIONS[kind], torch.randint(7, (2, max(lists, 1), 4))
    batch = torch.arange(2)[:, None, None]

    def ours(x, y, u, measure, w):
        over = Selection(index, measure[batch, index]) if lists else measure
        return integral_transform(PairwiseKappa(lambda p, q: function(p, q, w), (x,), (y,)), u, over)

    def literal(x, y, u, measure, w):
        if lists:
            measure = measure[:, None] * F.one_hot(index, 7).sum(2).to(u.dtype)
        return integral_transform_reference(function(x[:, :, None], y[:, None], w), u, measure)

    for dtype in (torch.float64, torch.float32):
        shapes = ((2, 5, 3), (2, 7, 3), (2, 7, 3), (2, 7), (3, 3))
        assert_matches(ours, literal, [rand(*shape, dtype=dtype) for shape in shapes])


def test_a_perceptron_and_the_function_it_is_agree() -> None:
    itnet = ITNet()
    p_x, p_y, u_x, u_y, measure, *layers = itnet.tensors

    def function(p, v, q, w):
        left, right = Points(p[:, :, 0], v[:, :, 0]), Points(q[:, 0], w[:, 0])
        return itnet_reference(left, right, itnet.frequencies, layers[:2], layers[2:])

    kappa = PairwiseKappa(function, (p_x, u_x), (p_y, u_y))
    assert_close(integral_transform(kappa, u_y, measure), itnet(*itnet.tensors), 1e-13)


def test_softmax_is_scaled_dot_product_attention() -> None:
    query, key, value = rand(2, 5, 4), rand(2, 7, 4), rand(2, 7, 3)

    def ours(query, key, value):
        return integral_transform(SoftmaxKappa(query, key), value)

    for dtype in TOLERANCE:
        assert_matches(ours, F.scaled_dot_product_attention, [each.to(dtype) for each in (query, key, value)])


@pytest.mark.parametrize(("length", "channels"), [(4, 3), (2, 6), (3, 4)])
def test_softmax_heeds_the_measure(length, channels) -> None:
    query, key, value, measure = rand(2, 5, length), rand(2, 7, length), rand(2, 7, channels), torch.rand(2, 7).double()
    measure[:, 2] = 0

    def ours(query, key, value, measure):
        return integral_transform(SoftmaxKappa(query, key), value, measure)

    def literal(query, key, value, measure):
        powers = measure[:, None] * torch.exp(query @ key.mT / math.sqrt(length))
        return powers / powers.sum(-1, keepdim=True) @ value

    tensors = [query, key, value, measure]
    found, expected = results(ours, tensors), results(literal, tensors)
    expected[-1][:, 2] = 0  # the one difference: a source that is absent is not drawn in by a slope
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, 1e-12)


def test_softmax_over_a_list_is_attention_to_what_it_lists() -> None:
    query, key, value, index = rand(2, 5, 4), rand(2, 7, 4), rand(2, 7, 3), torch.tensor([[[0, 2, 6]], [[5, 1, 3]]])
    found = integral_transform(SoftmaxKappa(query, key), value, Selection(index, torch.ones(2, 1, 3).double()))
    rows = torch.arange(2)[:, None]
    expected = F.scaled_dot_product_attention(query, key[rows, index[:, 0]], value[rows, index[:, 0]])
    assert_close(found, expected, 1e-14)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("channels", [(), (3,)])
def test_low_rank_is_its_sum_of_products(channels, dtype) -> None:
    shapes = ((2, 5, 4, *channels), (2, 7, 4, *channels), (2, 7, 3), (2, 7))

    def ours(phi, psi, u, measure):
        return integral_transform(LowRankKappa(phi, psi), u, measure)

    def literal(phi, psi, u, measure):
        kappa = torch.einsum("bxri,byrj->bxyij" if channels else "bxr,byr->bxy", phi, psi)
        return integral_transform_reference(kappa, u, measure)

    assert_matches(ours, literal, [rand(*shape, dtype=dtype) for shape in shapes])


class _LargestTensor(TorchDispatchMode):
    """How many numbers the largest tensor has that any step makes."""

    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for each in out if isinstance(out, tuple | list) else [out]:
            if isinstance(each, torch.Tensor):
                self.largest = max(self.largest, each.untyped_storage().nbytes() // each.element_size())
        return out


@pytest.mark.parametrize("lists", [False, True])
def test_nothing_of_the_size_of_all_pairs_is_held(lists, monkeypatch) -> None:
    monkeypatch.setattr(CPU, "BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(CPU, "COLUMNS", 64)
    largest = []
    for n in (256, 512, 1024):
        mlp = MLP(1, n, n, terms="both")
        left, right, weight, bias, *terms, u, measure = mlp.tensors
        index = torch.randint(n, (1, n, 8)) if lists else None
        measure = measure[:, None, :8].expand(1, n, 8) if lists else measure
        parts = Parts(left, right, *terms, torch.cat([weight, bias[..., None]], -1), u, measure)
        with _LargestTensor() as mode:
            y = CPU.integrate(parts, index)
            CPU.gradients(y, parts, index)
        largest.append(mode.largest)
    assert largest[1] < 2 * largest[0] + 1000
    assert largest[2] < 2 * largest[1] + 1000


def test_pairwise_gradients_hold_nothing_of_the_size_of_all_pairs(monkeypatch) -> None:
    monkeypatch.setattr(PAIRWISE, "BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(PAIRWISE, "COLUMNS", 64)
    n, kept = 512, []
    x, u = rand(1, n, 2).requires_grad_(), rand(1, n, 3).requires_grad_()
    kappa = PairwiseKappa(lambda p, q: (p - q).square().sum(-1).neg().exp(), (x,), (x,))

    def pack(tensor):
        kept.append(tensor.untyped_storage().nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = integral_transform(kappa, u)
    assert max(kept) < 8 * n * n / 20
    dx, du = torch.autograd.grad(y.sum(), (x, u))
    assert dx.isfinite().all()
    assert du.isfinite().all()


@pytest.mark.parametrize(
    "layout", [lambda t: t.transpose(0, 1).contiguous().transpose(0, 1), lambda t: torch.stack([t, t], -1)[..., 0]]
)
def test_strides_do_not_matter(layout) -> None:
    mlp = MLP()
    tensors = [layout(each) if each.ndim > 1 else torch.stack([each, each], -1)[..., 0] for each in mlp.tensors]
    assert not any(each.is_contiguous() for each in tensors)
    assert_matches(mlp, mlp.literal, tensors)


def test_one_cloud_of_positions_serves_a_batch_by_expanding() -> None:
    left, right, weight, bias, factors_x, factors_y, factor_weight, points_x, points_y, *rest = MLP().tensors
    one = [each[:1].expand_as(each) for each in (left, right, factors_x, factors_y, points_x, points_y)]
    tensors = [*one[:2], weight, bias, *one[2:4], factor_weight, *one[4:], *rest]
    assert_matches(MLP(), MLP().literal, tensors)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_leaves_float32_as_accurate_as_without(dtype) -> None:
    itnet = ITNet(dtype=torch.float32)
    phi, psi, u = rand(2, 5, 4).float(), rand(2, 7, 4).float(), rand(2, 7, 3).float()
    with torch.autocast("cpu", dtype):
        with torch.autocast("cpu", enabled=False):
            expected = itnet.literal(*(each.double() for each in itnet.tensors))
            product = phi.double() @ psi.double().mT
            low, soft = product @ u.double() / 7, (product / 2).softmax(-1) @ u.double()
        assert_close(itnet(*itnet.tensors), expected, 1e-5)
        assert_close(integral_transform(LowRankKappa(phi, psi), u), low, 1e-5)
        assert_close(integral_transform(SoftmaxKappa(phi, psi), u), soft, 1e-5)


def test_features_of_layers_before_under_autocast_are_welcome() -> None:
    itnet, linear = ITNet(dtype=torch.float32), nn.Linear(3, 3)
    p_x, p_y, u_x, u_y, *rest = itnet.tensors
    with torch.autocast("cpu", torch.bfloat16):
        y = itnet(p_x, p_y, linear(u_x), linear(u_y), *rest)
    assert y.dtype == torch.bfloat16
    assert_close(y, itnet(p_x, p_y, linear(u_x), linear(u_y), *rest), 3e-2)


@every_term
@pytest.mark.parametrize("lists", [False, True])
def test_opcheck(terms, lists) -> None:
    mlp = MLP(terms=terms)
    *parts, u, measure = mlp.tensors
    index = torch.randint(7, (2, 5, 4)) if lists else None
    measure = rand(2, 5, 4) if lists else measure
    flat = list(mlp.kappa(*parts)._parts(u, measure))
    torch.library.opcheck(OPS.integral_transform.default, ([each.clone().requires_grad_() for each in flat], index))
    torch.library.opcheck(OPS.integral_transform.default, (flat, index))
    torch.library.opcheck(OPS.integral_transform_gradients.default, (rand(2, 5, 4), flat, index))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_equals_eager(dynamic) -> None:
    itnet = ITNet(dtype=torch.float32)
    torch._dynamo.reset()
    compiled = torch.compile(itnet, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for sizes in ((2, 5, 7), (2, 4, 6)):
        tensors = ITNet(*sizes, dtype=torch.float32).tensors
        with torch.no_grad():
            assert_close(compiled(*tensors), itnet(*tensors), 1e-5)
        for ours, eager in zip(results(compiled, tensors), results(itnet, tensors), strict=True):
            assert_close(ours, eager, 1e-4)


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        *_, first, bias, weight, bias2 = ITNet(dtype=torch.float32).tensors
        self.layers = nn.ParameterList([first, bias, weight, bias2])
        self.register_buffer("frequencies", torch.randn(4, 3))

    def forward(self, p, u):
        kappa = itnet_kappa(Points(p, u), Points(p, u), self.frequencies, self.layers[:2], self.layers[2:])
        return integral_transform(kappa, u)


def test_exports() -> None:
    layer, tensors = _Layer(), (torch.randn(2, 6, 3), torch.randn(2, 6, 3))
    exported = torch.export.export(layer, tensors).module()
    assert_close(exported(*tensors).detach(), layer(*tensors).detach(), 1e-6)


@pytest.mark.parametrize("sizes", [(0, 5, 7), (2, 0, 7), (2, 5, 0)])
def test_no_clouds_no_targets_or_no_sources(sizes) -> None:
    mlp = MLP(*sizes)
    y, *gradients = results(mlp, mlp.tensors)
    assert y.shape == (*sizes[:2], 4)
    assert y.count_nonzero() == 0
    assert all(each.count_nonzero() == 0 for each in gradients)
    x, z = torch.zeros(*sizes[:2], 3), torch.zeros(sizes[0], sizes[2], 3)
    pairwise = PairwiseKappa(lambda p, q: (p - q)[..., None, :].expand(-1, -1, -1, 4, -1), (x,), (z,))
    assert integral_transform(pairwise, z).shape == (*sizes[:2], 4)


@pytest.mark.parametrize("name", ["reference", "triton"])
@pytest.mark.parametrize("lists", [0, 5])
@every_term
@every_second
def test_other_backends_match_the_sum_over_pairs(in_triton, name, terms, second, lists, monkeypatch) -> None:
    monkeypatch.setenv("FREDHOLM_BACKEND", name)
    mlp = MLP(terms=terms, second=second, dtype=torch.float32)
    if lists:
        index = torch.randint(7, (2, lists, 3))
        assert_matches(selecting(mlp, index), selecting(mlp, index, literal=True), mlp.tensors)
    else:
        assert_matches(mlp, mlp.literal, mlp.tensors)


@pytest.mark.parametrize("dtype", [dtype for dtype in TOLERANCE if dtype != torch.float64])
def test_triton_matches_itnets_literal_definition(in_triton, dtype) -> None:
    for sizes, axes in (((2, 5, 7), 3), ((1, 3, 9), 1), ((3, 4, 2), 2)):
        itnet = ITNet(*sizes, axes=axes, dtype=dtype)
        assert_matches(itnet, itnet.literal, itnet.tensors)


def test_triton_on_one_cloud_matches_the_literal_definition(in_triton) -> None:
    itnet = ITNet(dtype=torch.float32)
    p, u, *rest = itnet.tensors[1], itnet.tensors[3], *itnet.tensors[4:]
    ours, literal = (lambda p, u, *rest, f=f: f(p, p, u, u, *rest) for f in (itnet, itnet.literal))
    assert_matches(ours, literal, [p, u, *rest])


@pytest.mark.parametrize("lists", [0, 5])
def test_the_tiles_of_triton_change_nothing(in_triton, lists, monkeypatch) -> None:
    """Several tiles of everything, none of them full, and points taken two at a time."""
    module = importlib.import_module("fredholm.kernels.integral_transform.triton")
    for name in ("WIDTH", "OTHERS", "FEATURES", "CHANNELS", "COLUMNS"):
        monkeypatch.setattr(module, name, 16)
    monkeypatch.setattr(module, "CHUNK_BYTES", 2 * 4 * 19 * 18)
    shapes = [(1, 3, 19), (1, 17, 19), (3, 17, 19), (3, 17), (1, 3, 2, 18), (1, 17, 18), (2, 19, 18)]
    shapes += [(1, 3, 3), (1, 17, 3), (19,), (1, 17, 17), (1, 17)]
    mlp, tensors = MLP(), [rand(*shape).float() for shape in shapes]
    if lists:
        index = torch.randint(17, (1, 3, 18))
        assert_matches(selecting(mlp, index), selecting(mlp, index, literal=True), tensors)
    else:
        assert_matches(mlp, mlp.literal, tensors)


def test_clouds_of_different_size_share_a_batch_in_triton(in_triton) -> None:
    mlp = MLP(1, 4, 7, dtype=torch.float32)
    *parts, u, measure = mlp.tensors
    measure = measure * torch.tensor([1, 1, 1, 1, 1, 0, 0])
    found = results(mlp, [*parts, u, measure])
    expected = results(mlp.literal, [each.double() for each in (*parts, u, measure)])
    for ours, truth in zip(found, expected, strict=True):
        assert_close(ours, truth, 1e-4)
        if ours.shape[:2] == (1, 7) and ours.ndim == 3:
            assert ours[:, 5:].count_nonzero() == 0


def test_triton_gives_the_same_bits_again(in_triton) -> None:
    mlp, index = MLP(dtype=torch.float32), torch.randint(7, (2, 5, 9))
    for function in (mlp, selecting(mlp, index)):
        for once, again in zip(*(results(function, mlp.tensors) for _ in range(2)), strict=True):
            assert torch.equal(once, again)


def test_points_may_lie_further_along_than_32_bits_count(in_triton) -> None:
    """Two points, each a cloud, at the end of a tensor of which nothing else is touched, and so takes no memory."""
    module = importlib.import_module("fredholm.kernels.integral_transform.triton")
    width, points = 64, 2**25 + 2
    own, others, factors = (rand(2, width).float() for _ in range(3))
    places, matrices, vectors, slope = (
        rand(2, 1).float(),
        rand(2, width, width).float(),
        rand(2, 1).float(),
        rand(width),
    )

    def moments(points: int) -> torch.Tensor:
        far = [_at_the_end(each, points) for each in (own, places, others, places.flip(0), factors)]
        side = module._Side(*far, slope, (1, 1), None, "ieee")
        return side.moments(slice(points - 2, points), matrices, _at_the_end(vectors, points))

    assert points * width > 2**31
    assert torch.equal(moments(points), moments(2))


def _at_the_end(values: torch.Tensor, rows: int) -> torch.Tensor:
    """The last of so many rows."""
    filled, deterministic.fill_uninitialized_memory = deterministic.fill_uninitialized_memory, False
    memory = torch.empty(rows, *values.shape[1:], dtype=values.dtype)
    deterministic.fill_uninitialized_memory = filled
    memory[rows - len(values) :] = values
    return memory


@pytest.mark.parametrize("sizes", [(0, 5, 7), (2, 0, 7), (2, 5, 0)])
def test_no_clouds_no_targets_or_no_sources_in_triton(in_triton, sizes) -> None:
    mlp = MLP(*sizes, dtype=torch.float32)
    y, *gradients = results(mlp, mlp.tensors)
    assert (y.shape, y.count_nonzero()) == ((*sizes[:2], 4), 0)
    assert all(each.count_nonzero() == 0 for each in gradients)


@pytest.mark.parametrize("lists", [False, True])
def test_triton_holds_nothing_of_the_size_of_all_pairs(in_triton, lists, monkeypatch) -> None:
    """Launches are counted, not run: what they would write is there all the same."""
    module = importlib.import_module("fredholm.kernels.integral_transform.triton")
    monkeypatch.setattr(module, "launch", lambda *arguments, **options: None)
    monkeypatch.setattr(module, "CHUNK_BYTES", 1 << 12)
    largest = []
    for n in (256, 512):
        left, right, weight, bias, *terms, u, measure = MLP(1, n, n, dtype=torch.float32).tensors
        index = torch.randint(n, (1, n, 8)) if lists else None
        measure = measure[:, None, :8].expand(1, n, 8) if lists else measure
        parts = Parts(left, right, *terms, torch.cat([weight, bias[..., None]], -1), u, measure)
        with _LargestTensor() as mode:
            y = module.integrate(parts, index)
            module.gradients(y, parts, index)
        largest.append(mode.largest)
    assert largest[1] <= 2 * largest[0] + 1000


U, X, HALVES = torch.zeros(2, 7, 3), torch.zeros(2, 5, 3), torch.zeros(2, 7, dtype=torch.int64)
LEFT, RIGHT, WEIGHT, BIAS = torch.zeros(2, 5, 6), torch.zeros(2, 7, 6), torch.zeros(4, 3, 6), torch.zeros(4, 3)
KAPPA = MLPKappa(LEFT, RIGHT, WEIGHT, BIAS)
LAYERS = (torch.zeros(6, 34), torch.zeros(6)), (WEIGHT, BIAS)
SOME = Selection(torch.zeros(2, 5, 4, dtype=torch.int64), torch.zeros(2, 5, 4))
B = torch.zeros(4, 3)


def products(*shapes):
    return Products(*(torch.zeros(shape) for shape in shapes))


MISFITS = [
    (lambda: integral_transform(KAPPA, U[:, :6]), ValueError, r"u must be \(2, 7, channels\), .* got \(2, 6, 3\)"),
    (lambda: integral_transform(KAPPA, U[..., :2]), ValueError, "u has 2 channels, kappa's second layer"),
    (lambda: integral_transform(KAPPA, U, U[0]), ValueError, r"the measure must be \(2, 7\), .* got \(7, 3\)"),
    (lambda: integral_transform(KAPPA, U, HALVES), TypeError, "floating tensors, got torch.float32 and torch.int64"),
    (lambda: integral_transform(KAPPA, U, Selection(SOME.index[:, :3], SOME.weights[:, :3])), ValueError, "a list for"),
    (lambda: Selection(SOME.index, SOME.weights[..., :2]), ValueError, r"got \(2, 5, 4\) and \(2, 5, 2\)"),
    (lambda: MLPKappa(LEFT, RIGHT[..., :5], WEIGHT, BIAS), ValueError, "left and right must be"),
    (lambda: MLPKappa(LEFT, RIGHT, WEIGHT, BIAS[0]), ValueError, r"a bias for each but the last, .* and \(3,\)"),
    (
        lambda: MLPKappa(LEFT, RIGHT, WEIGHT, BIAS, products((2, 5, 1, 8), (2, 6, 8), (1, 6, 8))),
        ValueError,
        "products do not fit 2 clouds of 5 targets and 7 sources with width 6",
    ),
    (
        lambda: MLPKappa(LEFT, RIGHT, WEIGHT, BIAS, None, Distances(X, U[..., :2], BIAS[0])),
        ValueError,
        "distances do not fit",
    ),
    (lambda: itnet_kappa(Points(X, X), Points(U, U), B, *LAYERS[::-1]), ValueError, r"first weight \(width, 34\), got"),
    (lambda: itnet_kappa(Points(X, X), Points(U, U[..., :2]), B, *LAYERS), ValueError, "targets and sources alike"),
    (lambda: itnet_kappa(Points(X, X), Points(U, U), B[:, :2], *LAYERS), ValueError, r"must be \(frequencies, 3\)"),
    (lambda: PairwiseKappa(torch.sub, (X,), ()), ValueError, "targets and sources need a tensor each"),
    (lambda: PairwiseKappa(torch.sub, (X, X[:, 1:]), (U,)), ValueError, "agree in both"),
    (lambda: integral_transform(PairwiseKappa(torch.sub, (X,), (U,)), U[..., :2]), ValueError, "kappa must give"),
    (lambda: SoftmaxKappa(X, U[..., :2]), ValueError, "query and key must be"),
    (lambda: integral_transform(SoftmaxKappa(X, U), U, SOME), TypeError, "not one for each"),
    (lambda: LowRankKappa(X, U[..., :2]), ValueError, "phi and psi must both be"),
    (lambda: integral_transform(LowRankKappa(X, U), U, SOME), TypeError, "not one for each"),
    (lambda: integral_transform(LowRankKappa(X[..., None], U[..., None]), U), ValueError, "u has 3 channels, psi 1"),
]


@pytest.mark.parametrize(("call", "error", "words"), MISFITS)
def test_says_what_does_not_fit(call, error, words) -> None:
    with pytest.raises(error, match=words):
        call()
