"""Each measure of a layer is held to a value that can be worked out by hand."""

import math

import pytest
import torch
from fredholm.pipelines.inspection.measures import (
    effective_rank,
    entropy_bits,
    extents,
    focus,
    mean_frequency,
    spectrum,
)


def test_entropy_is_in_bits_and_the_mean_of_rows() -> None:
    rows = torch.tensor([[0.25] * 4, [1.0, 0, 0, 0], [0.5, 0.25, 0.25, 0]])
    assert entropy_bits(rows) == pytest.approx((2 + 0 + 1.5) / 3)


def test_focus_goes_from_nothing_to_one() -> None:
    assert focus(3.0, 8) == 0
    assert focus(0.0, 8) == 1
    assert focus(1.5, 8) == 0.5
    assert focus(0.0, 1) == 1


def test_the_rank_counts_directions_that_are_used_alike() -> None:
    corners = torch.cat([torch.eye(3), -torch.eye(3)]) + 7  # what all share is no direction
    assert effective_rank(torch.nn.functional.pad(corners, (0, 5))) == pytest.approx(3)
    assert effective_rank(torch.ones(4, 3)) == 1
    uneven = torch.tensor([[3.0, 0], [-3, 0], [0, 1], [0, -1]])
    assert effective_rank(uneven) == pytest.approx(math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25)))


def test_a_kernel_reaches_as_far_as_its_energy() -> None:
    kernel = torch.zeros(2, 5, 7)
    kernel[0, 2, 3] = 5.0  # lag zero
    kernel[1, 0, 3] = kernel[1, 4, 3] = 2.0
    assert extents(kernel) == pytest.approx([1.0, 0.0])


def test_a_wave_has_one_frequency_and_a_spike_all() -> None:
    wave = torch.cos(2 * math.pi * torch.arange(16) / 4).expand(3, 16)
    power = spectrum(wave, 1)
    assert power.argmax() == 4
    assert float(power[4]) == pytest.approx(1)
    assert mean_frequency(power) == pytest.approx(0.25)
    spike = torch.zeros(1, 2, 8)
    spike[0, 1, 4] = 3
    torch.testing.assert_close(spectrum(spike, 2), torch.full((5,), 0.2, dtype=torch.float64))
    assert mean_frequency(spectrum(spike, 2)) == pytest.approx(0.25)
