"""Augmentation varies a patch from its random numbers alone, keeps labels labels, and mirrors only where asked."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from fredholm.pipelines.augment import CTAugmentation
from torch import Tensor

SIDE = 24
SUBSETS = [axes for count in range(4) for axes in itertools.combinations(range(3), count)]


def body() -> tuple[Tensor, Tensor]:
    """Sided: one ball on the right, one small in front, one towards the head, on a soft background."""
    grid = torch.stack(torch.meshgrid(*(torch.arange(SIDE),) * 3, indexing="ij")).float()
    labels = torch.zeros(SIDE, SIDE, SIDE, dtype=torch.uint8)
    for index, (centre, radius) in {3: ((18, 12, 12), 4), 7: ((12, 18, 12), 3), 200: ((12, 12, 18), 3)}.items():
        labels[(grid - torch.tensor(centre)[:, None, None, None]).norm(dim=0) < radius] = index
    image = torch.where(labels > 0, 0.6, -0.2)[None] + 0.1 * torch.randn(1, SIDE, SIDE, SIDE)
    return image.clamp(-1, 1), labels


def varied(number: int, augmentation: CTAugmentation | None = None) -> tuple[Tensor, Tensor]:
    image, labels = body_once
    return (augmentation or CTAugmentation(-1.0, 1.0, affine=1.0))(image, labels, np.random.default_rng((5, number)))


torch.manual_seed(0)
body_once = body()


def test_shapes_and_types_stay() -> None:
    for number in range(20):
        image, labels = varied(number)
        assert (image.shape, image.dtype) == ((1, SIDE, SIDE, SIDE), torch.float32)
        assert (labels.shape, labels.dtype) == ((SIDE, SIDE, SIDE), torch.uint8)
        assert type(image) is type(labels) is Tensor


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_labels_keep_their_type_and_get_no_new_values(dtype: torch.dtype) -> None:
    image, labels = body_once
    for number in range(20):
        _, found = CTAugmentation(-1.0, 1.0, affine=1.0)(image, labels.to(dtype), np.random.default_rng(number))
        assert found.dtype == dtype
        assert set(found.unique().tolist()) <= {0, 3, 7, 200}


def test_the_same_random_numbers_give_the_same_patch_whatever_came_before() -> None:
    worn = CTAugmentation(-1.0, 1.0, affine=0.5)
    for number in range(15):
        varied(number + 100, worn)
        used, fresh = varied(number, worn), varied(number, CTAugmentation(-1.0, 1.0, affine=0.5))
        assert torch.equal(used[0], fresh[0])
        assert torch.equal(used[1], fresh[1])


def test_neither_torchs_nor_numpys_own_random_state_is_touched_or_used() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = [varied(number)[0] for number in range(10)]
    torch.testing.assert_close(torch.get_rng_state(), before[0], rtol=0, atol=0)
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])
    torch.manual_seed(77)
    assert all(torch.equal(one, varied(number)[0]) for number, one in enumerate(first))


def test_different_random_numbers_give_different_patches() -> None:
    found = [varied(number)[0] for number in range(10)]
    assert not any(torch.equal(found[n], found[m]) for n in range(10) for m in range(n))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1.0), (-3.0, 7.0)])
def test_values_stay_in_the_range(low: float, high: float) -> None:
    image, labels = (body_once[0] + 1) / 2 * (high - low) + low, body_once[1]
    for number in range(40):
        found, _ = CTAugmentation(low, high, affine=0.5)(image, labels, np.random.default_rng(number))
        assert torch.isfinite(found).all()
        assert low <= float(found.min())
        assert float(found.max()) <= high


def test_a_patch_of_nothing_but_air_stays_finite() -> None:
    air, labels = torch.full((1, 8, 8, 8), -1.0), torch.zeros(8, 8, 8, dtype=torch.uint8)
    for number in range(60):
        image, found = CTAugmentation(-1.0, 1.0, affine=0.5)(air, labels, np.random.default_rng(number))
        assert torch.isfinite(image).all()
        assert not found.any()


def centre(labels: Tensor, index: int) -> Tensor:
    return torch.nonzero(labels == index).float().mean(0)


def test_right_stays_right_front_stays_front_and_head_stays_head() -> None:
    middle = torch.full((3,), (SIDE - 1) / 2)
    for number in range(100):
        _, labels = varied(number)
        for axis, index in enumerate((3, 7, 200)):
            away = centre(labels, index) - middle
            assert float(away[axis]) > 3
            assert int(away.argmax()) == axis


def test_image_and_labels_move_together() -> None:
    for number in range(30):
        image, labels = varied(number)
        assert float(image[0][labels == 3].mean()) > float(image[0][labels == 0].mean()) + 0.3


def test_without_turns_the_labels_stay() -> None:
    still = CTAugmentation(-1.0, 1.0, affine=0.0)
    assert all(torch.equal(varied(number, still)[1], body_once[1]) for number in range(20))
    assert not torch.equal(varied(1)[1], body_once[1])


def test_turns_and_stretches_are_a_share_of_the_patches() -> None:
    some = CTAugmentation(-1.0, 1.0, affine=0.3)
    moved = [not torch.equal(varied(number, some)[1], body_once[1]) for number in range(150)]
    assert np.mean(moved) == pytest.approx(0.3, abs=0.12)


def test_the_patch_given_is_not_changed() -> None:
    image, labels = body_once[0].clone(), body_once[1].clone()
    for number in range(30):
        varied(number)
    assert torch.equal(body_once[0], image)
    assert torch.equal(body_once[1], labels)


def test_no_history_is_carried_from_patch_to_patch() -> None:  # E3
    augmentation = CTAugmentation(-1.0, 1.0, affine=1.0)
    image, labels = body_once
    for number in range(5):
        image, labels = augmentation(image, labels, np.random.default_rng(number))
        assert not hasattr(image, "applied_operations")
        assert vars(image) == vars(labels) == {}


@pytest.mark.parametrize("mirrored", [(0,), (2,), (0, 1), (0, 1, 2)])
def test_half_of_the_patches_are_mirrored_along_the_axes_asked_for_and_no_other(mirrored: tuple[int, ...]) -> None:
    image, labels = body_once
    augmentation = CTAugmentation(-1.0, 1.0, affine=0.0, mirrored=mirrored)
    flips: Counter[tuple[int, ...]] = Counter()
    for number in range(80):
        seen, found = augmentation(image, labels, np.random.default_rng((6, number)))
        (flip,) = [axes for axes in SUBSETS if torch.equal(found, labels.flip(axes))]
        likeness = {axes: np.corrcoef(seen[0].flatten(), image[0].flip(axes).flatten())[0, 1] for axes in SUBSETS}
        assert max(likeness, key=likeness.__getitem__) == flip  # the image went the same way
        flips[flip] += 1
    assert set(flips) == {axes for axes in SUBSETS if set(axes) <= set(mirrored)}
    for axis in mirrored:
        assert 25 <= sum(count for axes, count in flips.items() if axis in axes) <= 55
