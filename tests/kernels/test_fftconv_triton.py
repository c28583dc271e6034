"""`fftconv` in Triton, interpreted where there is no GPU, is held to the defining sum in float64."""

import importlib
import itertools
import math

import numpy as np
import pytest
import torch
from fredholm.kernels import fftconv, spectrum
from fredholm.kernels.fftconv.reference import fftconv_reference

TRITON = importlib.import_module("fredholm.kernels.fftconv.triton")
BOUNDARIES = ("zero", "periodic")
# Largest error of the output and of the gradients, relative to the largest expected value.
TOLERANCE = {torch.float32: (1e-5, 1e-4), torch.bfloat16: (1e-2, 1e-2), torch.float16: (2e-3, 2e-3)}

pytestmark = pytest.mark.usefixtures("in_triton")


@pytest.fixture(params=["one program", "three kernels"])
def either_way(request, monkeypatch) -> None:
    """The test runs once as small boxes do and once as larger ones."""
    if request.param == "three kernels":
        monkeypatch.setattr(TRITON, "is_small", lambda waves: False)


def rand(*shape, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def results(function, tensors, dy) -> list[torch.Tensor]:
    """The output and the gradients by each tensor that is not None."""
    leaves = [None if each is None else each.detach().requires_grad_() for each in tensors]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, [leaf for leaf in leaves if leaf is not None], dy)]


def assert_close(found, expected, tolerance) -> None:
    atol = tolerance * expected.abs().max().item()
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def assert_matches(x, kernel, boundary, shortcut=None) -> None:
    """Output and gradients are those of the defining sum."""
    boundary = [boundary] * (x.ndim - 2) if isinstance(boundary, str) else boundary
    dy = torch.randn(x.shape).to(x.dtype)

    def truth(x, kernel, shortcut):
        if math.prod(kernel.shape[2:]) > 100:  # tap by tap takes too long; float64 never goes to Triton
            return fftconv(x, kernel, boundary=boundary, shortcut=shortcut)
        return fftconv_reference(x, kernel, periodic=[each == "periodic" for each in boundary], shortcut=shortcut)

    tensors = (x, kernel, shortcut)
    found = results(lambda x, k, s: fftconv(x, k, boundary=boundary, shortcut=s), tensors, dy)
    expected = results(truth, [None if each is None else each.double() for each in tensors], dy.double())
    forward, gradients = TOLERANCE[x.dtype]
    assert [each.dtype for each in found] == [x.dtype, *(each.dtype for each in tensors if each is not None)]
    for ours, exact, tolerance in zip(found, expected, (forward, *[gradients] * 3), strict=False):
        assert_close(ours, exact, tolerance)


# Interpreted, all of them take minutes: one, even, odd and the first too long for one program are for every day.
EVERY_DAY = (1, 2, 5, 17)
LENGTHS = [pytest.param(n, marks=() if n in EVERY_DAY else pytest.mark.slow) for n in range(1, 18)]


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", LENGTHS)
def test_matches_the_sum_at_every_length_of_a_line(n, boundary) -> None:
    for taps in {2 * n - 1, (1, n, 4 * n + 3)[n % 3]}:  # odd and even, short, full and longer than can matter
        assert_matches(rand(2, 1, n), rand(1, 1, taps), boundary, rand(1))


def mixed(turn: int, axes: int) -> tuple[str, ...]:
    """One of the ways to give each axis its own boundary, all of them in turn."""
    ways = list(itertools.product(BOUNDARIES, repeat=axes))
    return ways[turn % len(ways)]


@pytest.mark.parametrize("n", LENGTHS)
def test_matches_the_sum_at_every_length_of_each_axis(n) -> None:
    assert_matches(rand(1, 1, n, 18 - n), rand(1, 1, 2 * n - 1, 19 - n), mixed(n, 2), rand(1))
    for turn in range(3):
        grid, taps = (tuple(length[turn:] + length[:turn]) for length in ([n, 2, 3], [n + 1, 3, 5]))
        assert_matches(rand(1, 1, *grid), rand(1, 1, *taps), mixed(n + turn, 3), rand(1))


@pytest.mark.parametrize("turn", range(8))
def test_each_axis_has_its_own_boundary(turn, either_way) -> None:
    assert_matches(rand(1, 1, 3, 5, 2), rand(1, 1, 9, 4, 3), mixed(turn, 3))


@pytest.mark.parametrize("turn", range(4))
def test_each_axis_of_a_plane_has_its_own_boundary(turn) -> None:
    assert_matches(rand(1, 1, 3, 5), rand(1, 1, 9, 4), mixed(turn, 2))


LONGER = [
    ((96,), (191,)),
    pytest.param((510,), (7,), marks=pytest.mark.slow),
    pytest.param((24, 31), (47, 61), marks=pytest.mark.slow),
    pytest.param((48, 9), (95, 17), marks=pytest.mark.slow),
    pytest.param((31, 1, 3), (61, 1, 3), marks=pytest.mark.slow),
    pytest.param((2, 31, 24), (3, 61, 47), marks=pytest.mark.slow),
    pytest.param((31, 2, 48), (61, 3, 95), marks=pytest.mark.slow),
    pytest.param((24, 96, 2), (47, 191, 3), marks=pytest.mark.slow),
    pytest.param((96, 2, 1), (191, 3, 1), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("grid", "taps"), LONGER)
def test_matches_the_sum_on_longer_axes(grid, taps, boundary) -> None:
    assert_matches(rand(1, 1, *grid), rand(1, 1, *taps), boundary, rand(1))


@pytest.mark.parametrize(
    ("grid", "taps"), [((5,), (9,)), ((4, 5), (3, 9)), ((2, 3, 1), (3, 5, 2)), ((17, 2, 1), (3, 3, 1))]
)
def test_each_sample_may_have_its_own_kernel(grid, taps) -> None:
    assert_matches(rand(2, 1, *grid), rand(2, 1, *taps), "zero", rand(1))


@pytest.mark.parametrize(("grid", "taps"), [((20,), (9,)), ((9, 20), (17, 3)), ((3, 17, 4), (5, 9, 2))])
def test_axes_too_long_for_one_program_go_by_their_spectra(grid, taps, monkeypatch) -> None:
    monkeypatch.setattr(TRITON, "ONE_PROGRAM", 1)
    for rows in (1, 2):
        assert_matches(rand(2, 1, *grid), rand(rows, 1, *taps), "zero", rand(1))


def test_axes_too_long_for_matrices_go_to_the_fft() -> None:
    x, kernel = rand(1, 1, 1030), rand(1, 1, 3)
    assert_matches(x, kernel, "periodic", rand(1))
    assert_close(fftconv(x, spectrum(kernel, (1030,))), fftconv(x, kernel), 1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("grid", "taps"), [((17,), (33,)), ((9, 6), (4, 11)), ((3, 5, 4), (7, 3, 2))])
def test_half_precision_is_rounded_once(grid, taps, dtype) -> None:
    for kernel in (dtype, torch.float32):
        assert_matches(rand(1, 1, *grid, dtype=dtype), rand(1, 1, *taps, dtype=kernel), "zero", rand(1, dtype=dtype))


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
        lambda x: x.transpose(2, 3),
        lambda x: x[:, :, ::2, 1::3],
        lambda x: x.flip(0)[..., :1].expand(*x.shape[:-1], 5),
        lambda x: x[:1].expand(2, *x.shape[1:]),
    ],
)
@pytest.mark.parametrize("grid", [(6, 7), (5, 4, 2)])
def test_strides_do_not_matter(layout, grid) -> None:
    x, kernel = layout(rand(2, 2, *grid)), layout(rand(2, 2, *grid))[:1]
    assert not x.is_contiguous()
    assert_matches(x, kernel, "zero", rand(4)[::2])


def test_strides_of_a_larger_box_do_not_matter() -> None:
    x = rand(3, 2, 1, 1, 18).permute(2, 3, 4, 1, 0)[:, :, 1:]
    assert_matches(x, rand(1, 1, 3, 5, 3).transpose(2, 3), "zero", rand(1))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(
    ("grid", "taps"), [((9,), (6,)), ((5, 18), (9, 4)), ((3, 4, 5), (5, 2, 9)), ((17, 1, 2), (9, 1, 3))]
)
def test_a_spectrum_serves_either_backend(grid, taps, boundary, monkeypatch) -> None:
    x, kernel, shortcut = rand(1, 2, *grid), rand(1, 2, *taps), rand(2)
    kept = spectrum(kernel, grid, boundary)
    assert kept.wave.is_contiguous()

    def results_with(kernel):
        return results(
            lambda x, s: fftconv(x, kernel, boundary=boundary, shortcut=s), (x, shortcut), torch.ones_like(x)
        )

    ours = results_with(kept)
    monkeypatch.setenv("FREDHOLM_BACKEND", "cpu")
    for found in (ours, results_with(kept)):
        for each, expected in zip(found, results_with(kernel), strict=True):
            assert_close(each, expected, 1e-5)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((1, 2, 2, 2), (1, 2**31, 2, 1)), ((1, 1, 3, 2), (1, 1, 2**30, 1)), ((1, 1, 2, 2, 1), (1, 1, 2**31, 1, 1))],
)
def test_samples_may_lie_further_apart_than_32_bits_count(shape, strides) -> None:
    far = torch.from_numpy(np.empty(2**31 + 8, np.float16))  # pages that are not touched take no memory
    x = far.as_strided(shape, strides)
    x.copy_(rand(*shape))
    assert_matches(x, rand(1, shape[1], *(3 for _ in shape[2:])), "zero", rand(shape[1]))


def test_repeats_to_the_last_bit() -> None:
    tensors, dy = (rand(3, 1, 2, 4, 6), rand(1, 1, 3, 7, 4)), rand(3, 1, 2, 4, 6)
    for first, second in zip(results(fftconv, tensors, dy), results(fftconv, tensors, dy), strict=True):
        assert torch.equal(first, second)


def test_an_empty_batch_stays_empty() -> None:
    for grid in ((5,), (2, 3, 4)):
        x, kernel = rand(0, 2, *grid), rand(1, 2, *grid)
        y, dx, dkernel = results(fftconv, (x, kernel), x)
        assert y.shape == dx.shape == x.shape
        assert dkernel.count_nonzero() == 0
