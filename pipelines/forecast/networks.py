"""The networks that a surrogate may be made of, by name: ours and those that it is measured against.

Each is given the same: the known frames, the constant fields and the parameters. Ours bends its kernels by the
parameters; the others, which have no such way in, find them beside the fields, each as a field that never varies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import count
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from ...backbones import ConvNextUNet, FieldSurrogate, FourierOperator, SurrogateBody, UNetClassic
from ...kernels import Boundary
from ..recipe import expect_whole

Model = Literal["hyena", "unet", "cnextunet", "fno", "tfno"]
TUCKER_SHARE = 0.1  # as in neuraloperator's TFNO


@dataclass(frozen=True, kw_only=True)
class Ports:
    """What a network is made to fit.

    Args:
        fields: Channels in.
        following: Channels out.
        boundary: What lies outside the grid, one for each axis.
        scalars: Parameters.
        grid: Samples along each axis of the training data.
    """

    fields: int
    following: int
    boundary: Sequence[Boundary]
    scalars: int
    grid: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class UNetBody:
    """What differs between U-nets, of either kind.

    Args:
        dim: Channels of the finest level.
        depth: How often the grid is halved.
    """

    dim: int = 48
    depth: int = 4

    def __post_init__(self) -> None:
        expect_whole("dim", self.dim, 1)
        expect_whole("depth", self.depth, 1)


@dataclass(frozen=True, kw_only=True)
class FourierBody:
    """What differs between Fourier operators.

    Args:
        dim: Channels of the blocks.
        depth: Blocks.
        modes: Waves along each axis that the weights act on, as far as the grid has them.
    """

    dim: int = 64
    depth: int = 4
    modes: int = 16

    def __post_init__(self) -> None:
        for name in ("dim", "depth", "modes"):
            expect_whole(name, getattr(self, name), 1)


Body = SurrogateBody | UNetBody | FourierBody


class Beside(nn.Module):
    """Puts parameters beside the fields for a network that takes fields alone."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, scalars: Tensor | None = None) -> Tensor:
        """The output for fields `(batch, *grid, channels)` and scalars `(batch, scalars)`."""
        if scalars is None:
            return self.network(x)
        everywhere = scalars.view(len(x), *(1 for _ in x.shape[1:-1]), -1).expand(*x.shape[:-1], -1)
        return self.network(torch.cat((x, everywhere.to(x.dtype)), -1))


@dataclass(frozen=True)
class Network:
    """A row of the table.

    Args:
        body: The record of its options.
        build: Makes it, with new weights.
        usual: Options whose default depends on the data.
    """

    body: type[Body]
    build: Callable[[Ports, Any], nn.Module]
    usual: Callable[[Ports], dict[str, Any]] = lambda _: {}


def _hyena(ports: Ports, body: SurrogateBody) -> nn.Module:
    grid = tuple(ports.grid)
    if any(n % body.patch for n in grid):
        raise ValueError(f"patch {body.patch} does not divide the grid {grid}: choose another --patch")
    return _surrogate(ports, body)


def _surrogate(ports: Ports, body: SurrogateBody) -> nn.Module:
    samples = max(ports.grid)
    return FieldSurrogate(
        ports.fields, ports.following, ports.boundary, scalars=ports.scalars, samples=samples, body=body
    )


def _unet(network: Callable[..., nn.Module]) -> Callable[[Ports, UNetBody], nn.Module]:
    def build(ports: Ports, body: UNetBody) -> nn.Module:
        if any(n % 2**body.depth for n in ports.grid):
            raise ValueError(
                f"a U-net of depth {body.depth} needs sides that are multiples of {2**body.depth}, the grid is "
                f"{tuple(ports.grid)}: choose a smaller --depth or another --model"
            )
        channels = ports.fields + ports.scalars
        return Beside(network(channels, ports.following, ports.boundary, dim=body.dim, depth=body.depth))

    return build


def _fourier(tucker: float | None) -> Callable[[Ports, FourierBody], nn.Module]:
    def build(ports: Ports, body: FourierBody) -> nn.Module:
        modes = [min(body.modes, n) for n in ports.grid]
        channels = ports.fields + ports.scalars
        return Beside(FourierOperator(channels, ports.following, modes, dim=body.dim, depth=body.depth, tucker=tucker))

    return build


def _usual_modes(ports: Ports) -> dict[str, int]:
    """As many as in The Well's benchmark; half of them in a volume, where their number would leave no channels."""
    return {"modes": 16 if len(ports.grid) < 3 else 8}


NETWORKS: dict[Model, Network] = {
    "hyena": Network(SurrogateBody, _hyena),
    "unet": Network(UNetBody, _unet(UNetClassic)),
    "cnextunet": Network(UNetBody, _unet(ConvNextUNet)),
    "fno": Network(FourierBody, _fourier(None), _usual_modes),
    "tfno": Network(FourierBody, _fourier(TUCKER_SHARE), _usual_modes),
}


def network_of(model: str) -> Network:
    """The row of that name.

    Raises:
        ValueError: There is none.
    """
    if model not in list(NETWORKS):
        raise ValueError(f"unknown model {model!r}; known are {', '.join(NETWORKS)}")
    return NETWORKS[cast("Model", model)]


def body_of(model: str, ports: Ports, options: Mapping[str, Any]) -> Body:
    """The record of a network's options.

    Where `dim` is not given, ours has its default, and every other network the `dim` that brings its number of weights
    nearest to that of ours with all defaults: networks are compared at one size.

    Args:
        model: Its name.
        ports: What it is made to fit.
        options: Those that were chosen.

    Raises:
        ValueError: The model has no such option; those that it has are named.
    """
    network = network_of(model)
    known = [field.name for field in fields(network.body)]
    for name in options:
        if name not in known:
            raise ValueError(f"the model {model} has no --{name}; it has {', '.join(f'--{one}' for one in known)}")
    chosen = {**network.usual(ports), **options}
    if model == "hyena" or "dim" in chosen:
        return network.body(**chosen)

    def weights(dim: int) -> int:
        return weights_of(network.build(ports, network.body(**chosen, dim=dim)))

    return network.body(**chosen, dim=_nearest(weights, weights_of(_surrogate(ports, SurrogateBody()))))


def weights_of(network: nn.Module) -> int:
    """How many numbers a network learns; a complex one is two."""
    return sum(weight.numel() * (2 if weight.is_complex() else 1) for weight in network.parameters())


def _nearest(rising: Callable[[int], int], wanted: int) -> int:
    """The whole number from 2 on whose value is nearest, of values that rise."""
    below = rising(2)
    for number in count(3):
        value = rising(number)
        if value >= wanted:
            return number if value - wanted < wanted - below else number - 1
        below = value
    raise AssertionError("a value that rises gets there")
