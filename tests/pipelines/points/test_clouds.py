"""Clouds are brought to one size, thinned the same way in any order, and changed as they might as well have been."""

import numpy as np
import pytest
from fredholm.pipelines.points.augment import Augmentation
from fredholm.pipelines.points.classify import thin
from fredholm.pipelines.points.cloud import Cloud, draw, unit

STILL = {"rotation": 0.0, "scale": 0.0, "jitter": 0.0, "dropout": 0.0}


@pytest.fixture
def cloud() -> Cloud:
    rng = np.random.default_rng(0)
    normals = rng.standard_normal((100, 3))
    return Cloud(rng.random((100, 3)) * [4, 1, 2] + 1000, normals / np.linalg.norm(normals, axis=1, keepdims=True))


def test_a_cloud_is_centred_by_its_box_and_scaled_to_radius_one(cloud) -> None:
    positions = unit(cloud).positions
    assert np.allclose(positions.min(0), -positions.max(0))
    assert np.linalg.norm(positions, axis=1).max() == pytest.approx(1)
    assert np.allclose(unit(Cloud(cloud.positions * 7 - 3)).positions, positions)


def test_points_that_coincide_become_zeros_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="dot: all points coincide"):
        assert not unit(Cloud(np.ones((4, 3))), "dot").positions.any()


def test_drawn_points_come_once_before_any_comes_again(cloud) -> None:
    drawn = draw(cloud, 250, np.random.default_rng(1)).positions
    for part in (drawn[:100], drawn[100:200]):
        assert np.array_equal(np.unique(part, axis=0), np.unique(cloud.positions, axis=0))


@pytest.mark.parametrize("count", [20, 100, 130])
def test_thinning_is_the_same_in_any_order(cloud, count) -> None:
    order = np.random.default_rng(2).permutation(100)
    assert np.array_equal(thin(cloud, count).positions, thin(cloud.take(order), count).positions)
    assert len(thin(cloud, count)) == count


def test_nothing_changes_a_cloud_by_nothing(cloud) -> None:
    changed = Augmentation(**STILL)(cloud, np.random.default_rng(0))
    assert np.allclose(changed.positions, cloud.positions)
    assert np.allclose(changed.normals, cloud.normals)


@pytest.mark.parametrize("up", ["x", "y", "z"])
def test_a_turn_keeps_heights_and_distances(cloud, up) -> None:
    changed = Augmentation(**STILL | {"rotation": 180.0}, up=up)(cloud, np.random.default_rng(0))
    axis = "xyz".index(up)
    assert np.allclose(changed.positions[:, axis], cloud.positions[:, axis])
    assert np.allclose(changed.normals[:, axis], cloud.normals[:, axis])
    assert not np.allclose(changed.positions, cloud.positions)
    gaps = [np.linalg.norm(one.positions[:, None] - one.positions, axis=-1) for one in (changed, cloud)]
    assert np.allclose(*gaps)


def test_normals_stay_at_right_angles_to_a_stretched_surface() -> None:
    rng = np.random.default_rng(0)
    flat = rng.random((50, 2)) @ np.array([[1.0, 0, 1], [0, 1, 1]])
    normals = np.repeat([np.array([1.0, 1, -1]) / np.sqrt(3)], 50, 0)
    changed = Augmentation(**STILL | {"scale": 0.5})(Cloud(flat, normals), rng)
    along = changed.positions[1:] - changed.positions[:1]
    assert np.allclose((along * changed.normals[:1]).sum(1), 0)
    assert np.allclose(np.linalg.norm(changed.normals, axis=1), 1)


def test_no_point_is_shaken_far_and_missing_ones_lie_on_the_first(cloud) -> None:
    shaken = Augmentation(**STILL | {"jitter": 0.1})(cloud, np.random.default_rng(0))
    assert 0 < abs(shaken.positions - cloud.positions).max() <= 0.5 + 1e-9
    thinned = Augmentation(**STILL | {"dropout": 0.9})(cloud, np.random.default_rng(3))
    moved = (thinned.positions != cloud.positions).any(1)
    assert moved.any()
    assert (thinned.positions[moved] == cloud.positions[0]).all()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="up is x, y or z"):
        Augmentation(up="w")
    with pytest.raises(ValueError, match="jitter is a number of 0 or more"):
        Augmentation(jitter=-1)
    with pytest.raises(ValueError, match="below 1"):
        Augmentation(dropout=1.0)
