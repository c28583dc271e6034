"""Monte Carlo: whatever the proposal, the estimates' mean is the integral; a better proposal scatters less."""

import sys

import pytest
import torch
from fredholm.kernels import (
    PairwiseKappa,
    Points,
    draw_by_score,
    draw_near,
    draw_uniform,
    integral_transform,
    itnet_kappa,
)

SELECTION = sys.modules["fredholm.kernels.integral_transform.selection"]
DRAWS, SOURCES, TARGETS, SAMPLES = 1500, 24, 3, 6


class Cloud:
    """A random cloud and kernel, once for each of many draws; some sources have no weight, the others unequal ones."""

    def __init__(self) -> None:
        self.x, self.y = torch.rand(1, TARGETS, 2).double(), torch.rand(1, SOURCES, 2).double()
        self.u = torch.randn(1, SOURCES, 3).double()
        self.measure = torch.rand(1, SOURCES).double() * (torch.arange(SOURCES) % 5 > 0)
        self.scores = torch.randn(1, SOURCES).double()
        width, inputs = 8, 6 * 4 + 1 + 3 * 3
        self.frequencies = torch.randn(4, 2).double()
        self.first = torch.randn(width, inputs).double() / inputs**0.5, torch.randn(width).double()
        self.second = torch.randn(2, 3, width).double(), torch.randn(2, 3).double()

    def expanded(self) -> "Cloud":
        many = Cloud()
        many.__dict__.update(self.__dict__)
        for name in ("x", "y", "u", "measure", "scores"):
            setattr(many, name, getattr(self, name).expand(DRAWS, *getattr(self, name).shape[1:]))
        return many

    def integral(self, measure):
        v = self.u[:, :TARGETS]
        kappa = itnet_kappa(Points(self.x, v), Points(self.y, self.u), self.frequencies, self.first, self.second)
        return integral_transform(kappa, self.u, measure)


PROPOSALS = {
    "uniform": lambda cloud, m, seed=None: draw_uniform(cloud.measure, m, seed=seed),
    "near": lambda cloud, m, seed=None: draw_near(cloud.x, cloud.y, cloud.measure, m, reach=0.3, seed=seed),
    "learned": lambda cloud, m, seed=None: draw_by_score(cloud.scores, cloud.measure, m, seed=seed),
    "learned alone": lambda cloud, m, seed=None: draw_by_score(cloud.scores, cloud.measure, m, share=0.0, seed=seed),
}
every_proposal = pytest.mark.parametrize("proposal", PROPOSALS)


@every_proposal
def test_the_mean_over_many_draws_meets_the_integral_within_its_standard_error(proposal) -> None:
    cloud = Cloud()
    many = cloud.expanded()
    estimates = many.integral(PROPOSALS[proposal](many, SAMPLES))
    errors = (estimates.mean(0) - cloud.integral(cloud.measure)[0]) / (estimates.std(0) / DRAWS**0.5)
    assert errors.abs().max() < 3.5


@every_proposal
def test_gradients_by_the_measure_are_unbiased_too(proposal) -> None:
    """The integral is linear in the measure, so the gradient is each source's own part, whatever its weight."""
    cloud = Cloud()
    many = cloud.expanded()
    many.measure = many.measure.clone().requires_grad_()
    (found,) = torch.autograd.grad(many.integral(PROPOSALS[proposal](many, SAMPLES)).sum(), many.measure)
    measure = cloud.measure.clone().requires_grad_()
    (exact,) = torch.autograd.grad(cloud.integral(measure).sum(), measure)
    drawn = cloud.measure[0] > 0
    errors = ((found.mean(0) - exact[0]) / (found.std(0) / DRAWS**0.5))[drawn]
    assert errors.abs().max() < 3.5
    assert found[:, ~drawn].count_nonzero() == 0


@every_proposal
def test_four_times_the_samples_halve_the_scatter(proposal) -> None:
    many = Cloud().expanded()
    few, more = (many.integral(PROPOSALS[proposal](many, m)).std(0) for m in (4, 16))
    assert 1.8 < (few / more).mean() < 2.2


def test_scores_that_know_the_integrand_leave_no_scatter() -> None:
    """One target, a positive kernel: q proportional to what is summed gives the integral in every draw."""
    y, measure = torch.rand(1, SOURCES, 2).double(), 0.1 + torch.rand(1, SOURCES).double()
    kappa = PairwiseKappa(lambda p, q: torch.exp(-(p - q).square().sum(-1)), (y[:, :1],), (y,))
    u = torch.ones(1, SOURCES, 1).double()
    scores = (measure * torch.exp(-(y[:, :1] - y).square().sum(-1))).log()
    found = integral_transform(kappa, u, draw_by_score(scores, measure, 1, share=0.0))
    torch.testing.assert_close(found, integral_transform(kappa, u, measure))


class Bump:
    """One target and a kernel that few of the sources matter to."""

    def __init__(self) -> None:
        self.y, self.measure = torch.rand(1, 60, 2).double(), 0.1 + torch.rand(1, 60).double()
        self.values = torch.exp(-(self.y - 0.5).square().sum(-1) / 0.02)

    def integral(self, measure):
        one = torch.zeros(len(self.values), 1, 1).double()
        kappa = PairwiseKappa(lambda x, y: x[..., 0] + y, (one,), (self.values,))
        return integral_transform(kappa, torch.ones(*self.values.shape, 1).double(), measure)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_scores_are_told_which_way_the_scatter_falls(share) -> None:
    """The slope of the logarithm of sum |g mu|^2 / q, which is the second moment of one sample's part."""
    bump = Bump()
    scores = torch.randn(1, 60).double().requires_grad_()
    drawn = draw_by_score(scores, bump.measure, 200_000, share=share)
    (found,) = torch.autograd.grad(bump.integral(drawn).sum(), scores)
    q = (1 - share) * scores.softmax(-1) + share * bump.measure / bump.measure.sum()
    (exact,) = torch.autograd.grad(((bump.measure * bump.values).square() / q).sum().log(), scores)
    assert (found - exact).abs().max() < 0.03 * exact.abs().max()


def test_scores_that_follow_their_gradient_learn_to_scatter_less() -> None:
    bump = Bump()
    scores = torch.zeros(1, 60).double().requires_grad_()
    optimizer = torch.optim.Adam([scores], 0.1)

    def scatter() -> float:
        with torch.no_grad():
            return float(torch.stack([bump.integral(draw_by_score(scores, bump.measure, 8)) for _ in range(300)]).std())

    before = scatter()
    for _ in range(150):
        optimizer.zero_grad()
        bump.integral(draw_by_score(scores, bump.measure, 8)).sum().backward()
        optimizer.step()
    assert scatter() < before / 2


def test_a_loss_that_does_not_feel_its_samples_teaches_nothing() -> None:
    bump = Bump()
    scores = torch.randn(1, 60).double().requires_grad_()
    (found,) = torch.autograd.grad(0 * bump.integral(draw_by_score(scores, bump.measure, 8)).sum(), scores)
    assert found.count_nonzero() == 0


def test_near_sources_serve_a_local_kernel_better_than_any() -> None:
    x, y = torch.rand(1, 5, 3).double(), torch.rand(1, 200, 3).double()
    measure, u = torch.full((1, 200), 1 / 200).double(), torch.ones(1, 200, 1).double()
    scatter = {}
    for name, draw in (
        ("uniform", lambda *many: draw_uniform(many[2], 16)),
        ("near", lambda *many: draw_near(*many, 16, reach=0.15)),
    ):
        many = [each.expand(300, *each.shape[1:]) for each in (x, y, measure)]
        kappa = PairwiseKappa(lambda p, q: torch.exp(-(p - q).square().sum(-1) / 0.02), many[:1], many[1:2])
        scatter[name] = integral_transform(kappa, u.expand(300, -1, -1), draw(*many)).std(0).mean()
    assert scatter["near"] < scatter["uniform"] / 3


@every_proposal
def test_a_seed_repeats_the_draw(proposal) -> None:
    cloud = Cloud()
    one, same, other = (PROPOSALS[proposal](cloud, 20, seed) for seed in (3, 3, 4))
    assert torch.equal(one.index, same.index)
    assert torch.equal(one.weights, same.weights)
    assert not torch.equal(one.index, other.index)


@every_proposal
def test_sources_without_weight_are_never_drawn(proposal) -> None:
    many = Cloud().expanded()
    drawn = PROPOSALS[proposal](many, SAMPLES).index
    assert (many.measure[0, drawn] > 0).all()
    assert len(drawn.unique()) == (many.measure[0] > 0).sum()


@pytest.mark.parametrize("proposal", ["near", "learned"])
def test_a_share_after_the_measure_bounds_the_weights(proposal) -> None:
    cloud = Cloud()
    cloud.scores, cloud.y = 50 * cloud.scores, 50 * cloud.y
    weights = PROPOSALS[proposal](cloud, 1000).weights
    assert weights.max() <= cloud.measure.sum() / (1000 * 0.1) * (1 + 1e-12)


def test_one_list_for_all_targets_or_one_for_each() -> None:
    cloud = Cloud()
    assert PROPOSALS["uniform"](cloud, 9).index.shape == PROPOSALS["learned"](cloud, 9).index.shape == (1, 1, 9)
    assert PROPOSALS["near"](cloud, 9).index.shape == (1, TARGETS, 9)


def test_near_draws_do_not_depend_on_how_many_targets_are_done_at_once(monkeypatch) -> None:
    cloud = Cloud()
    whole = PROPOSALS["near"](cloud, 40, 0)
    monkeypatch.setattr(SELECTION, "ROWS_BYTES", 1)
    parts = PROPOSALS["near"](cloud, 40, 0)
    assert torch.equal(whole.index, parts.index)


M, Y = torch.ones(2, 7), torch.zeros(2, 7, 3)
MISFITS = [
    (lambda: draw_by_score(M[:, :6], M, 3), r"must be alike, got \(2, 6\) and \(2, 7\)"),
    (lambda: draw_near(Y[..., :2], Y, M, 3, reach=1.0), r"got \(2, 7, 2\), \(2, 7, 3\) and \(2, 7\)"),
    (lambda: draw_near(Y, Y, M, 3, reach=0.0), "reach must be positive, got 0.0"),
]


@pytest.mark.parametrize(("call", "words"), MISFITS)
def test_says_what_does_not_fit(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()
