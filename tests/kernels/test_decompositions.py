"""What an operator becomes in an exported program gives the operator's own numbers."""

import pytest
import torch
from fredholm.kernels import (
    anchor_mix,
    decompositions,
    fftconv,
    gate,
    implicit_kernel,
    instance_norm,
    short_convolution,
)
from torch import Tensor

# torch.export's own parts warn of each other.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")

GRIDS = [
    ((9,), (17,), "zero"),
    ((6, 7), (11, 4), "zero"),
    ((6, 5, 4), (3, 9, 8), ("zero", "periodic", "zero")),
    ((5, 6, 8), (9, 6, 17), "periodic"),
    ((1, 33, 40), (1, 65, 79), "zero"),
]


class Call(torch.nn.Module):
    """A function as a module, which is what export takes."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.function(*tensors)


def assert_plain(function, *tensors: Tensor) -> None:
    """The exported and decomposed program holds no operator of ours, and gives the same."""
    program = torch.export.export(Call(function), tensors).run_decompositions(decompositions())
    assert "fredholm" not in str(program.graph)
    found, expected = program.module()(*tensors), function(*tensors)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * float(expected.abs().max()))


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize(("grid", "taps", "boundary"), GRIDS)
def test_the_long_convolution_is_real_matrix_products(grid, taps, boundary) -> None:
    assert_plain(
        lambda x, kernel, shortcut: fftconv(x, kernel, boundary=boundary, shortcut=shortcut),
        rand(2, 3, *grid), rand(1, 3, *taps), rand(3),
    )  # fmt: skip


def test_a_mix_of_anchors_is_its_definition() -> None:
    assert_plain(
        lambda x, b, anchors, alpha, weight, bias: anchor_mix(x, b, anchors, alpha, projection=(weight, bias)),
        rand(2, 5, 8), rand(2, 5, 8), rand(4, 8), torch.tensor(0.3, dtype=torch.float64), rand(4, 8), rand(4),
    )  # fmt: skip


@pytest.mark.parametrize("unit", [True, False])
def test_gates_are_their_definition(unit) -> None:
    activation = "silu" if unit else "sigmoid"
    assert_plain(lambda x, c, s: gate(x, c, s, activation=activation, unit=unit), *(rand(2, 5, 6, 8),) * 2, rand(8))


def test_norms_are_their_definition() -> None:
    assert_plain(
        lambda x, s, o, r: instance_norm(x, s, o, residual=r, slope=0.01),
        rand(2, 3, 4, 5, 6), rand(3), rand(3), rand(2, 3, 4, 5, 6),
    )  # fmt: skip


@pytest.mark.parametrize("padding", [(1, 1, 1), (0, 1, 0)])
def test_short_convolutions_are_pytorchs(padding) -> None:
    assert_plain(lambda x, w: short_convolution(x, w, padding), rand(2, 4, 5, 6, 8), rand(8, 1, 3, 3, 3))


def test_kernels_are_made_within_the_program() -> None:
    axes = [torch.linspace(-1, 1, n, dtype=torch.float64) for n in (5, 7)]
    assert_plain(
        lambda w0, w1, w2, b0, b1, b2, film, sigma: implicit_kernel(
            axes, [w0, w1, w2], [b0, b1, b2], film=film, sigma=sigma
        ),
        rand(6, 2), rand(6, 6), rand(3, 6), rand(6), rand(6), rand(3), rand(2, 1, 2, 6), rand(2, 3).abs() + 0.2,
    )  # fmt: skip
