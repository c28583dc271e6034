"""The operators that are measured: inputs as networks have them, the exact result, and others' ways to it."""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from ...kernels import MLPKappa, Products, anchor_mix, fftconv, gate, implicit_kernel, integral_transform
from ...kernels.anchor_mix.reference import anchor_mix_reference
from ...kernels.gate.reference import gate_reference
from ...kernels.implicit_kernel.reference import implicit_kernel_reference
from ...kernels.integral_transform.reference import integral_transform_reference, mlp_reference

Function = Callable[..., Tensor]

ANCHORS = 16
SIREN = 32  # neurons of each layer


@dataclass(frozen=True)
class Size:
    """How large a case is."""

    batch: int
    channels: int
    side: int  # of the cube

    @property
    def voxels(self) -> int:
        """Of one sample."""
        return self.side**3


@dataclass(frozen=True)
class Operation:
    """An operator with everything that it is compared with.

    Args:
        shapes: Of its inputs.
        ours: The operator on those.
        exact: The same in any type, seen to be right; float64 makes it the truth, and the inputs' own type the
            unfused path.
        unfused: What that path is called.
        rivals: Other packages' operators, where installed.
    """

    shapes: tuple[tuple[int, ...], ...]
    ours: Function
    exact: Function
    unfused: str = "plain PyTorch"
    rivals: dict[str, Function] = field(default_factory=dict)


def operation(name: str, size: Size) -> Operation:
    """The operator of that name at that size."""
    return OPERATIONS[name](size)


def _fftconv(size: Size) -> Operation:
    grid, taps = 3 * (size.side,), 3 * (2 * size.side - 1,)
    return Operation(
        shapes=((size.batch, size.channels, *grid), (1, size.channels, *taps), (size.channels,)),
        ours=lambda x, kernel, shortcut: fftconv(x, kernel, shortcut=shortcut),
        exact=padded_fft,
        unfused="torch.fft",
        rivals=_peers(),
    )


def padded_fft(x: Tensor, kernel: Tensor, shortcut: Tensor) -> Tensor:
    """The convolution with zeros outside as a chain of steps: pad, transform, multiply, transform back, crop, add."""
    real = torch.promote_types(x.dtype, torch.float32)
    dims, grid, taps = (2, 3, 4), x.shape[2:], kernel.shape[2:]
    box = [n + t - 1 for n, t in zip(grid, taps, strict=True)]
    y = torch.fft.irfftn(torch.fft.rfftn(x.to(real), box) * torch.fft.rfftn(kernel.to(real), box), box)
    for dim, n, t in zip(dims, grid, taps, strict=True):
        y = y.narrow(dim, t // 2, n)
    return (y + shortcut[:, None, None, None] * x).to(x.dtype)


def _peers() -> dict[str, Function]:
    if importlib.util.find_spec("nvsubquadratic") is None:
        return {}
    from nvsubquadratic.ops.fftconv import fftconv3d_fp32_bhl  # pyright: ignore[reportMissingImports]

    return {"nvsubquadratic": lambda x, kernel, shortcut: fftconv3d_fp32_bhl(x, kernel, shortcut).to(x.dtype)}


def _gate(size: Size) -> Operation:
    rows = (size.batch, size.voxels, size.channels)
    return Operation(
        shapes=(rows, rows, (size.channels,)),
        ours=partial(gate, activation="silu", unit=True),
        exact=partial(gate_reference, activation="silu", unit=True, epsilon=1e-6),
    )


def _implicit_kernel(size: Size) -> Operation:
    weights = ((SIREN, 3), (SIREN, SIREN), (SIREN, SIREN), (size.channels, SIREN))

    def of(function: Function) -> Function:
        def kernel(*parts: Tensor) -> Tensor:
            axis = torch.linspace(-1, 1, 2 * size.side - 1, dtype=parts[0].dtype, device=parts[0].device)
            *layers, sigma = parts
            return function([axis, axis, axis], layers[:4], layers[4:], film=None, sigma=1 + sigma.abs())

        return kernel

    return Operation(
        shapes=(*weights, *((n,) for n, _ in weights), (3, size.channels)),
        ours=of(implicit_kernel),
        exact=of(implicit_kernel_reference),
    )


def _anchor_mix(size: Size) -> Operation:
    rows = (size.batch, size.voxels, size.channels)

    def of(function: Function) -> Function:
        def mix(x: Tensor, branch: Tensor, anchors: Tensor, alpha: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            return function(x, branch, anchors, alpha, projection=(weight, bias))

        return mix

    return Operation(
        shapes=(rows, rows, (ANCHORS, size.channels), (), (ANCHORS, size.channels), (ANCHORS,)),
        ours=of(anchor_mix),
        exact=of(anchor_mix_reference),
    )


def _integral_transform(size: Size) -> Operation:
    """Every pair at once is what plain PyTorch does, so that the cloud has to be small: four points for each side."""
    points, width, channels = 4 * size.side, 128, min(size.channels, 16)

    def kappa(left: Tensor, right: Tensor, weight: Tensor, bias: Tensor, *products: Tensor) -> MLPKappa:
        return MLPKappa(left, right, weight, bias, Products(*products))

    def exact(*parts: Tensor) -> Tensor:
        u = parts[-1]
        mean = u.new_full(u.shape[:2], 1 / points)
        return integral_transform_reference(mlp_reference(kappa(*parts[:-1])), u, mean)

    of_points = (size.batch, points, width)
    return Operation(
        shapes=(
            *(of_points, of_points, (channels, channels, width), (channels, channels)),
            *((size.batch, points, 1, width), of_points, (1, width, width), (size.batch, points, channels)),
        ),
        ours=lambda *parts: integral_transform(kappa(*parts[:-1]), parts[-1]),
        exact=exact,
    )


OPERATIONS: dict[str, Callable[[Size], Operation]] = {
    "fftconv": _fftconv,
    "gate": _gate,
    "implicit_kernel": _implicit_kernel,
    "anchor_mix": _anchor_mix,
    "integral_transform": _integral_transform,
}


def draw(operation: Operation, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """Random inputs, of which rows have a length of about 1."""
    made = (torch.randn(shape, device=device) / math.sqrt(shape[-1] if shape else 1) for shape in operation.shapes)
    return [each.to(dtype) for each in made]
