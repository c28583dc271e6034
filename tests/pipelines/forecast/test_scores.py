"""VRMSE is what it is called: the mean scores 1 in any unit; beside it what The Well's code counts."""

import numpy as np
import pytest
import torch
from fredholm.pipelines.forecast.scores import band_errors, vrmse, well_vrmse


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e6])
def test_the_mean_scores_one_in_any_unit(unit: float) -> None:
    truth, std = unit * torch.tensor([0.0, 1, 2, 3]).view(1, 4, 1), torch.tensor([unit])
    assert vrmse(torch.full_like(truth, 1.5 * unit), truth, std).item() == pytest.approx(1.0)


@pytest.mark.parametrize(("unit", "expected"), [(1.0, 0.86603), (1e-4, 0.3273)])
def test_the_wells_code_counts_otherwise(unit: float, expected: float) -> None:
    truth = unit * torch.tensor([0.0, 1, 2, 3]).view(1, 4, 1)
    assert well_vrmse(torch.full_like(truth, 1.5 * unit), truth).item() == pytest.approx(expected, rel=1e-4)


def test_it_equals_the_wells_own() -> None:
    spatial = pytest.importorskip("the_well.benchmark.metrics", reason="the_well[benchmark] is not installed")
    x, y = torch.randn(3, 8, 6, 2), torch.randn(3, 8, 6, 2)
    metadata = type("Metadata", (), {"n_spatial_dims": 2})()
    expected = spatial.VRMSE.eval(x, y, metadata)
    torch.testing.assert_close(well_vrmse(x, y).float(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e6])
def test_where_the_truth_hardly_varies_the_error_is_held_against_the_usual(unit: float) -> None:
    truth, std = torch.zeros(1, 4, 1), torch.tensor([unit])
    assert vrmse(truth + 1e-3 * unit, truth, std).item() == pytest.approx(1e-3 / 1e-7**0.5)
    assert vrmse(truth, truth, std).item() == 0


def test_each_frame_and_channel_is_scored_alone() -> None:
    x, y = torch.randn(3, 5, 4, 2), torch.randn(3, 5, 4, 2)
    found = vrmse(x, y, torch.ones(2))
    assert found.shape == (3, 2)
    one = x[1, ..., 0].numpy() - y[1, ..., 0].numpy()
    assert found[1, 0].item() == pytest.approx(np.sqrt((one**2).mean() / y[1, ..., 0].numpy().var()), rel=1e-5)


def test_a_lost_wave_is_missed_in_its_band_alone() -> None:
    x = torch.arange(32, dtype=torch.float64) * 2 * torch.pi / 32
    low, high = torch.cos(x).view(1, 32, 1), torch.cos(12 * x).view(1, 32, 1)
    torch.testing.assert_close(
        band_errors(low, low + high, torch.ones(1))[0, [0, 2], 0],
        torch.tensor([0.0, 1.0], dtype=torch.float64),
        rtol=1e-6,
        atol=1e-6,
    )
