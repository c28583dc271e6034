r"""A measure on some sources: neighbours of each target, or samples that estimate the whole.

m samples y_s drawn from a proposal q, each with the weight mu(y_s) / (m q(y_s)), give a sum whose expected value is the
integral, whatever q is, as long as it can draw every source that has weight. How far a sum lies from it is q's affair:
the nearer q is to |kappa u| mu, the less. Proposals here keep a share for drawing after mu alone, which bounds the
weights by sum(|mu|) / (m share).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .blocks import slices
from .kappa import take

ROWS_BYTES = 1 << 24  # of the probabilities of some targets


@dataclass(frozen=True)
class Selection:
    """Sources that stand for all.

    Args:
        index: `(batch, targets, selected)` int64, or `(batch, 1, selected)` for one list that all targets share,
            which is faster. A source may be listed several times.
        weights: As `index`, floating; 0 lets a place in the list be empty.

    Raises:
        ValueError: The shapes differ.
    """

    index: Tensor
    weights: Tensor

    def __post_init__(self) -> None:
        if self.index.ndim != 3 or self.index.shape != self.weights.shape:
            raise ValueError(
                f"index and weights must both be (batch, targets, selected), "
                f"got {tuple(self.index.shape)} and {tuple(self.weights.shape)}"
            )


def draw_uniform(measure: Tensor, samples: int, *, seed: int | None = None) -> Selection:
    """Draw the same sources for all targets, each source that has weight as likely as any other.

    Args:
        measure: `(batch, sources)`, not all 0 in any cloud.
        samples: How many, with replacement.
        seed: Draws the same again each time, and is a constant of a compiled graph; None takes PyTorch's own chance.
    """
    chance = _chance((len(measure), 1, samples), seed, measure.device)
    return _draw(torch.zeros_like(measure)[:, None], measure, chance, 0.0)


def draw_by_score(
    scores: Tensor, measure: Tensor, samples: int, *, share: float = 0.1, seed: int | None = None
) -> Selection:
    """Draw the same sources for all targets, by learned scores: q is their softmax over the sources with weight.

    What a loss gains on average by other scores is nothing, since the expected value does not depend on them, so its
    gradient is not what reaches them. They learn to make it scatter less. To first order a loss moves with the weights
    w_s by g_s w_s, g_s the gradient that backward brings; the second moment of that sum's terms under q falls along::

        sum over samples s of  (r_s - 1 / m)  grad log q(y_s),    r_s = (g_s w_s)^2 / sum over t of (g_t w_t)^2

    which is the score-function estimate of the slope of its logarithm, so that it does not depend on the loss's unit
    (as a ratio of means it is right for many samples, not unbiased). Its best q is proportional to |g mu|.

    Args:
        scores: `(batch, sources)`; their gradient is the one above.
        measure: `(batch, sources)`, not all 0 in any cloud.
        samples: How many, with replacement.
        share: Share of the samples that is drawn after |mu| alone.
        seed: As in `draw_uniform`.

    Raises:
        ValueError: The shapes differ.
    """
    if scores.shape != measure.shape:
        raise ValueError(f"scores and measure must be alike, got {tuple(scores.shape)} and {tuple(measure.shape)}")
    drawn = _draw(scores[:, None], measure, _chance((len(measure), 1, samples), seed, measure.device), share)
    if not scores.requires_grad:
        return drawn
    logarithm = _proposal(scores[:, None], measure, share).log().gather(-1, drawn.index)
    return Selection(drawn.index, _Teaching.apply(drawn.weights, logarithm))


def draw_near(
    x: Tensor,
    y: Tensor,
    measure: Tensor,
    samples: int,
    *,
    reach: float,
    share: float = 0.1,
    seed: int | None = None,
) -> Selection:
    """Draw sources for each target, near ones rather than far ones: q is |mu| exp(-|x - y|^2 / (2 reach^2)).

    Costs one exponential per pair, though nothing of that size is held.

    Args:
        x: Positions of the targets, `(batch, targets, axes)`.
        y: Positions of the sources, `(batch, sources, axes)`.
        measure: `(batch, sources)`, not all 0 in any cloud.
        samples: How many for each target, with replacement.
        reach: In units of the positions, more than 0.
        share: Share of the samples that is drawn after |mu| alone.
        seed: As in `draw_uniform`.

    Raises:
        ValueError: The shapes do not fit, or the reach is not positive.
    """
    if x.ndim != 3 or y.ndim != 3 or x.shape[::2] != y.shape[::2] or measure.shape != y.shape[:2]:
        raise ValueError(
            "positions must be (batch, points, axes) and the measure as the sources, "
            f"got {tuple(x.shape)}, {tuple(y.shape)} and {tuple(measure.shape)}"
        )
    if not reach > 0:
        raise ValueError(f"reach must be positive, got {reach}")
    batch, sources = measure.shape
    logarithm, chance = measure.detach().abs().log()[:, None], _chance((batch, x.shape[1], samples), seed, x.device)
    drawn = []
    for rows in slices(x.shape[1], max(1, ROWS_BYTES // (8 * max(1, batch * sources)))):
        distances = torch.cdist(x[:, rows], y, compute_mode="donot_use_mm_for_euclid_dist")
        drawn.append(_draw(logarithm - (distances / reach).square() / 2, measure, chance[:, rows], share))
    return Selection(*(torch.cat([getattr(each, name) for each in drawn], 1) for name in ("index", "weights")))


def _draw(scores: Tensor, measure: Tensor, chance: Tensor, share: float) -> Selection:
    """Draw for each row of scores `(batch, rows, sources)`; probabilities are float64, for some are very small.

    A number from 0 to 1 falls to the first source at which the sum of probabilities exceeds it.
    """
    proposal = _proposal(scores.detach(), measure, share)
    total = proposal.cumsum(-1)
    index = torch.searchsorted(total, chance * total[..., -1:], right=True).clamp(max=scores.shape[-1] - 1)
    probability = proposal.gather(-1, index)
    return Selection(index, take(measure, index) / (chance.shape[-1] * probability).to(measure.dtype))


def _chance(shape: Sequence[int], seed: int | None, device: torch.device) -> Tensor:
    """Numbers from 0 to 1, float64."""
    if seed is None:
        return torch.rand(shape, dtype=torch.float64, device=device)
    return seeded(shape, seed, device)


@torch.library.custom_op("fredholm::seeded", mutates_args=())  # a compiled graph has no place for a generator
def seeded(shape: Sequence[int], seed: int, device: torch.device) -> Tensor:
    """The same numbers from 0 to 1 for the same seed, float64."""
    generator = torch.Generator(device).manual_seed(seed)
    return torch.rand(shape, dtype=torch.float64, device=device, generator=generator)


@seeded.register_fake
def _(shape: Sequence[int], seed: int, device: torch.device) -> Tensor:
    return torch.empty(shape, dtype=torch.float64, device=device)


def _proposal(scores: Tensor, measure: Tensor, share: float) -> Tensor:
    """The probability of each source, `(batch, rows, sources)`."""
    size = measure.detach().double().abs()[:, None]
    chosen = scores.double().masked_fill(size == 0, -torch.inf).softmax(-1)
    return (1 - share) * chosen + share * size / size.sum(-1, keepdim=True)


class _Teaching(torch.autograd.Function):
    """Weights as they are; on the way back the proposal's logarithm `(*, samples)` is told what would scatter less."""

    @staticmethod
    def forward(ctx, weights: Tensor, logarithm: Tensor) -> Tensor:
        ctx.save_for_backward(weights)
        return weights.clone()

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (dweights,), (weights,) = gradients, ctx.saved_tensors
        terms = (dweights.double() * weights.double()).square()
        total = terms.sum(-1, keepdim=True)
        shares = torch.where(total > 0, terms / total, 1 / terms.shape[-1])
        return dweights, 1 / terms.shape[-1] - shares
