"""FieldSurrogate keeps the symmetries of its boundaries and depends on what it is told."""

from dataclasses import replace

import pytest
import torch
from fredholm.backbones import FieldSurrogate, Interpolation, SurrogateBody
from fredholm.backbones.field_surrogate import gather, scatter

BODY = SurrogateBody(pattern="HA", depth=2, dim=8, heads=2, width=4)


def surrogate(boundary, *, scalars=0, body=BODY) -> FieldSurrogate:
    model = FieldSurrogate(3, 2, boundary, scalars=scalars, samples=8, body=body).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def test_it_starts_at_zero() -> None:
    model = FieldSurrogate(3, 2, ("periodic",) * 2, body=BODY)
    assert not model(torch.randn(1, 8, 6, 3)).any()


@pytest.mark.parametrize("grid", [(8,), (4, 6), (4, 2, 6)])
@pytest.mark.parametrize("patch", [1, 2])
def test_patches_come_back(grid: tuple[int, ...], patch: int) -> None:
    x = torch.randn(2, *grid, 3)
    gathered = gather(x, patch)
    assert gathered.shape == (2, *(n // patch for n in grid), 3 * patch ** len(grid))
    assert torch.equal(scatter(gathered, patch), x)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_in_a_periodic_box_it_commutes_with_shifts_by_patches(axes: int) -> None:
    model, x = surrogate(("periodic",) * axes), torch.randn(1, *(8, 6, 4)[:axes], 3, dtype=torch.float64)
    with torch.no_grad():
        shifted = model(x.roll(2, 1))
        torch.testing.assert_close(shifted, model(x).roll(2, 1), rtol=0, atol=1e-10)


def test_beside_a_wall_it_does_not() -> None:
    model, x = surrogate(("zero", "periodic")), torch.randn(1, 8, 6, 3, dtype=torch.float64)
    with torch.no_grad():
        assert not torch.allclose(model(x.roll(2, 1)), model(x).roll(2, 1))
        torch.testing.assert_close(model(x.roll(2, 2)), model(x).roll(2, 2), rtol=0, atol=1e-10)


def test_parameters_of_the_simulation_change_the_kernels_of_each_sample() -> None:
    model = surrogate(("periodic",), scalars=2, body=SurrogateBody(pattern="H", depth=1, dim=8, heads=2, width=4))
    x, scalars = torch.randn(1, 8, 3, dtype=torch.float64).expand(2, -1, -1), torch.randn(2, 2, dtype=torch.float64)
    with torch.no_grad():
        both = model(x, scalars)
        alone = [model(x[:1], one[None]) for one in scalars]
    torch.testing.assert_close(both, torch.cat(alone), rtol=0, atol=1e-10)
    assert not torch.allclose(both[0], both[1])


@pytest.mark.parametrize("pattern", ["HA", "HI"])
def test_every_weight_learns(pattern: str) -> None:
    model = surrogate(("periodic", "zero"), scalars=1, body=replace(BODY, pattern=pattern)).train()
    model(
        torch.randn(2, 8, 4, 3, dtype=torch.float64), torch.randn(2, 1, dtype=torch.float64)
    ).square().sum().backward()
    silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not silent


def test_compiled_in_one_graph_it_equals_itself() -> None:
    body = replace(BODY, pattern="HI", interpolation=Interpolation(anchors=3))
    model, x = surrogate(("periodic",), body=body).train(), torch.randn(2, 8, 3, dtype=torch.float64)
    torch._dynamo.reset()
    found, expected = torch.compile(model, fullgraph=True, backend="aot_eager")(x), model(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    gradients = [torch.autograd.grad(y.sin().sum(), list(model.parameters())) for y in (found, expected)]
    for ours, eager in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=1e-9)


def test_it_runs_on_another_grid() -> None:
    assert surrogate(("periodic",) * 2)(torch.randn(1, 16, 12, 3, dtype=torch.float64)).shape == (1, 16, 12, 2)


def test_a_grid_that_the_patch_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match=r"each a multiple of the patch 2, got \(7, 6\)"):
        surrogate(("zero",) * 2)(torch.randn(1, 7, 6, 3, dtype=torch.float64))


def test_an_unknown_letter_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"unknown letter 'X'; known are A \(global attention\), H \(HyenaND\), I \(ITNet\)"
    ):
        SurrogateBody(pattern="HX")
