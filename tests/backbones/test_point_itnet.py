"""PointITNet sees a set of points: not their order, and each time the same."""

import pytest
import torch
from fredholm.backbones import PointBody, PointITNet

BODY = PointBody(dims=(8, 16), neighbours=4, width=8, frequencies=4, heads=2)


def network(features: int = 0) -> PointITNet:
    return PointITNet(5, features, BODY).eval()


@pytest.mark.parametrize("features", [0, 3])
def test_the_order_of_points_changes_no_bit(features) -> None:
    model, order = network(features), torch.randperm(40)
    points, more = torch.randn(2, 40, 3), torch.randn(2, 40, features) if features else None
    points[:, 10:20] = points[:, :10]  # doubled points are told apart by what else they have
    shuffled = None if more is None else more[:, order]
    with torch.no_grad():
        assert torch.equal(model(points[:, order], shuffled), model(points, more))


def test_two_runs_are_equal_bit_for_bit() -> None:
    model, points = network(), torch.randn(2, 64, 3)
    with torch.no_grad():
        assert torch.equal(model(points), model(points))


def test_a_batch_equals_each_alone() -> None:
    model, points = network().double(), torch.randn(3, 40, 3, dtype=torch.float64)
    with torch.no_grad():
        together = model(points)
        for row in range(3):
            torch.testing.assert_close(model(points[row : row + 1])[0], together[row], rtol=0, atol=1e-10)


def test_every_weight_learns() -> None:
    model = PointITNet(5, 3, BODY).train()
    model(torch.randn(4, 40, 3), torch.randn(4, 40, 3)).logsumexp(-1).sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all(), name  # noqa: PT018
        assert weight.grad.any(), name


def test_too_few_points_for_the_neighbours_are_refused() -> None:
    with pytest.raises(ValueError, match="a stage has 3 points, fewer than 4 neighbours"):
        network()(torch.randn(1, 3, 3))


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ValueError, match="multiples of the 3 heads"):
        PointBody(dims=(32,), heads=3)
    with pytest.raises(ValueError, match="neighbours must be 1 or more"):
        PointBody(neighbours=0)
