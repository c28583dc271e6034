"""What the data decides, what the user decides, and which cases are kept apart."""

import math
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fredholm.pipelines import planning, survey
from fredholm.pipelines.dataset import DataSet, open_dataset, read_case
from fredholm.pipelines.nifti import read_labels, read_volume, write_labels, write_volume
from fredholm.pipelines.plan import Network, Recipe
from fredholm.pipelines.planning import Prepared, Wishes, coarser, plan_dataset, prepare_cases
from fredholm.pipelines.prepare import prepare_image, prepare_labels
from fredholm.pipelines.splits import Split
from fredholm.pipelines.volume import Volume
from helpers.orders import ORDERS, in_order

SHAPE = (20, 24, 16)
WISHES = Wishes(network=Network(feature_size=12), recipe=Recipe(window=(64, 64, 64), steps=7, seed=3))


def put(root: Path, name: str, shape=SHAPE, spacing=(1.0, 1.0, 2.0), classes=2, order="RAS") -> None:
    rng = np.random.default_rng(len(name) + sum(map(ord, name)))
    labels = np.zeros(shape, np.uint8)
    labels[: shape[0] // 2, 2:9, 3:9] = 1
    labels[shape[0] // 2 :, 5:12, 3:9] = classes
    array = (100 * labels - 100 * (labels == 0) + rng.integers(-20, 20, shape)).astype(np.float32)
    affine = np.diag((*spacing, 1.0))
    if order == "LPS":
        affine = affine @ np.diag((-1.0, -1.0, 1.0, 1.0))
    for kind in ("images", "labels"):
        (root / kind).mkdir(parents=True, exist_ok=True)
    write_volume(root / f"images/{name}.nii.gz", Volume(array, affine))
    write_labels(root / f"labels/{name}.nii.gz", labels, like=Volume(array, affine))


def data(root: Path, count: int, **more) -> DataSet:
    for index in range(count):
        put(root, f"case_{index}", **more)
    return open_dataset(root)


def hold_out(dataset: DataSet, *names: str) -> Split:
    return Split.holding_out([case.name for case in dataset.labelled], names)


def wish(**changes) -> Wishes:
    return Wishes(**{**vars(WISHES), **changes})


def prepared(dataset: DataSet, wishes: Wishes) -> Prepared:
    return prepare_cases(dataset, plan_dataset(dataset, wishes).plan)


@pytest.mark.parametrize(("count", "held_out"), [(1, []), (4, []), (5, ["case_0"]), (7, ["case_0", "case_5"])])
def test_every_fifth_of_five_or_more_cases_is_held_out(tmp_path: Path, count: int, held_out: list[str]) -> None:
    found = prepared(data(tmp_path, count), WISHES)
    assert [case.name for case in found.validation] == held_out
    every = [f"case_{index}" for index in range(count)]
    assert [case.name for case in found.training] == [name for name in every if name not in held_out]
    assert found.plan.data == {
        "folder": tmp_path.name,
        "training": [case.name for case in found.training],
        "validation": held_out,
    }


def test_named_cases_are_held_out_and_none_if_none_are_named(tmp_path: Path) -> None:
    dataset = data(tmp_path, 6)
    found = prepared(dataset, wish(split=hold_out(dataset, "case_3", "case_1")))
    assert [case.name for case in found.validation] == ["case_3", "case_1"]
    assert [case.name for case in found.training] == ["case_0", "case_2", "case_4", "case_5"]
    assert prepared(dataset, wish(split=hold_out(dataset))).validation == []


def test_cases_on_neither_side_of_a_split_are_left_out(tmp_path: Path) -> None:
    told = []
    split = Split(("case_2", "case_0"), ("case_3",))
    dataset = data(tmp_path, 6)
    found = prepare_cases(dataset, plan_dataset(dataset, wish(split=split)).plan, told.append)
    assert [case.name for case in found.training] == ["case_2", "case_0"]
    assert sorted(told) == ["case_0", "case_2", "case_3"]


def test_what_the_data_set_itself_holds_out_is_held_out(tmp_path: Path) -> None:
    dataset = replace(data(tmp_path, 5), validation=("case_3",))
    assert [case.name for case in prepared(dataset, WISHES).validation] == ["case_3"]


def test_a_data_set_without_labels_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "a")
    (tmp_path / "labels/a.nii.gz").unlink()
    with pytest.raises(ValueError, match=r"has images \(1\) but no label maps"):
        prepared(open_dataset(tmp_path), WISHES)


def test_every_case_is_told_when_it_was_looked_at_and_when_it_is_prepared(tmp_path: Path) -> None:
    dataset, told, expected = data(tmp_path, 5), [], [f"case_{index}" for index in range(5)]
    plan = plan_dataset(dataset, WISHES, told.append).plan
    assert sorted(told) == expected
    told.clear()
    prepare_cases(dataset, plan, told.append)
    assert sorted(told) == expected


def test_one_scan_at_a_time_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive, most = set(), []

    def counted(*given):
        volume, labels = read_case(*given)
        alive.add(id(volume))
        weakref.finalize(volume, alive.discard, id(volume))
        most.append(len(alive))
        return volume, labels

    monkeypatch.setattr(planning, "read_case", counted)
    prepare_cases(dataset := data(tmp_path, 3), plan_dataset(dataset, WISHES).plan)
    assert most == [1] * 6


def test_the_spacing_is_the_median_of_the_training_cases(tmp_path: Path) -> None:
    for name, spacing in {"a": (1.0, 1.0, 2.0), "b": (0.8, 0.9, 5.0), "c": (1.2, 1.1, 3.0), "z": (9, 9, 9)}.items():
        put(tmp_path, name, spacing=spacing)
    dataset = open_dataset(tmp_path)
    found = prepared(dataset, wish(split=hold_out(dataset, "z")))
    assert found.plan.preparation.spacing_mm == (1.0, 1.0, 3.0)


def test_the_window_of_hu_is_that_of_the_labelled_voxels_of_the_training_cases(tmp_path: Path) -> None:
    low, high = prepared(data(tmp_path, 3), WISHES).plan.preparation.window_hu
    assert 80 <= low <= 85
    assert 214 <= high <= 220


def test_what_is_wished_for_is_taken(tmp_path: Path) -> None:
    found = prepared(data(tmp_path, 1), wish(spacing_mm=(2.0, 2.0, 4.0), window_hu=(-50.0, 60.0))).plan
    assert found.preparation.spacing_mm == (2.0, 2.0, 4.0)
    assert found.preparation.window_hu == (-50.0, 60.0)
    assert found.network == WISHES.network
    assert found.recipe is not None
    assert (found.recipe.steps, found.recipe.seed) == (7, 3)


@pytest.mark.parametrize(
    ("shape", "largest", "expected"),
    [
        (SHAPE, (96, 96, 96), (32, 32, 32)),
        ((33, 32, 31), (96, 96, 96), (64, 32, 32)),
        ((70, 60, 33), (64, 96, 32), (64, 64, 32)),
        ((40, 40, 9), (32, 32, 32), (32, 32, 32)),
    ],
)
def test_the_window_is_never_larger_than_wished_or_needed(tmp_path: Path, shape, largest, expected) -> None:
    dataset = data(tmp_path, 1, shape=shape, spacing=(1.0, 1.0, 1.0))
    plan = prepared(dataset, wish(recipe=Recipe(window=largest))).plan
    assert plan.recipe is not None
    assert plan.window == plan.recipe.window == expected


def test_the_window_counts_the_voxels_after_resampling_and_in_the_bodys_axes(tmp_path: Path) -> None:
    put(tmp_path, "a", shape=(20, 70, 16), spacing=(1.0, 1.0, 1.0), order="LPS")
    dataset = open_dataset(tmp_path)
    assert prepared(dataset, WISHES).plan.window == (32, 64, 32)
    assert prepared(dataset, wish(spacing_mm=(1.0, 3.0, 1.0))).plan.window == (32, 32, 32)


def test_cases_are_prepared_as_planned(tmp_path: Path) -> None:
    found = prepared(data(tmp_path, 2, order="LPS"), wish(spacing_mm=(1.5, 1.5, 1.5)))
    for case in found.training:
        volume = read_volume(tmp_path / f"images/{case.name}.nii.gz")
        labels = read_labels(tmp_path / f"labels/{case.name}.nii.gz").array
        image = prepare_image(volume, found.plan.preparation)
        assert torch.equal(case.image, image)
        assert torch.equal(case.labels, prepare_labels(labels, volume, image.shape[1:]))


def test_plan_and_cases_are_the_same_in_all_48_axis_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "SAMPLED", 100)
    shape, spacing = (20, 35, 16), (0.8, 1.3, 2.9)
    put(tmp_path / "0", "case", shape, spacing)
    image, labels = read_volume(tmp_path / "0/images/case.nii.gz"), read_labels(tmp_path / "0/labels/case.nii.gz")
    wishes = wish(spacing_mm=(1.0, 1.7, 2.2))
    expected = prepared(open_dataset(tmp_path / "0"), wishes)
    assert expected.plan.window == (32, 32, 32)
    for number, order in enumerate(ORDERS, start=1):
        for kind, volume, write in (("images", image, write_volume), ("labels", labels, write_stored_labels)):
            (tmp_path / f"{number}/{kind}").mkdir(parents=True)
            write(tmp_path / f"{number}/{kind}/case.nii.gz", in_order(volume, order))
        found = prepared(open_dataset(tmp_path / str(number)), wishes)
        assert replace(found.plan, data=expected.plan.data) == expected.plan
        assert torch.equal(found.training[0].image, expected.training[0].image)
        assert torch.equal(found.training[0].labels, expected.training[0].labels)


def write_stored_labels(path: Path, labels: Volume) -> None:
    write_labels(path, labels.array, like=labels)


def test_names_come_from_the_data_set(tmp_path: Path) -> None:
    put(tmp_path, "a", classes=9)
    assert prepared(open_dataset(tmp_path), WISHES).plan.names == {0: "background", 1: "class 1", 2: "class 9"}


def test_a_plan_prepares_the_same_cases_again_whatever_was_added(tmp_path: Path) -> None:
    first = prepared(data(tmp_path, 5), WISHES)
    put(tmp_path, "a_new_one", spacing=(3, 3, 3))
    again = prepare_cases(open_dataset(tmp_path), first.plan)
    assert again.plan is first.plan
    for one, other in zip([*first.training, *first.validation], [*again.training, *again.validation], strict=True):
        assert one.name == other.name
        assert torch.equal(one.image, other.image)
        assert torch.equal(one.labels, other.labels)


def test_a_case_of_the_plan_that_is_gone_is_named(tmp_path: Path) -> None:
    first = prepared(data(tmp_path, 3), WISHES)
    for kind in ("images", "labels"):
        (tmp_path / kind / "case_1.nii.gz").unlink()
    with pytest.raises(ValueError, match="the run was planned with case 'case_1', which is not there any more"):
        prepare_cases(open_dataset(tmp_path), first.plan)


def test_classes_that_changed_since_the_plan_are_refused(tmp_path: Path) -> None:
    data(tmp_path, 1)
    (tmp_path / "names.json").write_text('{"1": "spleen", "2": "liver"}')
    first = prepared(open_dataset(tmp_path), WISHES)
    (tmp_path / "names.json").write_text('{"2": "spleen", "1": "liver"}')
    with pytest.raises(ValueError, match="liver"):
        prepare_cases(open_dataset(tmp_path), first.plan)


def test_a_plan_without_cases_cannot_be_gone_on_with(tmp_path: Path) -> None:
    dataset = data(tmp_path, 1)
    plan = replace(prepared(dataset, WISHES).plan, data={}, recipe=None)
    with pytest.raises(ValueError, match="plan"):
        prepare_cases(dataset, plan)


def test_what_nobody_labelled_neither_opens_the_window_nor_draws_patches(tmp_path: Path) -> None:
    data(tmp_path, 2)
    (tmp_path / "names.json").write_text('{"organ": 1, "ignore": 2}')
    found = prepared(open_dataset(tmp_path), WISHES)
    assert found.plan.names == {0: "background", 1: "organ"}
    assert found.plan.preparation.window_hu[1] < 150  # the voxels of value 2 have 180 to 220
    assert [sorted(case.places) for case in found.training] == [[1], [1]]
    assert found.training[0].labels.max() == 2


def test_each_reason_is_a_fields(tmp_path: Path) -> None:
    dataset = data(tmp_path, 6, spacing=(0.8, 1.1, 2.0))
    planned = plan_dataset(dataset, WISHES)
    for name, words in planned.reasons.items():
        owner: object = planned.plan
        for part in name.split("."):
            owner = getattr(owner, part)  # or the reason would stand nowhere
        assert words
    assert "class 2: " in planned.reasons["names"]
    assert "0.8 x 1.1 x 2 mm" in planned.reasons["preparation.spacing_mm"]


def test_the_memory_of_cases_is_that_of_their_arrays(tmp_path: Path) -> None:
    dataset = data(tmp_path, 5, shape=(60, 70, 50))
    wishes = wish(spacing_mm=(1.5, 1.5, 1.5))
    planned = plan_dataset(dataset, wishes)
    found = prepare_cases(dataset, planned.plan)
    cases = [*found.training, *found.validation]
    kept = sum(case.image.nbytes + case.labels.nbytes for case in cases)
    places = sum(place.nbytes for case in cases for place in case.places.values())
    assert kept + places <= planned.prepared_bytes <= 1.5 * kept + 8 * 20_000 * 3 * len(cases)
    assert planned.read_bytes == 60 * 70 * 50 * (4 + 1)
    assert planned.held_out_grids == [tuple(case.image.shape[1:]) for case in found.validation]


@pytest.mark.parametrize(
    ("spacing", "times", "expected"),
    [
        ((1.5, 1.5, 1.5), 8, (3.0, 3.0, 3.0)),
        ((1.0, 1.0, 5.0), 8, (2.828, 2.828, 5.0)),
        ((0.5, 2.0, 8.0), 4, (2.0, 2.0, 8.0)),
        ((8.0, 0.5, 2.0), 2, (8.0, 1.0, 2.0)),
        ((0.8, 1.0, 1.25), 1, (0.8, 1.0, 1.25)),
        ((1.0, 1.0, 2.0), 8, (2.52, 2.52, 2.52)),
    ],
)
def test_coarser_voxels_grow_along_their_finest_sides_first(spacing, times: float, expected) -> None:
    assert coarser(spacing, times) == expected
    assert math.prod(coarser(spacing, times)) == pytest.approx(times * math.prod(spacing), rel=1e-3)


def test_a_coarser_plan_has_larger_voxels_than_the_data_and_else_the_same_choices(tmp_path: Path) -> None:
    dataset = data(tmp_path, 2)
    usual, fast = (prepared(dataset, wish(coarsening=times)).plan for times in (1.0, 8.0))
    assert usual.preparation.spacing_mm == (1.0, 1.0, 2.0)
    assert fast.preparation == replace(usual.preparation, spacing_mm=(2.52, 2.52, 2.52))
