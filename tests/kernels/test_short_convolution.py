"""`short_convolution` is held to its definition, outputs and gradients alike."""

import pytest
import torch
from fredholm.kernels import short_convolution
from fredholm.kernels.short_convolution.reference import short_convolution_reference
from torch import nn

TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-4),
    torch.bfloat16: (1e-2, 1e-2),
    torch.float16: (2e-3, 2e-3),
}
CASES = [  # grid, taps, padding
    ((7,), (3,), (1,)),
    ((1,), (3,), (1,)),
    ((5, 4), (3, 3), (1, 1)),
    ((4, 5, 6), (3, 3, 3), (1, 1, 1)),
    ((6, 5, 7), (3, 3, 3), (0, 1, 0)),
    ((1, 2, 9), (3, 1, 5), (1, 0, 2)),
    ((4, 3), (2, 3), (3, 0)),
    ((1, 1, 1), (3, 3, 3), (1, 1, 1)),
]


def results(function, x, weight, padding, dy) -> list[torch.Tensor]:
    leaves = [each.detach().requires_grad_() for each in (x, weight)]
    y = function(*leaves, padding)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy.to(y.dtype))]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("grid", "taps", "padding"), CASES)
@pytest.mark.parametrize("channels", [1, 6])
def test_output_and_gradients_are_the_definitions(dtype, grid, taps, padding, channels) -> None:
    x, weight = torch.randn(2, *grid, channels).to(dtype), torch.randn(channels, 1, *taps).to(dtype)
    grid = [n + 2 * p - t + 1 for n, p, t in zip(grid, padding, taps, strict=True)]
    dy = torch.randn(2, *grid, channels).to(dtype)
    found = results(short_convolution, x, weight, padding, dy)
    exact = results(short_convolution_reference, x.double(), weight.double(), padding, dy.double())
    assert found[0].is_contiguous()
    for index, (one, other) in enumerate(zip(found, exact, strict=True)):
        assert one.dtype == dtype
        atol = TOLERANCE[dtype][index > 0] * other.abs().max().item()
        torch.testing.assert_close(one.double(), other, rtol=0, atol=atol)


def test_gradients_are_those_of_finite_differences() -> None:
    x = torch.randn(1, 3, 4, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda *both: short_convolution(*both, (1, 0)), (x, weight))


def test_it_is_pytorchs_own_convolution() -> None:
    theirs = nn.Conv3d(4, 4, 3, padding=1, groups=4, bias=False)
    x = torch.randn(2, 5, 6, 7, 4)
    y = short_convolution(x, theirs.weight, (1, 1, 1))
    torch.testing.assert_close(y, theirs(x.movedim(-1, 1)).movedim(1, -1))


def test_strides_do_not_matter() -> None:
    x = torch.randn(2, 4, 6, 5, 3)
    weight, moved = torch.randn(4, 1, 3, 3, 3), x.permute(0, 3, 4, 2, 1)
    torch.testing.assert_close(
        short_convolution(moved, weight, (1, 1, 1)), short_convolution(moved.contiguous(), weight, (1, 1, 1))
    )


def test_autocast_leaves_float32_alone_and_takes_weights_in_the_inputs_type() -> None:
    x, weight = torch.randn(1, 5, 5, 3), torch.randn(3, 1, 3, 3)
    expected = short_convolution(x, weight, (1, 1))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(short_convolution(x, weight, (1, 1)), expected)
        assert short_convolution(x.bfloat16(), weight, (1, 1)).dtype == torch.bfloat16


@pytest.mark.parametrize(("grid", "taps", "padding"), [((6, 5), (3, 3), (1, 0)), ((4, 4, 4), (3, 3, 3), (1, 1, 1))])
def test_opcheck(grid, taps, padding) -> None:
    x, weight = torch.randn(2, *grid, 4, requires_grad=True), torch.randn(4, 1, *taps, requires_grad=True)
    torch.library.opcheck(torch.ops.fredholm.short_convolution.default, (x, weight, list(padding)))


def test_compiled_is_as_eager_forwards_and_back() -> None:
    x, weight = torch.randn(1, 6, 5, 4), torch.randn(4, 1, 3, 3)
    compiled = torch.compile(lambda *both: short_convolution(*both).sin(), fullgraph=True, backend="aot_eager")
    eager = results(lambda *both: short_convolution(*both).sin(), x, weight, (1, 1), torch.ones(1, 6, 5, 4))
    for one, other in zip(results(compiled, x, weight, (1, 1), torch.ones(1, 6, 5, 4)), eager, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("x", "weight", "padding", "words"),
    [
        ((2, 5), (5, 1), (), "one to three axes"),
        ((2, 5, 5, 3), (3, 1, 3), (1, 1), "one to three axes"),
        ((2, 5, 5, 3), (3, 1, 3, 3), (1,), "one to three axes"),
        ((2, 5, 5, 3), (4, 1, 3, 3), (1, 1), r"\(3, 1, \*taps\)"),
        ((2, 5, 1, 3), (3, 1, 3, 3), (1, 0), "shorter than"),
    ],
)
def test_what_does_not_fit_is_refused(x, weight, padding, words) -> None:
    with pytest.raises(ValueError, match=words):
        short_convolution(torch.randn(x), torch.randn(weight), padding)
