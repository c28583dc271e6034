"""`fftconv` is held to the defining sum, outputs and gradients alike, and to the laws of a convolution."""

import importlib
import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fredholm.kernels import Spectrum, fftconv, spectrum
from fredholm.kernels.fftconv.reference import fftconv_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

# `fredholm.kernels.fftconv` is the function; its modules are reached by name.
CPU, DFT = (importlib.import_module(f"fredholm.kernels.fftconv.{name}") for name in ("cpu", "dft"))
OPS = torch.ops.fredholm

# Largest error of the output and of the gradients, relative to the largest expected value; the one place.
TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-4),
    torch.bfloat16: (1e-2, 1e-2),
    torch.float16: (2e-3, 2e-3),
}
FULL, HALF = (torch.float64, torch.float32), (torch.bfloat16, torch.float16)
BOUNDARIES = ("zero", "periodic")

# grid, taps: odd, even, prime and one-voxel axes; taps short, even, 2 n - 1 and longer
SMALL = [
    ((6, 7), (3, 4)),
    ((8, 5), (15, 9)),
    ((1, 5), (1, 12)),
    ((13, 1), (30, 2)),
    ((3, 4, 5), (5, 7, 9)),
    ((2, 1, 6), (4, 1, 3)),
    ((5, 3, 2), (2, 8, 4)),
    ((1, 1, 1), (3, 2, 5)),
]
# axes of more than 16 positions (folded), also beside short ones, and of more than 512 frequencies (torch.fft)
ROUTES = [
    ((18, 19), (5, 37)),
    ((12, 5), (23, 3)),
    ((17, 4, 31), (7, 3, 2)),
    ((520, 3), (4, 3)),
    ((3, 520), (3, 4)),
    ((300, 2), (499, 1)),
    ((2, 515, 18), (3, 2, 3)),
    ((513, 514), (3, 2)),
]


@pytest.fixture(autouse=True)
def _empty_is_nan():
    """PyTorch fills `empty` with NaN in this mode, so that a place nobody wrote cannot pass for a number."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def clear_matrices():
    """Forget all DFT matrices: at the start, at the end, and whenever the test calls."""

    def clear() -> None:
        for cache in (DFT.transform, DFT.real_transform, DFT.fast_box):
            cache.cache_clear()

    clear()
    yield clear
    clear()


def assert_close(found, expected, tolerance) -> None:
    atol = tolerance * expected.abs().max().item()
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def results(function, tensors, dy) -> list[torch.Tensor]:
    """The output and the gradients by each tensor that is not None."""
    leaves = [None if each is None else each.detach().requires_grad_() for each in tensors]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, [leaf for leaf in leaves if leaf is not None], dy)]


def assert_matches(x, kernel, boundary="zero", shortcut=None) -> None:
    """Output and gradients are those of the defining sum in float64."""
    tensors, dy = (x, kernel, shortcut), torch.randn(x.shape).to(x.dtype)
    periodic = [each == "periodic" for each in ([boundary] * (x.ndim - 2) if isinstance(boundary, str) else boundary)]
    found = results(lambda x, k, s: fftconv(x, k, boundary=boundary, shortcut=s), tensors, dy)
    exact = [None if each is None else each.double() for each in tensors]
    expected = results(lambda x, k, s: fftconv_reference(x, k, periodic=periodic, shortcut=s), exact, dy.double())
    forward, gradients = TOLERANCE[x.dtype]
    assert found[0].is_contiguous()
    assert [each.dtype for each in found] == [x.dtype, *(each.dtype for each in tensors if each is not None)]
    for ours, truth, tolerance in zip(found, expected, (forward, *[gradients] * 3), strict=False):
        assert_close(ours, truth, tolerance)


def rand(*shape, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", FULL)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", range(1, 18))
def test_matches_the_sum_at_every_length(n, boundary, dtype) -> None:
    """F3: an odd last length loses a sample where the inverse is not told it."""
    for taps in sorted({1, 2, max(1, n - 1), n, 2 * n - 1, 2 * n, 4 * n + 3}):
        assert_matches(rand(2, 3, n, dtype=dtype), rand(1, 3, taps, dtype=dtype), boundary, rand(3, dtype=dtype))


@pytest.mark.parametrize("dtype", FULL)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("grid", "taps"), SMALL + ROUTES)
def test_matches_the_sum_in_two_and_three_dimensions(grid, taps, boundary, dtype) -> None:
    batch = 1 if math.prod(grid) > 10_000 else 2
    assert_matches(rand(batch, 2, *grid, dtype=dtype), rand(1, 2, *taps, dtype=dtype), boundary, rand(2, dtype=dtype))


@pytest.mark.parametrize("dtype", FULL)
@pytest.mark.parametrize(("grid", "taps"), [((4, 5, 3), (7, 4, 7)), ((17, 6), (5, 9)), ((3, 514), (4, 3))])
def test_each_axis_has_its_own_boundary(grid, taps, dtype) -> None:
    for boundary in itertools.product(BOUNDARIES, repeat=len(grid)):
        assert_matches(rand(1, 2, *grid, dtype=dtype), rand(1, 2, *taps, dtype=dtype), boundary)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(
    ("grid", "taps"), [((7,), (5,)), ((5, 18), (4, 9)), ((3, 2, 4), (3, 3, 9)), ((2, 600), (2, 3))]
)
def test_each_sample_may_have_its_own_kernel(grid, taps, boundary) -> None:
    for dtype in FULL:
        assert_matches(rand(3, 2, *grid, dtype=dtype), rand(3, 2, *taps, dtype=dtype), boundary, rand(2, dtype=dtype))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("grid", "taps"), [((17,), (33,)), ((9, 6), (4, 11)), ((4, 5, 6), (7, 3, 2)), ((520,), (5,))])
def test_half_precision_is_rounded_once(grid, taps, boundary, dtype) -> None:
    assert_matches(rand(2, 2, *grid, dtype=dtype), rand(1, 2, *taps, dtype=dtype), boundary, rand(2, dtype=dtype))


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.transpose(2, 3),
        lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
        lambda x: x[:, :, ::2, 1::3],
        lambda x: x.flip(0)[..., :1].expand(-1, -1, -1, 5),
        lambda x: x[:1].expand(3, -1, -1, -1),
    ],
)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_strides_do_not_matter(layout, boundary) -> None:
    x, kernel = layout(rand(2, 4, 18, 7)), layout(rand(2, 4, 5, 6))[:1]
    assert not x.is_contiguous()
    assert_matches(x, kernel, boundary, rand(8)[::2])


def test_gradients_that_come_in_expanded() -> None:
    x, kernel = rand(2, 3, 5, 6).requires_grad_(), rand(1, 3, 3, 4).requires_grad_()
    ours = torch.autograd.grad(fftconv(x, kernel).sum(), (x, kernel))
    truth = torch.autograd.grad(fftconv_reference(x, kernel, periodic=[False, False]).sum(), (x, kernel))
    for found, expected in zip(ours, truth, strict=True):
        assert_close(found, expected, 1e-12)


AXIS = st.tuples(st.integers(1, 7), st.integers(1, 16), st.sampled_from(BOUNDARIES))


@settings(deadline=None, max_examples=40)
@given(
    axes=st.lists(AXIS, min_size=1, max_size=3).filter(lambda axes: math.prod(taps for _, taps, _ in axes) < 120),
    own=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_matches_the_sum_on_any_small_grid(axes, own, seed) -> None:
    torch.manual_seed(seed)
    grid, taps, boundary = zip(*axes, strict=True)
    assert_matches(rand(2, 2, *grid), rand(2 if own else 1, 2, *taps), boundary, rand(2))


@pytest.mark.parametrize("boundary", [("zero",), ("periodic", "zero"), ("zero", "periodic", "zero")])
def test_gradcheck(boundary) -> None:
    """F8: float64 in is float64 throughout."""
    grid, taps = (3, 4, 2)[: len(boundary)], (5, 2, 4)[: len(boundary)]
    inputs = [each.requires_grad_() for each in (rand(2, 2, *grid), rand(1, 2, *taps), rand(2))]
    assert torch.autograd.gradcheck(lambda x, k, s: fftconv(x, k, boundary=boundary, shortcut=s), inputs)


@pytest.mark.parametrize(("n", "taps"), [(14113, 2 * 14113 - 1), (14113, 7), (8760, 8760), (1, 1), (50, 1001), (1, 9)])
def test_awkward_lengths(n, taps) -> None:
    """F10: lengths that kernels do not foresee."""
    x, kernel = rand(1, 1, n), rand(1, 1, taps)
    expected = np.convolve(x.flatten().numpy(), kernel.flatten().numpy())[taps // 2 :][:n]
    for dtype in FULL:
        y, dx, dkernel = results(fftconv, (x.to(dtype), kernel.to(dtype)), torch.ones(1, 1, n, dtype=dtype))
        assert_close(y.flatten(), torch.from_numpy(expected), TOLERANCE[dtype][0])
        assert (dx.shape, dkernel.shape) == (x.shape, kernel.shape)


LAWS = [((9,), (6,)), ((5, 18), (9, 4)), ((3, 4, 5), (5, 2, 9)), ((520,), (7,))]


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("grid", "taps"), LAWS)
def test_linear_in_x_and_in_the_kernel(grid, taps, boundary) -> None:
    (x, z), (k, h) = rand(2, 2, 3, *grid), rand(2, 1, 3, *taps)
    found = fftconv(2 * x - z, k + 3 * h, boundary=boundary)
    parts = [a * b * fftconv(u, v, boundary=boundary) for a, u in ((2, x), (-1, z)) for b, v in ((1, k), (3, h))]
    assert_close(found, sum(parts), 1e-12)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("grid", "taps"), LAWS)
def test_a_centred_delta_changes_nothing(grid, taps, boundary) -> None:
    x, delta = rand(2, 3, *grid), torch.zeros(1, 3, *taps, dtype=torch.float64)
    delta[(..., *(n // 2 for n in taps))] = 1
    assert_close(fftconv(x, delta, boundary=boundary), x, 1e-12)


def test_a_delta_off_centre_shifts() -> None:
    x, delta = rand(2, 3, 6, 7), torch.zeros(1, 3, 4, 5, dtype=torch.float64)
    delta[..., 2 + 1, 2 - 2] = 1  # lag (1, -2)
    assert_close(fftconv(x, delta, boundary="periodic"), x.roll((1, -2), (2, 3)), 1e-12)
    expected = torch.zeros_like(x)
    expected[:, :, 1:, :-2] = x[:, :, :-1, 2:]
    assert_close(fftconv(x, delta), expected, 1e-12)


def test_commutes_with_shifts_along_periodic_axes() -> None:
    x, kernel, boundary = rand(2, 3, 6, 18, 5), rand(1, 3, 5, 4, 9), ("periodic", "zero", "periodic")
    shifted = fftconv(x.roll((2, -1), (2, 4)), kernel, boundary=boundary)
    assert_close(shifted, fftconv(x, kernel, boundary=boundary).roll((2, -1), (2, 4)), 1e-12)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_batch_is_each_alone(rows) -> None:
    x, kernel = rand(3, 2, 5, 6), rand(rows, 2, 7, 4)
    alone = [fftconv(x[i : i + 1], kernel[i : i + 1] if rows == 3 else kernel) for i in range(3)]
    assert_close(fftconv(x, kernel), torch.cat(alone), 1e-12)


def test_taps_that_meet_no_sample_have_no_effect() -> None:
    x, kernel = rand(1, 2, 4, 5), rand(1, 2, 15, 20)
    middle = kernel[..., 7 - 3 : 7 + 4, 10 - 4 : 10 + 5]  # the lags -(n - 1) ... n - 1
    assert torch.equal(fftconv(x, kernel), fftconv(x, middle))
    dkernel = results(fftconv, (x, kernel), torch.ones_like(x))[2]
    assert dkernel.count_nonzero() == middle.numel()


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_is_torch_convolution_with_the_kernel_mirrored(axes) -> None:
    grid, taps = (6, 18, 7)[:axes], (5, 3, 7)[:axes]
    x, kernel = rand(2, 3, *grid), rand(1, 3, *taps)
    convolution = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    mirrored = kernel.flip(*range(2, axes + 2)).movedim(1, 0)
    expected = convolution(x, mirrored, padding=[n // 2 for n in taps], groups=3)
    assert_close(fftconv(x, kernel), expected, 1e-12)


def test_convolution_is_no_correlation() -> None:
    """F17: torch.nn.Conv1d gives 0, 3, 2, 1, 0."""
    delta, kernel = torch.tensor([[[0.0, 0, 1, 0, 0]]]), torch.tensor([[[1.0, 2, 3]]])
    assert_close(fftconv(delta, kernel), torch.tensor([[[0.0, 1, 2, 3, 0]]]), 1e-6)


@pytest.mark.parametrize("taps", [15, 16])
def test_what_leaves_the_grid_is_lost_or_comes_round(taps) -> None:
    """F9: a sample at 7 and a tap at lag 7 meet at 14, which is outside, or 6 of a grid of 8."""
    x, kernel = torch.zeros(1, 1, 8), torch.zeros(1, 1, taps)
    x[..., 7] = kernel[..., taps // 2 + 7] = 1
    torch.testing.assert_close(fftconv(x, kernel), torch.zeros(1, 1, 8), rtol=0, atol=1e-6)
    assert_close(fftconv(x, kernel, boundary="periodic"), torch.eye(8)[6].view(1, 1, 8), 1e-6)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("grid", "taps"), [*LAWS, ((18, 600), (3, 4))])
def test_a_kept_spectrum_is_the_kernel_itself(grid, taps, boundary, rows) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        x, kernel, shortcut = (rand(*shape, dtype=dtype) for shape in ((2, 3, *grid), (rows, 3, *taps), (3,)))
        kept, dy = spectrum(kernel, grid, boundary), rand(*x.shape, dtype=dtype)
        found = results(lambda x, s: fftconv(x, kept, boundary=boundary, shortcut=s), (x, shortcut), dy)  # noqa: B023
        direct = results(lambda x, s: fftconv(x, kernel, boundary=boundary, shortcut=s), (x, shortcut), dy)  # noqa: B023
        for ours, expected in zip(found, direct, strict=True):
            assert_close(ours, expected, TOLERANCE[dtype][0])


def test_gradcheck_of_a_kept_spectrum() -> None:
    kept = spectrum(rand(1, 2, 5, 4), (3, 4), ("zero", "periodic"))
    inputs = [rand(2, 2, 3, 4).requires_grad_(), rand(2).requires_grad_()]
    function = lambda x, s: fftconv(x, kept, boundary=("zero", "periodic"), shortcut=s)  # noqa: E731
    assert torch.autograd.gradcheck(function, inputs)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("cache_bytes", [1, 3000])
def test_the_chunk_size_changes_nothing(cache_bytes, rows, monkeypatch) -> None:
    tensors, dy = (rand(3, 5, 4, 6), rand(rows, 5, 7, 4), rand(5)), rand(3, 5, 4, 6)
    function = lambda x, k, s: fftconv(x, k, shortcut=s)  # noqa: E731
    whole, kept = results(function, tensors, dy), spectrum(tensors[1], (4, 6)).wave
    monkeypatch.setattr(CPU, "CACHE_BYTES", cache_bytes)
    for ours, expected in zip(results(function, tensors, dy), whole, strict=True):
        assert_close(ours, expected, 1e-12)
    assert_close(torch.view_as_real(spectrum(tensors[1], (4, 6)).wave), torch.view_as_real(kept), 1e-12)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("grid", [(20, 20, 10), (64, 64, 64)])
def test_half_precision_stays_finite(grid, boundary) -> None:
    """F1: the sum over 64^3 ones, which a DFT meets at frequency zero, is beyond float16."""
    x, kernel = torch.ones(1, 1, *grid, dtype=torch.float16), torch.full((1, 1, 3, 3, 3), 1 / 27)
    y = fftconv(x, kernel, boundary=boundary)
    assert (y.dtype, y.shape) == (torch.float16, x.shape)
    assert_close(y[..., 1:-1, 1:-1, 1:-1], torch.ones(1, 1, *(n - 2 for n in grid)), 2e-3)


def test_the_gradient_by_shortcut_stays_finite_in_half_precision() -> None:
    x, dy = (torch.full((1, 1, 4), 300, dtype=torch.float16) for _ in range(2))
    dshortcut = results(lambda s: fftconv(x, x[..., :1], shortcut=s), (torch.ones(1),), dy)[1]
    assert_close(dshortcut, torch.tensor([4 * 300.0**2]), 1e-4)


@pytest.mark.parametrize("dtype", HALF)
def test_autocast_layers_before_are_welcome(dtype) -> None:
    """F2: the layer before gives half precision."""
    linear, x, kernel = nn.Linear(6, 4), torch.randn(2, 9, 6), torch.randn(1, 4, 7)
    with torch.autocast("cpu", dtype):
        y = fftconv(linear(x).transpose(1, 2), kernel)
    assert y.dtype == dtype
    assert_close(y, fftconv(linear(x).transpose(1, 2), kernel), 1e-2)
    y.float().square().sum().backward()
    assert linear.weight.grad is not None
    assert linear.weight.grad.isfinite().all()


def test_autocast_leaves_float32_as_accurate_as_without() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        for grid, taps in LAWS:
            for boundary in BOUNDARIES:
                x, kernel, shortcut = rand(2, 3, *grid), rand(1, 3, *taps), rand(3)
                assert_matches(x.float(), kernel.float(), boundary, shortcut.float())
                kept = fftconv(x.float(), spectrum(kernel.float(), grid, boundary), boundary=boundary)
                assert_close(kept, fftconv(x, kernel, boundary=boundary), 1e-5)


@pytest.mark.parametrize("periodic", [[False, False], [True, False], [True, True]])
@pytest.mark.parametrize("op", ["fftconv", "spectrum", "fftconv_gradients", "fftconv_spectrum"])
def test_opcheck(op, periodic) -> None:
    x, kernel, shortcut = rand(2, 2, 4, 5), rand(1, 2, 3, 9), rand(2)
    wave = OPS.spectrum(kernel, [4, 5], periodic)
    leaves = [each.clone().requires_grad_() for each in (x, kernel, shortcut)]
    arguments = {
        "fftconv": [(*leaves, periodic), (x, kernel, None, periodic)],
        "fftconv_gradients": [(x.sin(), x, kernel, shortcut, periodic)],
        "fftconv_spectrum": [(z, wave, shortcut, [3, 9], periodic, back) for z in (x, leaves[0]) for back in (0, 1)],
        "spectrum": [(kernel, [4, 5], periodic)],
    }
    for each in arguments[op]:
        torch.library.opcheck(getattr(OPS, op).default, each)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("boundary", ["zero", ("periodic", "zero"), "periodic"])
def test_compiled_equals_eager(dynamic, boundary, clear_matrices) -> None:
    """F7: compilers stumble over complex numbers. Nor may what the compiled function leaves behind hurt others."""

    def layer(x, kernel, shortcut):
        y = fftconv(x.cos(), kernel.sin(), boundary=boundary, shortcut=shortcut)
        with torch.no_grad():
            kept = spectrum(kernel, x.shape[2:], boundary)
        return y.sin() + fftconv(y, kept, boundary=boundary)

    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for grid, taps in (((5, 6), (9, 4)), ((17, 3), (4, 3)), ((3, 515), (4, 3))):
        tensors, dy = (
            [rand(*shape).float() for shape in ((2, 3, *grid), (1, 3, *taps), (3,))],
            rand(2, 3, *grid).float(),
        )
        clear_matrices()
        expected = results(layer, tensors, dy)
        clear_matrices()
        with torch.no_grad():
            assert_close(compiled(*tensors), expected[0], 1e-5)
        for function in (compiled, layer):
            for found, eager in zip(results(function, tensors, dy), expected, strict=True):
                assert_close(found, eager, 1e-5)


def test_gradients_taken_inside_a_compiled_function() -> None:
    x, kernel, dy = rand(2, 3, 5, 6), rand(1, 3, 3, 4), rand(2, 3, 5, 6)
    torch._dynamo.reset()
    compiled = torch.compile(OPS.fftconv_gradients, fullgraph=True, backend="aot_eager")
    expected = results(lambda x, k: fftconv_reference(x, k, periodic=[True, False]), (x, kernel), dy)
    for found, truth in zip(compiled(dy, x, kernel, None, [True, False]), expected[1:], strict=True):
        assert_close(found, truth, 1e-12)


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(1, 3, 7))
        self.shortcut = nn.Parameter(torch.randn(3))

    def forward(self, x):
        return fftconv(x.tanh(), self.kernel, boundary="periodic", shortcut=self.shortcut)


@pytest.mark.usefixtures("clear_matrices")
def test_exports() -> None:
    layer, x = _Layer(), torch.randn(2, 3, 9)
    exported = torch.export.export(layer, (x,)).module()
    assert_close(exported(x).detach(), layer(x).detach(), 1e-6)
    assert "fredholm.fftconv.default" in str(exported.graph)


@pytest.mark.usefixtures("clear_matrices")
@pytest.mark.parametrize(("grid", "taps"), [*LAWS, ((18, 17), (3, 3))])
def test_gradients_flow_after_inference_mode_came_first(grid, taps) -> None:
    x, kernel = rand(2, 3, *grid), rand(1, 3, *taps)
    with torch.inference_mode():
        inferred = fftconv(x, kernel), fftconv(x, spectrum(kernel, grid))
    assert_matches(x, kernel)
    for y in inferred:
        assert_close(y.clone(), fftconv(x, kernel), 1e-12)


@pytest.mark.usefixtures("clear_matrices")
def test_no_inference_tensor_is_kept() -> None:
    kinds = [(n, fast) for n in (5, 30) for fast in (False, True)]
    sizes, where = [DFT.Size(n, 40, 3, fast, mirrored=False) for n, fast in kinds], torch.device("cpu")
    with torch.inference_mode():
        made = [make(size, torch.float32, where) for size in sizes for make in (DFT.transform, DFT.real_transform)]
        made.append(DFT.fast_box((sizes[1],) * 2, torch.float32, where))
    kept = [each for one in made for each in vars(one).values() if isinstance(each, torch.Tensor)]
    assert kept
    assert not any(each.is_inference() for each in kept)


def test_repeats_to_the_last_bit() -> None:
    for grid, taps in LAWS:
        tensors, dy = (rand(2, 3, *grid).float(), rand(1, 3, *taps).float()), rand(2, 3, *grid).float()
        for first, second in zip(results(fftconv, tensors, dy), results(fftconv, tensors, dy), strict=True):
            assert torch.equal(first, second)


X, K = torch.zeros(2, 3, 5), torch.zeros(1, 3, 3)
MISFITS = [
    (lambda: fftconv(X[0], K), r"expected \(batch, channels, \*grid\) with one to three axes of grid, got 0 axes"),
    (lambda: fftconv(X.view(2, 3, 5, 1, 1, 1), K), "one to three axes of grid, got 4 axes"),
    (lambda: fftconv(X, K, boundary="circular"), 'boundary \'circular\': expected "zero", "periodic", or 1 of them'),
    (lambda: fftconv(X, K, boundary=("zero", "zero")), r"boundary \('zero', 'zero'\): expected .* or 1 of them, one"),
    (lambda: fftconv(X, K[None]), r"x \(2, 3, 5\) and kernel \(1, 1, 3, 3\) must have the same number of axes"),
    (lambda: fftconv(X, K[:, :2]), "x has 2 rows of 3 channels, kernel 1 of 2: channels must agree"),
    (lambda: fftconv(X, K.expand(3, 3, 3)), "x has 2 rows of 3 channels, kernel 3 of 3: .* one row for all or one for"),
    (lambda: fftconv(X[..., :0], K), r"an axis of length 0 in x \(2, 3, 0\) or kernel \(1, 3, 3\)"),
    (lambda: fftconv(X, K[..., :0]), r"an axis of length 0 in x \(2, 3, 5\) or kernel \(1, 3, 0\)"),
    (lambda: fftconv(X, K, shortcut=torch.zeros(2)), r"shortcut must have shape \(3,\), got \(2,\)"),
    (
        lambda: fftconv(X, spectrum(K, (6,))),
        r"the spectrum was made for grid and boundary \(\(6,\), \('zero',\)\), x asks",
    ),
    (lambda: fftconv(X, spectrum(K, (5,)), boundary="periodic"), r"x asks for \(\(5,\), \('periodic',\)\)"),
    (lambda: fftconv(X.double(), spectrum(K, (5,))), "x is torch.float64, the spectrum torch.complex64: float64 goes"),
    (lambda: fftconv(X, spectrum(K.double(), (5,))), "x is torch.float32, the spectrum torch.complex128"),
    (lambda: spectrum(K, (5, 5)), r"kernel \(1, 3, 3\) has 1 axes of taps, grid \(5, 5\) differs"),
    (lambda: spectrum(K, (5,), ("zero", "zero")), "boundary .* or 1 of them, one for each axis"),
    (lambda: spectrum(K.clone().requires_grad_(), (5,)), "a kept spectrum carries no gradient: .* torch.no_grad"),
    pytest.param(lambda: spectrum(K, (0,)), "length 0"),
    pytest.param(lambda: spectrum(K[..., :0], (5,)), "length 0"),
]


@pytest.mark.parametrize(("call", "words"), MISFITS)
def test_says_what_does_not_fit(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()


WRONG_TYPES = [
    (lambda: fftconv(X.int(), K), "x and kernel must be floating tensors, got torch.int32 and torch.float32"),
    (lambda: fftconv(X, K.bool()), "got torch.float32 and torch.bool"),
    (lambda: fftconv(X.to(torch.complex64), K), "got torch.complex64 and torch.float32"),
    pytest.param(lambda: fftconv(X, K.to(torch.complex64)), "floating"),
    pytest.param(lambda: spectrum(K.int(), (5,)), "floating"),
]


@pytest.mark.parametrize(("call", "words"), WRONG_TYPES)
def test_says_which_type_is_wrong(call, words) -> None:
    with pytest.raises(TypeError, match=words):
        call()


def test_an_empty_batch_stays_empty() -> None:
    assert fftconv(X[:0], K).shape == (0, 3, 5)


def test_a_spectrum_says_what_it_was_made_for() -> None:
    kept = spectrum(torch.zeros(1, 2, 3, 4), [5, 6], ["zero", "periodic"])
    assert isinstance(kept, Spectrum)
    assert (kept.taps, kept.grid, kept.boundary) == ((3, 4), (5, 6), ("zero", "periodic"))
