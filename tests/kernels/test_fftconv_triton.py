"""`fftconv` in Triton, interpreted where there is no GPU, is held to the defining sum in float64.

Interpreted, every length of every axis takes minutes: `every_length_of_fftconv_triton.py` has them, here are some.
"""

import importlib

import pytest
import torch
from fredholm.kernels import fftconv, spectrum
from helpers.convolution import assert_close, assert_matches, mixed, rand, results
from helpers.strides import far_apart

TRITON = importlib.import_module("fredholm.kernels.fftconv.triton")

pytestmark = pytest.mark.usefixtures("in_triton")


@pytest.fixture(params=["one program", "three kernels"])
def either_way(request, monkeypatch) -> None:
    """The test runs once as small boxes do and once as larger ones."""
    if request.param == "three kernels":
        monkeypatch.setattr(TRITON, "is_small", lambda waves: False)


# One, even and odd, the last that one program takes in a box and the first that it does not, several tiles.
SOME = [
    ((1,), (1,), ["zero"]),
    ((2,), (11,), ["periodic"]),
    ((17,), (33,), ["zero"]),
    ((17,), (18,), ["periodic"]),
    ((96,), (191,), ["zero"]),
    ((5, 13), (9, 14), ["zero", "periodic"]),
    ((18, 1), (7, 1), ["periodic", "zero"]),
    ((2, 16, 3), (3, 31, 5), ["zero", "periodic", "zero"]),
    ((2, 1, 17), (5, 1, 33), ["periodic", "zero", "zero"]),
    ((17, 2, 1), (18, 3, 1), ["zero", "periodic", "periodic"]),
]


@pytest.mark.parametrize(("grid", "taps", "boundary"), SOME)
def test_matches_the_sum(grid, taps, boundary) -> None:
    assert_matches(rand(1, 1, *grid), rand(1, 1, *taps), boundary, rand(1))


@pytest.mark.parametrize("turn", [2, 5])
def test_each_axis_has_its_own_boundary(turn, either_way) -> None:
    assert_matches(rand(1, 1, 3, 5, 2), rand(1, 1, 9, 4, 3), mixed(turn, 3))


@pytest.mark.parametrize(
    ("grid", "taps"), [((5,), (9,)), ((4, 5), (3, 9)), ((2, 3, 1), (3, 5, 2)), ((2, 1, 17), (3, 3, 3))]
)
def test_each_sample_may_have_its_own_kernel(grid, taps) -> None:
    assert_matches(rand(2, 1, *grid), rand(2, 1, *taps), "zero", rand(1))


@pytest.mark.parametrize(("grid", "taps"), [((20,), (9,)), ((9, 20), (17, 3)), ((2, 3, 17), (3, 5, 2))])
def test_axes_too_long_for_one_program_go_by_their_spectra(grid, taps, monkeypatch) -> None:
    monkeypatch.setattr(TRITON, "ONE_PROGRAM", 1)
    rows = 1 if len(grid) == 2 else 2
    assert_matches(rand(2, 1, *grid), rand(rows, 1, *taps), "zero", rand(1))


def test_axes_too_long_for_matrices_go_to_the_fft() -> None:
    x, kernel = rand(1, 1, 1030), rand(1, 1, 3)
    assert_matches(x, kernel, "periodic", rand(1))
    assert_close(fftconv(x, spectrum(kernel, (1030,))), fftconv(x, kernel), 1e-5)


@pytest.mark.parametrize("kernel", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once(dtype, kernel) -> None:
    assert_matches(rand(1, 1, 9, 6, dtype=dtype), rand(1, 1, 4, 11, dtype=kernel), "zero", rand(1, dtype=dtype))


def test_half_precision_of_a_box() -> None:
    x, kernel = rand(1, 1, 2, 17, 3, dtype=torch.bfloat16), rand(1, 1, 3, 9, 3)
    assert_matches(x, kernel, "zero", rand(1, dtype=torch.bfloat16))


@pytest.mark.parametrize(
    ("grid", "layout"),
    [
        ((3, 4, 2), lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1)),
        ((3, 4, 2), lambda x: x.transpose(2, 3)),
        ((6, 7), lambda x: x[:, :, ::2, 1::3]),
        ((6, 7), lambda x: x.flip(0)[..., :1].expand(*x.shape[:-1], 5)),
        ((6, 7), lambda x: x[:1].expand(2, *x.shape[1:])),
    ],
)
def test_strides_do_not_matter(grid, layout) -> None:
    x, kernel = layout(rand(2, 2, *grid)), layout(rand(2, 2, *grid))[:1]
    assert not x.is_contiguous()
    assert_matches(x, kernel, "zero", rand(4)[::2])


def test_strides_of_a_larger_box_do_not_matter() -> None:
    x = rand(18, 2, 1, 1, 3).permute(2, 3, 4, 1, 0)[..., 1:]
    assert_matches(x, rand(1, 1, 3, 5, 3).transpose(2, 3), "zero", rand(1))


@pytest.mark.parametrize(
    ("grid", "taps", "boundary"),
    [
        ((9,), (6,), ["zero"]),
        ((5, 18), (9, 4), ["periodic", "zero"]),
        ((3, 4, 5), (5, 2, 9), ["zero", "periodic", "periodic"]),
        ((2, 1, 17), (3, 1, 9), ["periodic", "periodic", "zero"]),
    ],
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
    x = far_apart(rand(*shape), strides)
    assert_matches(x, rand(1, shape[1], *(3 for _ in shape[2:])), "zero", rand(shape[1]))


def test_repeats_to_the_last_bit() -> None:
    tensors, dy = (rand(2, 1, 2, 4, 3), rand(1, 1, 3, 7, 4)), rand(2, 1, 2, 4, 3)
    for first, second in zip(results(fftconv, tensors, dy), results(fftconv, tensors, dy), strict=True):
        assert torch.equal(first, second)


def test_an_empty_batch_stays_empty() -> None:
    for grid in ((5,), (2, 3, 4)):
        x, kernel = rand(0, 2, *grid), rand(1, 2, *grid)
        y, dx, dkernel = results(fftconv, (x, kernel), x)
        assert y.shape == dx.shape == x.shape
        assert dkernel.count_nonzero() == 0
