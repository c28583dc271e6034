"""What the networks launch: the shapes at which every Triton kernel is compiled ahead of time.

A room with a `triton.py` has one function here, which calls the module's functions as its `ops.py` does, with tensors
that have a shape and nothing else, and an entry in `LAUNCHES`. Its kernels are then compiled for every chip, and their
registers, spills and shared memory held to the limits, by `tests/kernels/test_ahead_of_time.py`; all of it
is tabled by `tests/benchmarks/triton_resources.py`.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from .fftconv.plan import Plan


@dataclass(frozen=True)
class Stage:
    """The operators of one stage of a network: their channels and the side of the cube that they see."""

    network: str
    channels: int
    side: int
    periodic: bool = False


STAGES = (
    *(Stage("MixerUNETR 96^3", 48 << level, 48 >> level) for level in range(4)),
    *(Stage("MixerUNETR 128^3", 48 << level, 64 >> level) for level in range(4)),
    Stage("surrogate 64^3", 128, 64, periodic=True),
)


def _gate(stage: Stage, dtype: torch.dtype) -> None:
    triton = _room("gate")
    x, scale = _tensor(1, stage.side**3, stage.channels, dtype=dtype), _tensor(stage.channels)
    from_convolution = _tensor(1, stage.channels, stage.side**3, dtype=dtype).mT
    for left, options in ((x, ("silu", True, 1e-6)), (from_convolution, ("sigmoid", False, 1e-6))):
        triton.apply(left, x, scale, *options)
        triton.gradients(x, left, x, scale, *options)


def _implicit_kernel(stage: Stage, dtype: torch.dtype) -> None:
    triton = _room("implicit_kernel")
    taps = 3 * [stage.side - 1 if stage.periodic else 2 * stage.side - 1]
    outputs = (32, 32, 32, stage.channels)
    weights = [_tensor(n, k, dtype=dtype) for n, k in zip(outputs, (3, 32, 32, 32), strict=True)]
    given = ([_tensor(n) for n in taps], weights, [_tensor(n, dtype=dtype) for n in outputs], _tensor(1, 2, 2, 32))
    sigma = _tensor(3, stage.channels)
    triton.synthesise(*given, sigma)
    triton.gradients(_tensor(1, stage.channels, *taps, dtype=dtype), *given, sigma)


def _anchor_mix(stage: Stage, dtype: torch.dtype) -> None:
    triton, parts = _room("anchor_mix"), importlib.import_module(".anchor_mix.parts", __package__)
    x, anchors = _tensor(1, stage.side**3, stage.channels, dtype=dtype), 16
    of_anchors = [_tensor(anchors), _tensor(anchors), _tensor()]
    for width, projection in (
        (anchors, ()),
        (stage.channels, (_tensor(anchors, stage.channels), _tensor(anchors))),
    ):
        branch = _tensor(*x.shape[:-1], width, dtype=dtype)
        given = parts.Parts(x, branch, _tensor(anchors, stage.channels), *of_anchors, *projection)
        triton.apply(given, 1e-5)
        triton.gradients(x, given, 1e-5)


def _integral_transform(stage: Stage, dtype: torch.dtype) -> None:
    """The paper's perceptron, 128 wide with 64 frequencies, in heads of 32 channels, on 4096 points."""
    triton, parts = _room("integral_transform"), importlib.import_module(".integral_transform.parts", __package__)
    n, width, channels = min(stage.side**3, 4096), 128, min(stage.channels, 32)
    features = 2 * 64 + channels
    factors = _tensor(1, n, 2, features), _tensor(1, n, features), _tensor(2, width, features)
    points = _tensor(1, n, 3), _tensor(1, n, 3), _tensor(width)
    second = _tensor(channels, channels, width + 1)
    u = _tensor(1, n, channels, dtype=dtype)
    given = parts.Parts(_tensor(1, n, width), _tensor(1, n, width), *factors, *points, second, u, _tensor(1, n))
    triton.integrate(given, None)
    triton.gradients(u, given, None)


def _fftconv(stage: Stage, dtype: torch.dtype) -> None:
    triton = _room("fftconv")
    grid, taps = 3 * [stage.side], 3 * [stage.side - 1 if stage.periodic else 2 * stage.side - 1]
    x, kernel = (_tensor(1, stage.channels, *shape, dtype=dtype) for shape in (grid, taps))
    shortcut, plan = _tensor(stage.channels), Plan.of(grid, taps, 3 * [stage.periodic])
    triton.convolve(x, kernel, shortcut, plan)
    triton.convolve_spectrum(x, triton.spectrum(kernel, plan), shortcut, plan, False)
    triton.gradients(x, x, kernel, shortcut, plan)


LAUNCHES: dict[str, Callable[[Stage, torch.dtype], None]] = {
    "anchor_mix": _anchor_mix,
    "fftconv": _fftconv,
    "gate": _gate,
    "implicit_kernel": _implicit_kernel,
    "integral_transform": _integral_transform,
}


def _room(name: str) -> ModuleType:
    return importlib.import_module(f".{name}.triton", __package__)


def _tensor(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")
