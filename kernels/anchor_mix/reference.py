"""The definition of `anchor_mix`, by autograd in the arguments' own type."""

import torch.nn.functional as F
from torch import Tensor

from ..definition import Definition, differentiate, evaluate
from .measure import anchor_measure
from .parts import Parts


def anchor_mix_reference(
    x: Tensor,
    branch: Tensor,
    anchors: Tensor,
    alpha: Tensor,
    *,
    projection: tuple[Tensor, Tensor] | None = None,
    shares: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """As `anchor_mix`."""
    p = anchor_measure(anchors)
    masses = p if shares is None else p * shares
    return definition(epsilon)(*Parts(x, branch, anchors, p, masses, alpha, *(projection or ())))


def apply(parts: Parts, epsilon: float) -> Tensor:
    """The mix, as `cpu.apply`."""
    return evaluate(definition(epsilon), *parts)


def gradients(dy: Tensor, parts: Parts, epsilon: float) -> list[Tensor]:
    """Gradients by all parts, as `cpu.gradients`."""
    return [each for each in differentiate(definition(epsilon), dy, *parts) if each is not None]


def definition(epsilon: float) -> Definition:
    """The mix as a function of the parts."""

    def mix(
        x: Tensor,
        branch: Tensor,
        anchors: Tensor,
        measure: Tensor,
        masses: Tensor,
        alpha: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        c = branch if weight is None else F.linear(branch, weight, bias)
        mean = (measure * c).sum(-1, keepdim=True)
        variance = (measure * (c - mean).square()).sum(-1, keepdim=True)
        w = masses * ((c - mean) / (variance + epsilon).sqrt()).exp()
        w = w / w.sum(-1, keepdim=True)
        return (1 - alpha) * x + alpha * (w @ anchors)

    return mix
