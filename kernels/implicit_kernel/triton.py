"""The implicit kernel on a GPU, from coordinates to windowed result in one kernel, and its gradients in another.

No activation is ever in device memory: a program holds those of its positions in registers, positions along the
last axis as in the result, and backward makes anew what it needs, layer by layer from the top. Each program of backward
writes its own sums over its positions, which are then added over programs: no atomics, the same bits in every run.

So that one kernel serves any network, its parameters come padded: to three axes, of which those beyond have one tap at
0, and to one width, a power of two. A padded neuron is the sine of zero, with gamma and beta 0 above the first layer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from ..launch import launch, products, vendor
from .sine import cos, sin

CHANNELS = 16  # at once; a program goes through all
LEAST_WIDTH = 16  # that tensor cores take
# Positions and warps of one program, such that backward spills nothing; eight of AMD's wide warps would.
TILE = {"cuda": (64, 8), "hip": (32, 4), "none": (64, 1)}
WIDE = 16, 4  # the same for more than 32 neurons, whose weights take the registers


def synthesise(
    axes: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    film: Tensor | None,
    sigma: Tensor | None,
) -> Tensor:
    """The kernel, as `cpu.synthesise`."""
    siren, taps = _Siren.padded(weights, biases, film, sigma), [len(axis) for axis in axes]
    kernel = weights[-1].new_empty(len(siren.waves), len(weights[-1]), *taps)
    options = siren.options(kernel.dtype)
    blocks = triton.cdiv(math.prod(taps), options["POSITIONS"])
    launch(
        _synthesise, len(kernel) * blocks,
        kernel, *siren.parts(), *_coordinates(axes), kernel.shape[1], blocks, len(siren.hidden), **options,
    )  # fmt: skip
    return kernel


def gradients(
    dkernel: Tensor,
    axes: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    film: Tensor | None,
    sigma: Tensor | None,
) -> tuple[list[Tensor], list[Tensor], Tensor | None, Tensor | None]:
    """Gradients by weights, biases, film and sigma, as `cpu.gradients`."""
    siren, dkernel = _Siren.padded(weights, biases, film, sigma), dkernel.contiguous()
    samples, channels = dkernel.shape[:2]
    options = siren.options(weights[0].dtype)
    blocks = triton.cdiv(math.prod(dkernel.shape[2:]), options["POSITIONS"])
    shapes = [part.shape for part in siren.parts()]
    shapes[2] = shapes[2][1:]  # a sample has its own waves
    partial = [siren.first.new_empty(samples, blocks, *shape) for shape in shapes]
    launch(
        _gradients, samples * blocks,
        dkernel, *siren.parts(), *partial, *_coordinates(axes), channels, blocks, len(siren.hidden), **options,
    )  # fmt: skip
    first, hidden, waves, last, window = (each.sum(1) for each in partial)
    summed = _Siren(first.sum(0), hidden.sum(0), waves, last.sum(0), window.sum(0))
    return summed.cropped(weights, biases, film, sigma)


@dataclass(frozen=True)
class _Siren:
    """The parameters as the kernels take them, float32, contiguous; or the gradients by them."""

    first: Tensor  # (width, 3)
    hidden: Tensor  # (hidden layers, width, width)
    waves: Tensor  # (1 or batch, 1 + hidden layers, 3, width): bias, gamma, beta
    last: Tensor  # (channels, width)
    window: Tensor  # (channels, 4): 1 / (2 sigma^2) for each axis, then the last bias

    @classmethod
    def padded(
        cls, weights: Sequence[Tensor], biases: Sequence[Tensor], film: Tensor | None, sigma: Tensor | None
    ) -> "_Siren":
        """Everything in its place, zeros elsewhere."""
        width = max(LEAST_WIDTH, *(triton.next_power_of_2(len(weight)) for weight in weights[:-1]))
        layers, samples = len(weights) - 1, 1 if film is None else len(film)
        waves = weights[0].new_zeros(samples, layers, 3, width, dtype=torch.float32)
        waves[:, :, 1] = 1
        for layer, bias in enumerate(biases[:-1]):
            waves[:, layer, 0, : len(bias)] = bias
        if film is not None:
            waves[:, 1:, 1:, : film.shape[-1]] = film
        window = weights[0].new_zeros(len(weights[-1]), 4, dtype=torch.float32)
        if sigma is not None:
            window[:, : len(sigma)] = 0.5 / sigma.float().T.square()
        window[:, 3] = biases[-1]
        hidden = [_grown(weight, width, width) for weight in weights[1:-1]]
        return cls(
            _grown(weights[0], width, 3),
            torch.stack(hidden) if hidden else waves.new_zeros(0, width, width),
            waves,
            _grown(weights[-1], len(weights[-1]), width),
            window,
        )

    def cropped(
        self, weights: Sequence[Tensor], biases: Sequence[Tensor], film: Tensor | None, sigma: Tensor | None
    ) -> tuple[list[Tensor], list[Tensor], Tensor | None, Tensor | None]:
        """The gradients by weights, biases, film and sigma, of which these are by their padded forms."""
        shared = self.waves.sum(0)
        dweights = [
            _like(weight, part) for weight, part in zip(weights, [self.first, *self.hidden, self.last], strict=True)
        ]
        dbiases = [_like(bias, part) for bias, part in zip(biases, [*shared[:, 0], self.window[:, 3]], strict=True)]
        dfilm = None if film is None else _like(film, self.waves[:, 1:, 1:])
        # d (1 / 2 s^2) / d s = -1 / s^3, whose minus is that of the exponent.
        dsigma = None if sigma is None else _like(sigma, self.window.T[: len(sigma)] / sigma.float() ** 3)
        return dweights, dbiases, dfilm, dsigma

    def parts(self) -> tuple[Tensor, ...]:
        """In the order in which the kernels take them."""
        return self.first, self.hidden, self.waves, self.last, self.window

    def options(self, dtype: torch.dtype) -> dict[str, Any]:
        """What the kernels are specialised by; `dtype` is the type of the result."""
        width = self.first.shape[0]
        positions, warps = TILE[vendor()] if width <= 32 else WIDE
        return {
            "WIDTH": width,
            "POSITIONS": positions,
            "CHANNELS": CHANNELS,
            "PRECISION": products(dtype),
            "num_warps": warps,
            "num_stages": 1,  # parameters come from the cache; to fetch them ahead takes registers
        }


@triton.jit
def _synthesise(
    kernel_ptr,  # (samples, channels, n0, n1, n2)
    first_ptr,  # this and what follows as in _Siren
    hidden_ptr,
    waves_ptr,
    last_ptr,
    window_ptr,
    axis0_ptr,  # (n0,)
    axis1_ptr,
    axis2_ptr,
    n0,
    n1,
    n2,
    channels,
    blocks,  # of positions
    layers,  # hidden ones
    WIDTH: tl.constexpr,
    POSITIONS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program makes all channels of POSITIONS positions of one sample."""
    sample = (tl.program_id(0) // blocks).to(tl.int64)
    position, c0, c1, c2 = _place(tl.program_id(0) % blocks, axis0_ptr, axis1_ptr, axis2_ptr, n0, n1, n2, POSITIONS)
    positions = n0.to(tl.int64) * n1 * n2
    waves_ptr += sample * (layers + 1) * 3 * WIDTH
    angle = _angle(first_ptr, hidden_ptr, waves_ptr, c0, c1, c2, layers, WIDTH, PRECISION)
    h = _wave(angle, waves_ptr, layers, WIDTH)
    for start in range(0, channels, CHANNELS):
        channel, last, bias, s0, s1, s2 = _output(last_ptr, window_ptr, start, channels, WIDTH, CHANNELS)
        k = tl.dot(last, h, input_precision=PRECISION) + bias
        k *= tl.exp(-(s0 * c0 * c0 + s1 * c1 * c1 + s2 * c2 * c2))
        place = kernel_ptr + (sample * channels + channel) * positions + position
        tl.store(place, k.to(kernel_ptr.dtype.element_ty), mask=(channel < channels) & (position < positions))


@triton.jit
def _gradients(
    dkernel_ptr,  # (samples, channels, n0, n1, n2)
    first_ptr,  # this and what follows as in _Siren
    hidden_ptr,
    waves_ptr,
    last_ptr,
    window_ptr,
    dfirst_ptr,  # this and what follows as in _Siren behind (samples, blocks); of waves one sample's
    dhidden_ptr,
    dwaves_ptr,
    dlast_ptr,
    dwindow_ptr,
    axis0_ptr,  # (n0,)
    axis1_ptr,
    axis2_ptr,
    n0,
    n1,
    n2,
    channels,
    blocks,  # of positions
    layers,  # hidden ones
    WIDTH: tl.constexpr,
    POSITIONS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program sums the gradients over POSITIONS positions of one sample."""
    program = tl.program_id(0).to(tl.int64)
    sample = program // blocks
    position, c0, c1, c2 = _place(program % blocks, axis0_ptr, axis1_ptr, axis2_ptr, n0, n1, n2, POSITIONS)
    positions = n0.to(tl.int64) * n1 * n2
    waves_ptr += sample * (layers + 1) * 3 * WIDTH
    dwaves_ptr += program * (layers + 1) * 3 * WIDTH
    row = tl.arange(0, WIDTH)[:, None]
    column = tl.arange(0, WIDTH)[None, :]

    angle = _angle(first_ptr, hidden_ptr, waves_ptr, c0, c1, c2, layers, WIDTH, PRECISION)
    h = _wave(angle, waves_ptr, layers, WIDTH)
    dh = tl.zeros((WIDTH, POSITIONS), tl.float32)
    for start in range(0, channels, CHANNELS):
        channel, last, bias, s0, s1, s2 = _output(last_ptr, window_ptr, start, channels, WIDTH, CHANNELS)
        here = channel < channels
        place = dkernel_ptr + (sample * channels + channel) * positions + position
        dk = tl.load(place, mask=here & (position < positions), other=0.0).to(tl.float32)
        dk *= tl.exp(-(s0 * c0 * c0 + s1 * c1 * c1 + s2 * c2 * c2))
        shrunk = dk * (tl.dot(last, h, input_precision=PRECISION) + bias)
        place = dwindow_ptr + (program * channels + channel) * 4
        tl.store(place, tl.sum(shrunk * (c0 * c0), 1, keep_dims=True), mask=here)
        tl.store(place + 1, tl.sum(shrunk * (c1 * c1), 1, keep_dims=True), mask=here)
        tl.store(place + 2, tl.sum(shrunk * (c2 * c2), 1, keep_dims=True), mask=here)
        tl.store(place + 3, tl.sum(dk, 1, keep_dims=True), mask=here)
        dlast = tl.dot(dk, tl.trans(h), input_precision=PRECISION)
        tl.store(dlast_ptr + (program * channels + channel) * WIDTH + column, dlast, mask=here)
        dh += tl.dot(tl.trans(last), dk, input_precision=PRECISION)

    for back in range(layers):
        layer = layers - back
        h = _wave(
            _angle(first_ptr, hidden_ptr, waves_ptr, c0, c1, c2, layer - 1, WIDTH, PRECISION),
            waves_ptr,
            layer - 1,
            WIDTH,
        )
        tile = ((layer - 1) * WIDTH + row) * WIDTH + column
        angle = _next(h, hidden_ptr, waves_ptr, layer, WIDTH, PRECISION)
        dangle = _wave_gradients(dh, angle, waves_ptr, dwaves_ptr, layer, WIDTH)
        dweight = tl.dot(dangle, tl.trans(h), input_precision=PRECISION)
        tl.store(dhidden_ptr + program * layers * WIDTH * WIDTH + tile, dweight)
        dh = tl.dot(tl.trans(tl.load(hidden_ptr + tile)), dangle, input_precision=PRECISION)

    dangle = _wave_gradients(dh, _first(first_ptr, waves_ptr, c0, c1, c2, WIDTH), waves_ptr, dwaves_ptr, 0, WIDTH)
    place = dfirst_ptr + (program * WIDTH + row) * 3
    tl.store(place, tl.sum(dangle * c0, 1, keep_dims=True))
    tl.store(place + 1, tl.sum(dangle * c1, 1, keep_dims=True))
    tl.store(place + 2, tl.sum(dangle * c2, 1, keep_dims=True))


@triton.jit
def _place(block, axis0_ptr, axis1_ptr, axis2_ptr, n0, n1, n2, POSITIONS: tl.constexpr):
    """Positions of a block, int64, and their coordinates, all `[1, POSITIONS]`; beyond the grid those are zero."""
    position = block.to(tl.int64) * POSITIONS + tl.arange(0, POSITIONS)[None, :]
    plane = position // n2
    inside = plane < n0.to(tl.int64) * n1
    c0 = tl.load(axis0_ptr + plane // n1, mask=inside, other=0.0)
    c1 = tl.load(axis1_ptr + plane % n1, mask=inside, other=0.0)
    c2 = tl.load(axis2_ptr + position % n2, mask=inside, other=0.0)
    return position, c0, c1, c2


@triton.jit
def _angle(
    first_ptr, hidden_ptr, waves_ptr, c0, c1, c2, layer, WIDTH: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """The angles of a layer's sines `[WIDTH, POSITIONS]`, from the coordinates up."""
    angle = _first(first_ptr, waves_ptr, c0, c1, c2, WIDTH)
    for above in range(1, layer + 1):
        h = _wave(angle, waves_ptr, above - 1, WIDTH)
        angle = _next(h, hidden_ptr, waves_ptr, above, WIDTH, PRECISION)
    return angle


@triton.jit
def _first(first_ptr, waves_ptr, c0, c1, c2, WIDTH: tl.constexpr):
    """The angles of the first layer."""
    row = tl.arange(0, WIDTH)[:, None]
    place = first_ptr + row * 3
    return tl.load(place) * c0 + tl.load(place + 1) * c1 + tl.load(place + 2) * c2 + tl.load(waves_ptr + row)


@triton.jit
def _next(h, hidden_ptr, waves_ptr, layer, WIDTH: tl.constexpr, PRECISION: tl.constexpr):
    """The angles of a layer from what the one below gives."""
    row = tl.arange(0, WIDTH)[:, None]
    weight = tl.load(hidden_ptr + ((layer - 1) * WIDTH + row) * WIDTH + tl.arange(0, WIDTH)[None, :])
    return tl.dot(weight, h, input_precision=PRECISION) + tl.load(waves_ptr + layer * 3 * WIDTH + row)


@triton.jit
def _wave(angle, waves_ptr, layer, WIDTH: tl.constexpr):
    """What a layer gives upwards: gamma sin(angle) + beta."""
    place = waves_ptr + (layer * 3 + 1) * WIDTH + tl.arange(0, WIDTH)[:, None]
    return tl.load(place) * sin(angle) + tl.load(place + WIDTH)


@triton.jit
def _wave_gradients(dh, angle, waves_ptr, dwaves_ptr, layer, WIDTH: tl.constexpr):
    """Gradient by the angles; those by bias, gamma and beta are stored."""
    offset = layer * 3 * WIDTH + tl.arange(0, WIDTH)[:, None]
    dangle = dh * tl.load(waves_ptr + offset + WIDTH) * cos(angle)
    tl.store(dwaves_ptr + offset, tl.sum(dangle, 1, keep_dims=True))
    tl.store(dwaves_ptr + offset + WIDTH, tl.sum(dh * sin(angle), 1, keep_dims=True))
    tl.store(dwaves_ptr + offset + 2 * WIDTH, tl.sum(dh, 1, keep_dims=True))
    return dangle


@triton.jit
def _output(last_ptr, window_ptr, start, channels, WIDTH: tl.constexpr, CHANNELS: tl.constexpr):
    """Some channels `[CHANNELS, 1]`, their last weights `[CHANNELS, WIDTH]`, bias, and factors of the window."""
    channel = start + tl.arange(0, CHANNELS)[:, None]
    here = channel < channels
    last = tl.load(last_ptr + channel * WIDTH + tl.arange(0, WIDTH)[None, :], mask=here, other=0.0)
    s0 = tl.load(window_ptr + channel * 4, mask=here, other=0.0)
    s1 = tl.load(window_ptr + channel * 4 + 1, mask=here, other=0.0)
    s2 = tl.load(window_ptr + channel * 4 + 2, mask=here, other=0.0)
    bias = tl.load(window_ptr + channel * 4 + 3, mask=here, other=0.0)
    return channel, last, bias, s0, s1, s2


def _coordinates(axes: Sequence[Tensor]) -> tuple[Tensor | int, ...]:
    """Three axes of coordinates, float32, and how many taps each has."""
    three = [axis.float().contiguous() for axis in axes] + [axes[0].new_zeros(1, dtype=torch.float32)] * (3 - len(axes))
    return *three, *(len(axis) for axis in three)


def _grown(weight: Tensor, rows: int, columns: int) -> Tensor:
    """The matrix in float32 with zeros below and to the right."""
    return F.pad(weight.float(), (0, columns - weight.shape[1], 0, rows - weight.shape[0])).contiguous()


def _like(parameter: Tensor, padded: Tensor) -> Tensor:
    """The leading part, as large as the parameter, in its type and memory of its own."""
    leading = padded[tuple(slice(n) for n in parameter.shape)]
    return torch.empty(parameter.shape, dtype=parameter.dtype, device=parameter.device).copy_(leading)
