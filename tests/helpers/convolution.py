"""Convolutions held to the defining sum in float64, outputs and gradients alike."""

import itertools
import math

import torch
from fredholm.kernels import fftconv
from fredholm.kernels.fftconv.reference import fftconv_reference

BOUNDARIES = ("zero", "periodic")
# Largest error of the output and of the gradients, relative to the largest expected value.
TOLERANCE = {torch.float32: (1e-5, 1e-4), torch.bfloat16: (1e-2, 1e-2), torch.float16: (2e-3, 2e-3)}


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


def mixed(turn: int, axes: int) -> tuple[str, ...]:
    """One of the ways to give each axis its own boundary, all of them in turn."""
    ways = list(itertools.product(BOUNDARIES, repeat=axes))
    return ways[turn % len(ways)]
