"""Anchors stay at zero, then grow under a weight, then learn like anything else."""

import pytest
import torch
from fredholm.pipelines.phases import JOINT, AnchorPhases, Phase
from torch import nn

PHASES = AnchorPhases(activation=4, joint=8)


def test_phases_are_ranges_of_steps() -> None:
    assert [PHASES.at(step) for step in (0, 3)] == [Phase(learns=False)] * 2
    assert [PHASES.at(step) for step in (4, 7)] == [Phase(l2=1e-3, alpha_rate=0.1)] * 2
    assert [PHASES.at(step) for step in (8, 10**6)] == [JOINT] * 2


def test_the_weight_of_squares_is_in_the_gradient() -> None:
    anchors = nn.Parameter(torch.randn(3, 4))
    (anchors.sin().sum() + 0.25 * anchors.square().sum()).backward()
    expected, anchors.grad = anchors.grad, None
    anchors.sin().sum().backward()
    Phase(l2=0.25).shape_gradients([anchors])
    torch.testing.assert_close(anchors.grad, expected)


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ValueError, match="in order from 0, not at 8 and 4"):
        AnchorPhases(activation=8, joint=4)
    with pytest.raises(ValueError, match="l2 and alpha_rate are 0 or more"):
        AnchorPhases(activation=0, joint=4, l2=-1.0)
