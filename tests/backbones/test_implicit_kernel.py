"""How an `ImplicitKernel` starts, and what stays true of it on any grid."""

import math

import pytest
import torch
from fredholm.backbones import (
    Film,
    GaussianWindow,
    ImplicitKernel,
    Siren,
    StepCoordinates,
    UnitCoordinates,
    without_window,
)

CPU = torch.device("cpu")
AXES = (1, 2, 3)


def assert_close(found, expected, tolerance) -> None:
    atol = tolerance * expected.abs().max().item()
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def perturbed(module, size=0.1):
    """The module with noise on every parameter, so that nothing is at its start."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(size * torch.randn_like(parameter))
    return module


@pytest.mark.parametrize("axes", AXES)
def test_first_angles_have_a_variance_of_one_ninth_on_any_number_of_axes(axes) -> None:
    kernel = ImplicitKernel(1, axes, siren=Siren(width=4096, hidden=0, bands=1, frequencies=(3.0, 3.0)))
    positions = 2 * torch.rand(1000, axes) - 1
    angles = positions @ kernel.first.weight.detach().T / (2 * math.pi * 3.0)
    assert angles.var().item() == pytest.approx(1 / 9, rel=0.05)
    assert kernel.first.weight.abs().max() <= 2 * math.pi * 3.0 / math.sqrt(axes)


@pytest.mark.parametrize("axes", AXES)
def test_frequencies_come_in_bands_spaced_linearly(axes) -> None:
    kernel = ImplicitKernel(1, axes, siren=Siren(width=4000, hidden=0, bands=4, frequencies=(1.0, 10.0)))
    highest = kernel.first.weight.detach().abs().view(4, -1).amax(1) * math.sqrt(axes) / (2 * math.pi)
    assert_close(highest, torch.tensor([1.0, 4.0, 7.0, 10.0]), 0.01)


def test_hidden_layers_start_block_diagonal() -> None:
    kernel = ImplicitKernel(3, 2, siren=Siren(width=24, hidden=3, bands=4))
    inside = torch.block_diag(*[torch.ones(6, 6)] * 4).bool()
    assert len(kernel.hidden_layers) == 3
    for layer in kernel.hidden_layers:
        assert layer.weight[~inside].count_nonzero() == 0
        assert layer.weight[inside].count_nonzero() == inside.sum()
        assert layer.weight.abs().max() <= math.sqrt(6 / 6)


def test_biases_start_at_zero_but_for_the_phases_of_the_first_layer() -> None:
    kernel = ImplicitKernel(3, 2)
    assert all(layer.bias.count_nonzero() == 0 for layer in (*kernel.hidden_layers, kernel.last))
    assert kernel.first.bias.abs().max() <= math.pi
    assert kernel.first.bias.std() > 1


def test_a_kernel_is_not_zero_at_lag_zero() -> None:
    with torch.no_grad():
        middle = ImplicitKernel(64, 2)((31, 31))[0, :, 15, 15]
    assert middle.square().mean().sqrt() > 0.01


def test_a_kernel_is_no_product_of_one_kernel_for_each_axis() -> None:
    kernel = ImplicitKernel(8, 2)
    with torch.no_grad():
        values = torch.linalg.svdvals(kernel((31, 31))[0])
    # A product has one singular value. The narrow channels see little but lag zero, where anything is a product.
    assert (values[4:, 1] > 0.1 * values[4:, 0]).all()


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("step", [1 / 31, 1 / 5])
def test_window_widths_have_bounds(axes, step) -> None:
    window = GaussianWindow(7, axes, step=step)
    with torch.no_grad():
        window.sigma.copy_(torch.tensor([-5.0, 0.0, 1e-4, 0.5, 4.0, 100.0, 1000.0]).expand(axes, 7))
        sigma = window()
    height = lambda distance: torch.exp(-0.5 * (distance / sigma) ** 2)  # noqa: E731
    assert_close(height(step)[:, :3], torch.full((axes, 3), 0.1), 0.01)  # the narrowest, one step off
    assert_close(height(1.0)[:, 5:], torch.full((axes, 2), 0.95), 0.001)  # the widest, at the border
    assert torch.equal(sigma[:, 3], torch.full((axes,), 0.5))


def test_window_widths_start_within_their_bounds_and_log_spaced() -> None:
    sigma = GaussianWindow(9, 2, step=1 / 31)().detach()
    assert sigma.shape == (2, 9)
    assert torch.equal(sigma[0], sigma[1])
    ratios = sigma[0, 1:] / sigma[0, :-1]
    assert_close(ratios, ratios.mean().expand(8), 1e-5)
    assert math.exp(-0.5 * (1 / 31 / sigma[0, 0]) ** 2) == pytest.approx(0.1, rel=1e-3)
    assert math.exp(-0.5 * (1 / sigma[0, -1]) ** 2) == pytest.approx(0.1, rel=1e-3)


def test_window_widths_out_of_bounds_still_have_a_gradient() -> None:
    window = GaussianWindow(3, 2, step=1 / 31)
    with torch.no_grad():
        window.sigma.copy_(torch.tensor([-1.0, 0.5, 50.0]).expand(2, 3))
    window().sum().backward()
    assert torch.equal(window.sigma.grad, torch.ones(2, 3))


def test_a_step_as_wide_as_the_border_leaves_one_width() -> None:
    sigma = GaussianWindow(4, 1, step=20.0)()
    assert sigma.isfinite().all()
    assert (sigma > 0).all()


@pytest.mark.parametrize("hidden", [1, 2])
def test_film_starts_as_the_identity_exactly(hidden) -> None:
    film = Film(5, hidden, 8)(torch.randn(3, 5))
    assert film.shape == (3, hidden, 2, 8)
    assert torch.equal(film[:, :, 0], torch.ones(3, hidden, 8))
    assert torch.equal(film[:, :, 1], torch.zeros(3, hidden, 8))


@pytest.mark.parametrize("axes", AXES)
def test_a_conditioned_kernel_starts_as_the_static_one(axes) -> None:
    conditioned, static = ImplicitKernel(4, axes, condition=5), ImplicitKernel(4, axes)
    weights = {name: value for name, value in conditioned.state_dict().items() if not name.startswith("film.")}
    static.load_state_dict(weights)
    taps = (9, 8, 7)[:axes]
    with torch.no_grad():
        kernels, expected = conditioned(taps, torch.randn(3, 5)), static(taps)
    assert kernels.shape == (3, 4, *taps)
    assert expected.shape == (1, 4, *taps)
    assert_close(kernels, expected.expand_as(kernels), 1e-7)


def test_conditions_make_different_kernels_once_film_has_learned() -> None:
    kernel = ImplicitKernel(4, 2, condition=5)
    torch.nn.init.normal_(kernel.film.last.weight, std=0.3)
    conditions = torch.randn(3, 5)
    with torch.no_grad():
        together = kernel((9, 8), conditions)
        assert (together[0] - together[1]).abs().max() > 0.01 * together.abs().max()
        for condition, row in zip(conditions, together, strict=True):
            assert_close(kernel((9, 8), condition[None])[0], row, 1e-6)


def energies(axes, step) -> torch.Tensor:
    """Energy of each of 48 channels at the start, widest window last, the mean of ten kernels."""
    taps = (2 * round(1 / step) + 1,) * axes  # as far as 1 to either side
    with torch.no_grad():
        kernels = torch.cat([ImplicitKernel(48, axes, step=step)(taps) for _ in range(10)])
    return kernels.square().flatten(2).sum(-1).mean(0)


@pytest.mark.parametrize(
    ("axes", "step"),
    [
        (1, 1 / 31),
        (1, 1 / 7),
        (2, 1 / 31),
        (2, 1 / 11),
        (3, 1 / 11),
    ],
)
def test_kernels_start_with_about_unit_energy(axes, step) -> None:
    assert 0.5 < energies(axes, step).mean() < 2


@pytest.mark.parametrize("axes", [1, 2])
def test_wide_kernels_start_with_about_unit_energy(axes) -> None:
    assert 0.5 < energies(axes, 1 / 31)[24:].mean() < 2


@pytest.mark.parametrize("axes", [1, 2])
def test_narrow_kernels_start_with_about_unit_energy(axes) -> None:
    assert 0.25 < energies(axes, 1 / 31)[:6].mean() < 4


@pytest.mark.parametrize("taps", [1, 2, 3, 4, 8, 9])
def test_unit_coordinates_span_one_to_either_side(taps) -> None:
    places = UnitCoordinates()(taps, CPU)
    assert places.shape == (taps,)
    assert places[taps // 2] == 0
    assert places[0] == (-1 if taps > 1 else 0)
    assert places.abs().max() <= 1
    if taps > 1:
        assert_close(places.diff(), torch.full((taps - 1,), 1 / (taps // 2)), 1e-6)


def test_step_coordinates_lie_one_step_apart() -> None:
    assert_close(StepCoordinates(0.25)(5, CPU), torch.tensor([-0.5, -0.25, 0, 0.25, 0.5]), 0)
    assert_close(StepCoordinates(0.25)(4, CPU), torch.tensor([-0.5, -0.25, 0, 0.25]), 0)
    assert torch.equal(StepCoordinates(0.25)(1, CPU), torch.zeros(1))


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize(("coarse", "fine", "every"), [(5, 9, 2), (7, 19, 3), (4, 8, 2), (1, 9, None)])
def test_unit_coordinates_give_one_function_on_any_grid(axes, coarse, fine, every) -> None:
    kernel = perturbed(ImplicitKernel(4, axes))
    with torch.no_grad():
        few, many = kernel((coarse,) * axes), kernel((fine,) * axes)
    picked = slice(None, None, every) if every else slice(fine // 2, fine // 2 + 1)
    assert_close(many[(..., *[picked] * axes)], few, 1e-5)


@pytest.mark.parametrize("axes", AXES)
def test_step_coordinates_keep_the_extent_in_taps(axes) -> None:
    kernel = perturbed(ImplicitKernel(4, axes, coordinates=StepCoordinates(1 / 7)))
    with torch.no_grad():
        few, many = kernel((5,) * axes), kernel((11,) * axes)
    assert_close(many[(..., *[slice(3, 8)] * axes)], few, 1e-6)


@pytest.mark.parametrize("hidden", [0, 1, 2])
def test_axes_may_differ_in_length(hidden) -> None:
    with torch.no_grad():
        assert ImplicitKernel(4, 3, siren=Siren(hidden=hidden))((3, 8, 1)).shape == (1, 4, 3, 8, 1)


@pytest.mark.parametrize("condition", [None, 5])
def test_every_parameter_gets_a_gradient(condition) -> None:
    kernel = perturbed(ImplicitKernel(4, 2, condition=condition))
    sampled = kernel((9, 8), None if condition is None else torch.randn(2, condition))
    (sampled * torch.randn_like(sampled)).sum().backward()
    for name, parameter in kernel.named_parameters():
        assert parameter.grad is not None and parameter.grad.count_nonzero() > 0, name  # noqa: PT018


def test_works_in_float64() -> None:
    kernel = perturbed(ImplicitKernel(4, 2, condition=5).double())
    condition = torch.randn(2, 5).double()
    with torch.no_grad():
        double = kernel((9, 8), condition)
        single = kernel.float()((9, 8), condition.float())
    assert (double.dtype, single.dtype) == (torch.float64, torch.float32)
    assert_close(single, double, 1e-5)


def test_autocast_leaves_float32() -> None:
    kernel = perturbed(ImplicitKernel(4, 2))
    with torch.no_grad():
        expected = kernel((9, 8))
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(kernel((9, 8)), expected)


@pytest.mark.parametrize("axes", AXES)
def test_without_a_window_it_is_as_high_at_the_border_and_has_unit_energy(axes) -> None:
    kernel = ImplicitKernel(256, axes, step=1 / 7, window=without_window)
    with torch.no_grad():
        squares = kernel((15,) * axes)[0].square()
    assert 0.5 < squares.flatten(1).sum(1).mean() < 2
    assert 0.5 < squares[:, 0].mean() / squares[:, 7].mean() < 2


def test_says_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="width 30 must be a multiple of the number of bands 4"):
        Siren(width=30, bands=4)
    words = "a static kernel takes no condition, and one made with `condition` needs it"
    with pytest.raises(ValueError, match=words):
        ImplicitKernel(4, 2)((3, 3), torch.zeros(1, 5))
    with pytest.raises(ValueError, match=words):
        ImplicitKernel(4, 2, condition=5)((3, 3))
    with pytest.raises(ValueError, match=r"layer 0: expected weight \(\*, 3\)"):
        ImplicitKernel(4, 2)((3, 3, 3))
