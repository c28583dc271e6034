"""A patch is a function of seed and number alone, holds what was asked for, and shares no memory with its case."""

import numpy as np
import pytest
import torch
from fredholm.pipelines.augment import CTAugmentation
from fredholm.pipelines.sampling import PLACES, Patches, PreparedCase
from torch import Tensor
from torch.utils.data import DataLoader

AIR = -1.0


def case(shape=(20, 24, 22), classes=3, seed=0) -> PreparedCase:
    """Values say where a voxel lies; each class is one small block, so few voxels are labelled."""
    rng = np.random.default_rng(seed)
    image = torch.arange(np.prod(shape)).reshape(1, *shape) / np.prod(shape)
    labels = torch.zeros(shape, dtype=torch.uint8)
    for index in range(1, classes + 1):
        start = [int(rng.integers(max(1, n - 2))) for n in shape]
        labels[tuple(slice(s, s + 2) for s in start)] = index
    return PreparedCase.of(f"case {seed}", image.float(), labels)


def patches(cases=None, window=(8, 8, 8), *, foreground=0.5, length=50, seed=0, augmentation=None) -> Patches:
    return Patches(
        [case(seed=n) for n in range(3)] if cases is None else cases,
        window,
        air=AIR,
        foreground=foreground,
        length=length,
        seed=seed,
        augmentation=augmentation,
    )


def same(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> bool:
    return torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


def test_a_patch_has_the_window_and_the_types_of_its_case() -> None:
    image, labels = patches(window=(8, 6, 4))[0]
    assert (image.shape, image.dtype) == ((1, 8, 6, 4), torch.float32)
    assert (labels.shape, labels.dtype) == ((8, 6, 4), torch.uint8)
    assert len(patches()) == 50


@pytest.mark.parametrize("augmentation", [None, CTAugmentation(AIR, 1.0, affine=0.8)])
def test_a_patch_depends_on_seed_and_number_alone(augmentation) -> None:  # E6
    given = patches(augmentation=augmentation)
    forwards = [given[n] for n in range(12)]
    backwards = [patches(length=99, augmentation=augmentation)[n] for n in reversed(range(12))][::-1]
    torch.rand(7), np.random.default_rng().random()
    assert all(same(one, other) for one, other in zip(forwards, backwards, strict=True))
    other = patches(seed=1, augmentation=augmentation)
    assert not any(same(forwards[n], other[n]) for n in range(12))
    assert not any(same(forwards[n], forwards[m]) for n in range(12) for m in range(n))


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_gives_the_same_patches(workers: int) -> None:  # E6, E7
    given = patches(length=9, augmentation=CTAugmentation(AIR, 1.0))
    numbers = [0, 3, 4, 5, 8]
    alone = list(DataLoader(given, 2, sampler=numbers, num_workers=0))
    shared = list(DataLoader(given, 2, sampler=numbers, num_workers=workers))
    assert len(alone) == len(shared) == 3
    for one, other in zip(alone, shared, strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])


def test_with_foreground_each_patch_holds_a_labelled_voxel() -> None:
    given = patches(foreground=1.0, length=400)
    assert all((given[n][1] > 0).any() for n in range(400))


def test_without_foreground_patches_fall_anywhere() -> None:
    given = patches(foreground=0.0, length=400)
    assert 0 < sum(bool((given[n][1] > 0).any()) for n in range(400)) < 200


def test_foreground_is_a_share_of_the_patches() -> None:
    block = torch.zeros(40, 40, 40, dtype=torch.uint8)
    block[0, 0, 0] = 1
    given = patches([PreparedCase.of("a", block[None].float(), block)], (4, 4, 4), foreground=0.67, length=600)
    share = np.mean([bool((given[n][1] > 0).any()) for n in range(600)])
    assert share == pytest.approx(0.67, abs=0.06)


def test_classes_are_drawn_evenly_however_large_they_are() -> None:
    labels = torch.zeros(48, 48, 48, dtype=torch.uint8)
    labels[:20] = 1  # 46080 voxels
    labels[30, 10:12, 10:12] = 2  # 4
    labels[45, 40, 40] = 5  # 1, and a gap before it
    given = patches([PreparedCase.of("a", labels[None].float(), labels)], (4, 4, 4), foreground=1.0, length=600)
    held = [set(given[n][1].unique().tolist()) for n in range(600)]
    for index in (1, 2, 5):
        assert np.mean([index in values for values in held]) == pytest.approx(1 / 3, abs=0.06)


def test_a_labelled_voxel_may_lie_anywhere_in_its_patch() -> None:
    labels = torch.zeros(40, 40, 40, dtype=torch.uint8)
    labels[20, 20, 20] = 1
    given = patches([PreparedCase.of("a", labels[None].float(), labels)], (4, 4, 4), foreground=1.0, length=600)
    places = {tuple(torch.nonzero(given[n][1])[0].tolist()) for n in range(600)}
    assert {place[0] for place in places} == {0, 1, 2, 3}
    assert len(places) == 64


def test_every_case_is_drawn() -> None:
    given = patches(
        [PreparedCase.of(str(n), torch.full((1, 9, 9, 9), float(n)), torch.zeros(9, 9, 9).byte()) for n in range(4)],
        length=100,
    )
    assert {float(given[n][0].mean()) for n in range(100)} == {0.0, 1.0, 2.0, 3.0}


def test_patches_reach_every_voxel_and_stay_inside() -> None:
    given = patches([case(shape=(10, 9, 8))], (8, 8, 8), foreground=0.0, length=200)
    seen = torch.cat([given[n][0].flatten() for n in range(200)]).unique()
    assert len(seen) == 10 * 9 * 8
    assert float(seen.min()) == 0  # never air: the window fits


@pytest.mark.parametrize("foreground", [0.0, 1.0])
@pytest.mark.parametrize("shape", [(5, 24, 22), (1, 1, 1), (7, 8, 9), (3, 7, 40)])
def test_what_is_smaller_than_the_window_is_padded_with_air_and_background(shape, foreground: float) -> None:
    given = patches(
        [PreparedCase.of("a", torch.full((1, *shape), 0.5), torch.ones(shape, dtype=torch.uint8))],
        (8, 8, 8),
        foreground=foreground,
        length=30,
    )
    inside = np.prod([min(n, 8) for n in shape])
    for n in range(30):
        image, labels = given[n]
        assert set(image.unique().tolist()) <= {AIR, 0.5}
        assert torch.equal(image[0] == 0.5, labels == 1)
        assert int((labels == 1).sum()) == inside
        for axis, size in enumerate(shape):  # it lies in the middle
            filled = labels.movedim(axis, 0).flatten(1).any(1).nonzero()[:, 0]
            assert abs(float(filled.float().mean()) - 3.5) <= 0.5 or size > 8


@pytest.mark.parametrize("augmentation", [None, CTAugmentation(AIR, 1.0, affine=1.0)])
def test_cases_are_the_same_after_many_patches(augmentation) -> None:  # E3
    cases = [case(seed=n) for n in range(2)]
    before = [(one.image.clone(), one.labels.clone()) for one in cases]
    given = patches(cases, augmentation=augmentation, length=40)
    first = [part.clone() for part in given[7]]
    for n in range(40):
        image, labels = given[n]
        image.fill_(99)
        labels.fill_(99)
    for one, (image, labels) in zip(cases, before, strict=True):
        assert torch.equal(one.image, image)
        assert torch.equal(one.labels, labels)
        assert type(one.image) is Tensor
    assert same(given[7], (first[0], first[1]))


def test_a_patch_is_never_a_view_even_of_a_case_of_its_size() -> None:
    cases = [case(shape=(8, 8, 8))]
    image, labels = patches(cases)[0]
    assert image.untyped_storage().data_ptr() != cases[0].image.untyped_storage().data_ptr()
    assert labels.untyped_storage().data_ptr() != cases[0].labels.untyped_storage().data_ptr()
    assert image.is_contiguous()


def test_a_case_without_any_label_gives_patches_all_the_same() -> None:
    empty = PreparedCase.of("a", torch.zeros(1, 9, 9, 9), torch.zeros(9, 9, 9, dtype=torch.uint8))
    assert empty.places == {}
    assert not patches([empty], foreground=1.0)[3][1].any()


def test_the_places_of_a_class_are_its_voxels() -> None:
    given = case(classes=4)
    assert sorted(given.places) == sorted(set(given.labels.unique().tolist()) - {0})
    for index, places in given.places.items():
        assert places.tolist() == torch.nonzero(given.labels.flatten() == index)[:, 0].tolist()


def test_of_a_large_class_some_places_are_kept_and_they_are_spread() -> None:
    labels = torch.zeros(60, 60, 60, dtype=torch.uint8)
    labels[5:55] = 1
    places = PreparedCase.of("a", labels[None].float(), labels).places[1]
    assert PLACES / 2 <= len(places) <= 2 * PLACES
    assert (labels.flatten()[places] == 1).all()
    rows = places // 3600
    assert (int(rows.min()), int(rows.max())) == (5, 54)


def test_more_than_255_classes_are_kept_apart() -> None:
    labels = torch.zeros(12, 12, 12, dtype=torch.int16)
    labels[0, 0, 0], labels[11, 11, 11] = 300, 44
    given = patches([PreparedCase.of("a", labels[None].float(), labels)], foreground=1.0)
    assert sorted(given.cases[0].places) == [44, 300]
    assert {int(given[n][1].max()) for n in range(20)} == {44, 300}


def test_voxels_that_nobody_labelled_are_no_places() -> None:
    labels = torch.zeros(8, 8, 8, dtype=torch.uint8)
    labels[0, 0, 0], labels[4:] = 1, 3
    assert sorted(PreparedCase.of("a", torch.zeros(1, 8, 8, 8), labels, classes=3).places) == [1]
