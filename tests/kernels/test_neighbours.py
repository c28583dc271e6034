"""Neighbours are the nearest points wherever the cloud lies and in whatever order it comes."""

import pytest
import torch
from fredholm.kernels import farthest_points, nearest_points


def test_the_nearest_are_found_and_not_the_first_within_reach() -> None:
    line = torch.tensor([0.9, 0.8, 0.1, 0.0])
    cloud = torch.stack([line, line * 0, line * 0], -1)[None]
    assert nearest_points(torch.zeros(1, 1, 3), cloud, 2).tolist() == [[[3, 2]]]
    order = torch.tensor([2, 0, 3, 1])
    found = nearest_points(torch.zeros(1, 1, 3), cloud[:, order], 2)
    assert order[found].tolist() == [[[3, 2]]]


def test_far_from_every_point_there_are_nearest_ones_all_the_same() -> None:
    found = nearest_points(torch.ones(1, 1, 3), torch.zeros(1, 5, 3), 2)
    assert len(set(found.flatten().tolist())) == 2
    assert found.max() < 5


@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_neighbours_are_those_of_exact_arithmetic_far_from_the_origin_too(shift) -> None:
    cloud = torch.rand(2, 60, 3) + shift
    gaps = (cloud.double()[:, :, None] - cloud.double()[:, None]).norm(dim=-1)
    found = nearest_points(cloud, cloud, 5)
    assert torch.allclose(gaps.gather(2, found), gaps.sort(-1).values[..., :5], rtol=1e-6, atol=1e-7 * max(1, shift))
    assert torch.equal(found[..., 0], torch.arange(60).expand(2, -1))


def test_blocks_change_nothing(monkeypatch) -> None:
    cloud = torch.rand(2, 50, 3)
    whole = nearest_points(cloud, cloud, 4)
    monkeypatch.setattr("fredholm.kernels.neighbours.BLOCK", 700)
    assert torch.equal(nearest_points(cloud, cloud, 4), whole)


def test_each_next_point_is_the_farthest_from_those_before() -> None:
    cloud = torch.rand(3, 40, 3, dtype=torch.float64)
    chosen = farthest_points(cloud, 12)
    for points, index in zip(cloud, chosen, strict=True):
        gaps = torch.cdist(points, points)
        for place in range(1, 12):
            nearest = gaps[:, index[:place]].amin(1)
            assert nearest[index[place]] == nearest.max()


def test_the_choice_is_the_same_each_time_and_in_any_order() -> None:
    cloud, order = torch.rand(1, 64, 3, dtype=torch.float64), torch.randperm(64)
    chosen = farthest_points(cloud, 16)
    assert torch.equal(chosen, farthest_points(cloud, 16))
    assert torch.equal(cloud[0, chosen[0]], cloud[0, order][farthest_points(cloud[:, order], 16)[0]])


def test_no_point_is_chosen_twice_even_where_all_coincide() -> None:
    assert sorted(farthest_points(torch.zeros(1, 6, 3), 6)[0].tolist()) == [*range(6)]


def test_more_than_there_are_is_refused() -> None:
    cloud = torch.rand(1, 4, 3)
    with pytest.raises(ValueError, match="5 nearest points were asked for among 4"):
        nearest_points(cloud, cloud, 5)
    with pytest.raises(ValueError, match="5 points were asked for of 4"):
        farthest_points(cloud, 5)
