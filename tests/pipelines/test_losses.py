"""The loss equals MONAI's where the two can be compared, and its formula everywhere; half precision stays finite."""

import pytest
import torch
from fredholm.pipelines.losses import deeply_supervised, dice_cross_entropy
from monai.losses import DiceCELoss
from torch import Tensor

GRIDS = [(2, 3, (4, 5, 6)), (1, 2, (7, 7)), (3, 5, (1, 1, 1)), (1, 17, (8, 3, 2))]


def example(batch: int, classes: int, grid: tuple[int, ...], dtype=torch.float32) -> tuple[Tensor, Tensor]:
    return 3 * torch.randn(batch, classes, *grid, dtype=dtype), torch.randint(classes, (batch, *grid))


def formula(logits: Tensor, labels: Tensor) -> Tensor:
    """The formula at the top of losses.py with a one-hot label map, in the type of the logits."""
    p = logits.softmax(1).flatten(2)
    y = torch.nn.functional.one_hot(labels.long(), logits.shape[1]).movedim(-1, 1).flatten(2).to(p)
    dice = (2 * (p * y).sum(-1) + 1e-5) / (p.sum(-1) + y.sum(-1) + 1e-5)
    return -(y * p.log()).sum(1).mean() + (1 - dice).mean()


def perfect(labels: Tensor, classes: int, by: float = 60.0) -> Tensor:
    return by * torch.nn.functional.one_hot(labels, classes).movedim(-1, 1).float()


@pytest.mark.parametrize(("batch", "classes", "grid"), GRIDS)
def test_it_equals_monais_dice_and_cross_entropy(batch: int, classes: int, grid: tuple[int, ...]) -> None:
    # comparable with the background included, both terms of weight 1, no class weights, and float32 logits
    logits, labels = example(batch, classes, grid)
    theirs = DiceCELoss(include_background=True, to_onehot_y=True, softmax=True)
    torch.testing.assert_close(dice_cross_entropy(logits, labels), theirs(logits, labels[:, None]), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("batch", "classes", "grid"), GRIDS)
def test_its_gradient_is_that_of_the_plain_formula_in_float64(batch: int, classes: int, grid: tuple[int, ...]) -> None:
    logits, labels = example(batch, classes, grid, torch.float64)
    logits.requires_grad_()
    value, expected = dice_cross_entropy(logits, labels), formula(logits, labels)
    assert value.dtype == torch.float32  # its sums are, so gradcheck has nothing to hold on to
    assert float(value.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    (found,), (wanted,) = (torch.autograd.grad(loss, logits) for loss in (value, expected))
    scale = float(wanted.abs().max())
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_any_integer_type_of_labels_will_do(kind: torch.dtype) -> None:
    logits, labels = example(2, 3, (4, 4, 4))
    assert dice_cross_entropy(logits, labels.to(kind)) == dice_cross_entropy(logits, labels)


def test_a_perfect_answer_costs_nothing_and_the_worst_costs_much() -> None:
    _, labels = example(2, 4, (6, 6, 6))
    assert float(dice_cross_entropy(perfect(labels, 4), labels)) < 1e-5
    assert float(dice_cross_entropy(perfect((labels + 1) % 4, 4), labels)) > 50


def test_a_class_that_neither_has_is_perfect() -> None:
    labels = torch.randint(2, (1, 6, 6, 6))
    assert float(dice_cross_entropy(perfect(labels, 5), labels)) < 1e-5


def test_an_even_guess_has_the_cross_entropy_of_a_die() -> None:
    labels = torch.zeros(1, 4, 4, 4, dtype=torch.long)
    expected = torch.tensor(2.0).log() + ((1 - 2 * 0.5 / 1.5) + 1) / 2
    assert float(dice_cross_entropy(torch.zeros(1, 2, 4, 4, 4), labels)) == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_large_picture_in_half_precision_is_finite_and_perfect(dtype: torch.dtype) -> None:  # C9
    labels = torch.ones(1, 512, 512, dtype=torch.long)
    logits = torch.stack([torch.zeros(1, 512, 512), torch.full((1, 512, 512), 40.0)], 1).to(dtype).requires_grad_()
    loss = dice_cross_entropy(logits, labels)
    loss.backward()
    assert loss.dtype == torch.float32
    assert float(loss.detach()) == pytest.approx(0.0, abs=1e-5)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_only_rounds_the_logits(dtype: torch.dtype) -> None:
    logits, labels = example(1, 3, (512, 512))
    rounded = logits.to(dtype)
    assert dice_cross_entropy(rounded, labels) == dice_cross_entropy(rounded.float(), labels)


def test_extreme_logits_stay_finite() -> None:
    logits, labels = example(1, 3, (8, 8, 8))
    far = (1e4 * logits).requires_grad_()
    loss = dice_cross_entropy(far, labels)
    loss.backward()
    assert torch.isfinite(loss)
    assert far.grad is not None
    assert torch.isfinite(far.grad).all()


def test_a_batch_is_the_mean_of_its_samples() -> None:
    logits, labels = example(3, 4, (5, 5, 5))
    alone = [float(dice_cross_entropy(logits[n : n + 1], labels[n : n + 1])) for n in range(3)]
    assert float(dice_cross_entropy(logits, labels)) == pytest.approx(sum(alone) / 3, rel=1e-5)


def test_one_output_is_taken_as_it_is() -> None:
    logits, labels = example(2, 3, (8, 8, 8))
    expected = dice_cross_entropy(logits, labels)
    assert deeply_supervised(logits, labels) == expected
    assert float(deeply_supervised([logits], labels)) == pytest.approx(float(expected))


def test_coarser_outputs_weigh_half_as_much_each_and_see_every_second_voxel() -> None:
    _, labels = example(2, 3, (8, 12, 16))
    outputs = [torch.randn(2, 3, *(n // 2**level for n in (8, 12, 16))) for level in range(3)]
    each = [
        dice_cross_entropy(outputs[0], labels),
        dice_cross_entropy(outputs[1], labels[:, ::2, ::2, ::2]),
        dice_cross_entropy(outputs[2], labels[:, ::4, ::4, ::4]),
    ]
    expected = (4 * each[0] + 2 * each[1] + each[2]) / 7
    torch.testing.assert_close(deeply_supervised(outputs, labels), expected)


def test_perfect_answers_at_every_level_cost_nothing() -> None:
    _, labels = example(1, 3, (8, 8, 8))
    outputs = [perfect(labels[:, :: 2**level, :: 2**level, :: 2**level], 3) for level in range(4)]
    assert float(deeply_supervised(outputs, labels)) < 1e-4


@pytest.mark.parametrize("shape", [(2, 4, 4, 4), (1, 4, 4, 5), (1, 1, 4, 4, 4), (1, 4, 4)])
def test_a_batch_or_grid_that_differs_is_refused_with_both_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"logits \(1, 3, 4, 4, 4\) and labels .* differ in batch or grid"):
        dice_cross_entropy(torch.zeros(1, 3, 4, 4, 4), torch.zeros(shape, dtype=torch.long))


def test_an_output_that_is_not_half_as_fine_is_refused() -> None:
    logits, labels = example(1, 3, (8, 8, 8))
    with pytest.raises(ValueError, match=r"logits \(1, 3, 8, 8, 8\) and labels \(1, 4, 4, 4\) differ"):
        deeply_supervised([logits, logits], labels)


def test_voxels_of_no_class_cost_nothing_and_teach_nothing() -> None:
    logits, labels = example(2, 3, (6, 5, 4), torch.float32)
    labels[:, 2:4] = 3
    logits.requires_grad_()
    loss = dice_cross_entropy(logits, labels)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert not gradient[:, :, 2:4].any()
    rest = [torch.cat([x[..., :2, :, :], x[..., 4:, :, :]], -3) for x in (logits, labels)]
    torch.testing.assert_close(loss, dice_cross_entropy(rest[0], rest[1]))
    (theirs,) = torch.autograd.grad(dice_cross_entropy(rest[0], rest[1]), logits)
    torch.testing.assert_close(gradient, theirs)


def test_a_patch_that_nobody_labelled_costs_nothing() -> None:
    logits, labels = example(1, 3, (4, 4, 4))
    logits.requires_grad_()
    loss = dice_cross_entropy(logits, torch.full_like(labels, 3))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert float(loss.detach()) == pytest.approx(0.0, abs=1e-6)
    assert not gradient.any()


@pytest.mark.parametrize(("batch", "classes", "grid"), GRIDS)
def test_class_weights_are_those_of_the_cross_entropy_alone(batch: int, classes: int, grid: tuple[int, ...]) -> None:
    logits, labels = example(batch, classes, grid)
    weights = torch.rand(classes) + 0.1
    plain, weighted = (torch.nn.functional.cross_entropy(logits, labels, given) for given in (None, weights))
    found = dice_cross_entropy(logits, labels, weights) - dice_cross_entropy(logits, labels)
    torch.testing.assert_close(found, weighted - plain, rtol=1e-4, atol=1e-5)


def test_equal_class_weights_change_nothing_and_unlabelled_voxels_have_none() -> None:
    logits, labels = example(2, 3, (4, 5, 6))
    labels[0, :2] = 4  # nobody labelled them
    same, other = (dice_cross_entropy(logits, labels, weights) for weights in (torch.full((3,), 2.5), None))
    torch.testing.assert_close(same, other)
