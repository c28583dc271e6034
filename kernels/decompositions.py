"""The operators that a segmenter computes with, in terms of PyTorch's own: for programs that leave PyTorch.

An exported program holds `fredholm::gate` and the like as single steps, which no other runtime knows. This table turns
them into steps that any has: the definitions, real matrix products for the long convolution (`fftconv/real.py`), and
PyTorch's depthwise convolution for the short one. They give the same numbers up to rounding.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .anchor_mix.parts import Parts
from .anchor_mix.reference import definition
from .fftconv import real
from .fftconv.plan import Plan
from .gate.reference import gate_reference
from .implicit_kernel.reference import implicit_kernel_reference
from .instance_norm.reference import instance_norm_reference


def decompositions() -> dict[Any, Callable[..., Any]]:
    """The table, for `torch.export.ExportedProgram.run_decompositions`; forward only."""
    ours = torch.ops.fredholm
    return {
        ours.anchor_mix.default: _anchor_mix,
        ours.fftconv.default: _fftconv,
        ours.gate.default: _gate,
        ours.implicit_kernel.default: _implicit_kernel,
        ours.instance_norm.default: _instance_norm,
        ours.short_convolution.default: _short_convolution,
    }


def _anchor_mix(parts: list[Tensor], epsilon: float) -> Tensor:
    return definition(epsilon)(*Parts(*parts))


def _fftconv(x: Tensor, kernel: Tensor, shortcut: Tensor | None, periodic: list[bool]) -> Tensor:
    return real.convolve(x, kernel, shortcut, Plan.of(x.shape[2:], kernel.shape[2:], periodic))


def _gate(x: Tensor, control: Tensor, scale: Tensor | None, activation: str, unit: bool, epsilon: float) -> Tensor:
    return gate_reference(x, control, scale, activation=activation, unit=unit, epsilon=epsilon)


def _implicit_kernel(
    axes: list[Tensor], weights: list[Tensor], biases: list[Tensor], film: Tensor | None, sigma: Tensor | None
) -> Tensor:
    return implicit_kernel_reference(axes, weights, biases, film=film, sigma=sigma)


def _instance_norm(
    x: Tensor, scale: Tensor | None, offset: Tensor | None, residual: Tensor | None, slope: float, epsilon: float
) -> tuple[Tensor, Tensor]:
    y = instance_norm_reference(x, scale, offset, residual=residual, slope=slope, epsilon=epsilon)
    return y, x.new_zeros(x.shape[0], 2, x.shape[1])  # the moments are for gradients, and nobody asks for them


def _short_convolution(x: Tensor, weight: Tensor, padding: list[int]) -> Tensor:
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(padding) - 1]
    return convolve(x.movedim(-1, 1), weight, padding=padding, groups=x.shape[-1]).movedim(1, -1)
