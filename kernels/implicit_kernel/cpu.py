"""The implicit kernel a slab of positions at a time; no activation of the whole grid is ever held.

Positions run along the last axis, `(width, positions)`, so that the result comes out with channels first, as the
convolution wants it. The window is a product over the axes and costs no exponential per position. Gradients make each
slab anew; at 95^3 positions and width 32 the activations kept otherwise would be 330 MB a layer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

SLAB_POSITIONS = 1 << 14  # with a width of 32 about 2 MiB a layer


@dataclass(frozen=True)
class _Siren:
    """The parameters of one sample's network, biases and FiLM as columns."""

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    film: Tensor | None  # (hidden layers, 2, width, 1)

    def run(self, coordinates: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Angles and inputs of each layer, and the result before the window."""
        angles = [torch.addmm(self.biases[0], self.weights[0], coordinates)]
        h = torch.sin(angles[0])
        inputs = [h]
        for layer in range(1, len(self.weights) - 1):
            angles.append(torch.addmm(self.biases[layer], self.weights[layer], h))
            h = torch.sin(angles[layer])
            if self.film is not None:
                h = torch.addcmul(self.film[layer - 1, 1], self.film[layer - 1, 0], h)
            inputs.append(h)
        return angles, inputs, torch.addmm(self.biases[-1], self.weights[-1], h)


def synthesise(
    axes: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    film: Tensor | None,
    sigma: Tensor | None,
) -> Tensor:
    """The kernel `(1 or batch, channels, *taps)`, in the type of the weights."""
    taps = [len(axis) for axis in axes]
    sirens, axes, window = _prepare(axes, weights, biases, film, sigma)
    kernel = weights[-1].new_empty(len(sirens), len(weights[-1]), *taps)
    for rows in _slabs(taps):
        coordinates = _coordinates(axes, rows)
        for sample, siren in enumerate(sirens):
            raw = siren.run(coordinates)[2].view(-1, rows.stop - rows.start, *taps[1:])
            kernel[sample, :, rows] = _times(raw, window, rows)
    return kernel


def gradients(
    dkernel: Tensor,
    axes: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    film: Tensor | None,
    sigma: Tensor | None,
) -> tuple[list[Tensor], list[Tensor], Tensor | None, Tensor | None]:
    """Gradients by weights, biases, film and sigma."""
    taps = [len(axis) for axis in axes]
    sirens, axes, window = _prepare(axes, weights, biases, film, sigma)
    dweights = [torch.zeros_like(weight) for weight in sirens[0].weights]
    dbiases = [torch.zeros_like(bias) for bias in sirens[0].biases]
    dfilm = None if film is None else torch.zeros(film.shape, dtype=dweights[0].dtype, device=film.device)
    dsigma = None if sigma is None else torch.zeros(sigma.shape, dtype=dweights[0].dtype, device=sigma.device)
    for rows in _slabs(taps):
        coordinates = _coordinates(axes, rows)
        for sample, siren in enumerate(sirens):
            angles, inputs, raw = siren.run(coordinates)
            draw = dkernel[sample, :, rows].to(raw.dtype)
            if window is not None and dsigma is not None:
                draw = _times(draw, window, rows)
                # d exp(-c^2 / 2 s^2) / d s = exp(...) c^2 / s^3; the cube is divided out at the end.
                dsigma += coordinates.square() @ (draw.reshape(raw.shape) * raw).T
            _backward(siren, coordinates, angles, inputs, draw.reshape(raw.shape), dweights, dbiases, dfilm, sample)
    if dsigma is not None and sigma is not None:
        dsigma = (dsigma / sigma.to(dsigma.dtype) ** 3).to(sigma.dtype)
    if dfilm is not None and film is not None:
        dfilm = dfilm.to(film.dtype)
    dweights = [grad.to(weight.dtype) for grad, weight in zip(dweights, weights, strict=True)]
    return dweights, [grad[:, 0].to(bias.dtype) for grad, bias in zip(dbiases, biases, strict=True)], dfilm, dsigma


def _backward(
    siren: _Siren,
    coordinates: Tensor,
    angles: list[Tensor],
    inputs: list[Tensor],
    upper: Tensor,
    dweights: list[Tensor],
    dbiases: list[Tensor],
    dfilm: Tensor | None,
    sample: int,
) -> None:
    """Add one slab's share; `upper` is the gradient at the output of the layer in hand."""
    for layer in range(len(siren.weights) - 1, -1, -1):
        dweights[layer].addmm_(upper, (inputs[layer - 1] if layer else coordinates).T)
        dbiases[layer] += upper.sum(1, keepdim=True)
        if layer == 0:
            return
        lower = siren.weights[layer].T @ upper
        angle = angles[layer - 1]
        if dfilm is not None and siren.film is not None and layer >= 2:
            dfilm[sample, layer - 2, 0] += (lower * torch.sin(angle)).sum(1)
            dfilm[sample, layer - 2, 1] += lower.sum(1)
            lower = lower * siren.film[layer - 2, 0]
        upper = lower.mul_(torch.cos(angle))


def _prepare(
    axes: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    film: Tensor | None,
    sigma: Tensor | None,
) -> tuple[list[_Siren], list[Tensor], list[Tensor] | None]:
    """The samples' networks, the axes and the window's factors `(channels, taps)`, all in the type that sums are in."""
    real = torch.float64 if weights[0].dtype == torch.float64 else torch.float32
    weights = [weight.to(real) for weight in weights]
    biases = [bias.to(real)[:, None] for bias in biases]
    axes = [axis.to(real) for axis in axes]
    films = [None] if film is None else [each.to(real)[..., None] for each in film]
    window = None
    if sigma is not None:
        window = [
            torch.exp(-0.5 * (axis / width[:, None]) ** 2) for axis, width in zip(axes, sigma.to(real), strict=True)
        ]
    return [_Siren(weights, biases, each) for each in films], axes, window


def _slabs(taps: Sequence[int]) -> Iterator[slice]:
    """Parts of the first axis with about `SLAB_POSITIONS` positions each."""
    plane = 1
    for n in taps[1:]:
        plane *= n
    size = max(1, SLAB_POSITIONS // plane)
    return (slice(start, min(start + size, taps[0])) for start in range(0, taps[0], size))


def _coordinates(axes: Sequence[Tensor], rows: slice) -> Tensor:
    grids = torch.meshgrid(axes[0][rows], *axes[1:], indexing="ij")
    return torch.stack([grid.reshape(-1) for grid in grids])


def _times(raw: Tensor, window: Sequence[Tensor] | None, rows: slice) -> Tensor:
    """`raw` `(channels, rows, ...)` times the window, one axis after the other."""
    if window is None:
        return raw
    for axis, factor in enumerate(window):
        part = factor[:, rows] if axis == 0 else factor
        raw = raw * part.view(len(part), *(-1 if other == axis else 1 for other in range(len(window))))
    return raw
