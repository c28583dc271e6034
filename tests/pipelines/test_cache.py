"""A kept case is the very case that would be prepared now; whatever it was made of has not changed."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
import torch
from fredholm.pipelines import cache
from fredholm.pipelines.augment import CTAugmentation
from fredholm.pipelines.cache import Anew, Cache
from fredholm.pipelines.dataset import DataSet, open_dataset
from fredholm.pipelines.nifti import write_labels, write_volume
from fredholm.pipelines.plan import Plan
from fredholm.pipelines.planning import Prepared, Wishes, plan_dataset, prepare_cases
from fredholm.pipelines.sampling import Patches, PreparedCase
from fredholm.pipelines.splits import Split
from fredholm.pipelines.survey import Look
from helpers.segment import body, data_set

SPACING = (1.5, 1.5, 1.5)


class Counting:
    """Keeps as a cache does, and notes the cases that had to be looked at or made."""

    def __init__(self, folder: Path, dataset: DataSet) -> None:
        self.keep, self.seen, self.made = Cache(folder, dataset), [], []

    def look(self, case, make) -> Look:
        return self.keep.look(case, lambda: (self.seen.append(case.name), make())[1])

    def case(self, case, preparation, make) -> PreparedCase:
        return self.keep.case(case, preparation, lambda: (self.made.append(case.name), make())[1])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return data_set(tmp_path / "data", 2)


@pytest.fixture
def plan(data: Path) -> Plan:
    return plan_dataset(open_dataset(data), Wishes(spacing_mm=SPACING)).plan


def prepared(data: Path, plan: Plan, folder: Path) -> tuple[Prepared, list[str]]:
    """The cases, and the names of those that were made."""
    dataset = open_dataset(data)
    keep = Counting(folder, dataset)
    return prepare_cases(dataset, plan, keep=keep), keep.made


def assert_same(one: PreparedCase, other: PreparedCase) -> None:
    assert one.name == other.name
    assert one.places.keys() == other.places.keys()
    pairs = [(one.image, other.image), (one.labels, other.labels)]
    for first, second in [*pairs, *((one.places[index], other.places[index]) for index in one.places)]:
        assert first.dtype == second.dtype
        assert torch.equal(first, second)


def touch(path: Path) -> None:
    """A later time of change, whatever the clock's ticks."""
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))


def test_a_case_is_made_once_and_then_as_it_was(tmp_path: Path, data: Path, plan: Plan) -> None:
    expected = prepare_cases(open_dataset(data), plan)
    for made in (["case_0", "case_1"], []):
        found, names = prepared(data, plan, tmp_path / "cache")
        assert names == made
        for one, other in zip(found.training, expected.training, strict=True):
            assert_same(one, other)


def test_what_is_kept_is_not_read(tmp_path: Path, data: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(data, plan, tmp_path / "cache")
    monkeypatch.setattr("fredholm.pipelines.planning.read_case", None)
    told: list[str] = []
    dataset = open_dataset(data)
    prepare_cases(dataset, plan, told.append, Cache(tmp_path / "cache", dataset))
    assert told == ["case_0", "case_1"]


def test_another_plan_with_the_same_preparation_takes_what_is_there(tmp_path: Path, data: Path, plan: Plan) -> None:
    prepared(data, plan, tmp_path / "cache")
    dataset = open_dataset(data)
    keep = Counting(tmp_path / "cache", dataset)
    wishes = Wishes(spacing_mm=SPACING, window_hu=plan.preparation.window_hu, split=Split(("case_1",), ("case_0",)))
    other = plan_dataset(dataset, wishes, keep=keep).plan
    assert other.preparation == plan.preparation
    prepare_cases(dataset, other, keep=keep)
    assert keep.made == []


def test_a_look_is_taken_once_and_then_as_it_was(tmp_path: Path, data: Path) -> None:
    expected = plan_dataset(open_dataset(data), Wishes())
    for seen in (["case_0", "case_1"], [], ["case_1"]):
        if seen == ["case_1"]:
            touch(data / "labels/case_1.nii.gz")
        keep = Counting(tmp_path / "cache", dataset := open_dataset(data))
        assert plan_dataset(dataset, Wishes(), keep=keep) == expected
        assert keep.seen == seen


@pytest.mark.parametrize("change", ["spacing_mm", "window_hu", "range", "classes"])
def test_another_preparation_has_entries_of_its_own(tmp_path: Path, data: Path, plan: Plan, change: str) -> None:  # E4
    prepared(data, plan, tmp_path / "cache")
    if change == "classes":
        (data / "names.json").write_text('{"spleen": [1], "liver": [2]}')
        other = plan
    else:
        value = {"spacing_mm": (2.0, 2.0, 2.0), "window_hu": (-100.0, 200.0), "range": (0.0, 1.0)}[change]
        other = replace(plan, preparation=replace(plan.preparation, **{change: value}))
    found, made = prepared(data, other, tmp_path / "cache")
    assert made == ["case_0", "case_1"]
    for one, expected in zip(found.training, prepare_cases(open_dataset(data), other).training, strict=True):
        assert_same(one, expected)
    assert len(list((tmp_path / "cache").iterdir())) == 4
    assert prepared(data, other, tmp_path / "cache")[1] == []


@pytest.mark.parametrize("kind", ["images", "labels"])
def test_a_file_that_changed_is_read_again_and_its_entry_replaced(
    tmp_path: Path, data: Path, plan: Plan, kind: str
) -> None:  # E4
    prepared(data, plan, tmp_path / "cache")
    touch(data / kind / "case_1.nii.gz")
    assert prepared(data, plan, tmp_path / "cache")[1] == ["case_1"]
    assert prepared(data, plan, tmp_path / "cache")[1] == []
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_other_code_makes_every_case_anew(
    tmp_path: Path, data: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(data, plan, tmp_path / "cache")
    monkeypatch.setattr(cache, "_code", lambda: "another version")
    assert prepared(data, plan, tmp_path / "cache")[1] == ["case_0", "case_1"]
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.parametrize("harm", ["empty", "cut", "one bit", "no tensors"])
def test_a_damaged_entry_is_made_anew(tmp_path: Path, data: Path, plan: Plan, harm: str) -> None:
    expected, _ = prepared(data, plan, tmp_path / "cache")
    expected = [replace(case, image=case.image.clone(), labels=case.labels.clone()) for case in expected.training]
    file = next((tmp_path / "cache").glob("case_0-*"))
    content = bytearray(file.read_bytes())
    if harm == "one bit":
        content[-1] ^= 1
    file.unlink()  # as a new file, for the old one is mapped into memory
    file.write_bytes({"empty": b"", "cut": content[:-9], "one bit": content, "no tensors": b"{}"}[harm])
    found, made = prepared(data, plan, tmp_path / "cache")
    assert made == ["case_0"]
    for one, other in zip(found.training, expected, strict=True):
        assert_same(one, other)


def test_patches_and_their_augmentation_change_neither_case_nor_file(
    tmp_path: Path, data: Path, plan: Plan
) -> None:  # E3
    found, _ = prepared(data, plan, tmp_path / "cache")
    files = {file: file.read_bytes() for file in (tmp_path / "cache").iterdir()}
    before = [replace(case, image=case.image.clone(), labels=case.labels.clone()) for case in found.training]
    options = {"air": -1.0, "foreground": 0.5, "length": 20, "seed": 0}
    patches = Patches(found.training, (8, 8, 8), **options, augmentation=CTAugmentation(-1, 1, affine=1.0))
    first = [patches[number] for number in range(20)]
    for (image, labels), (again, labels_again) in zip(first, [patches[number] for number in range(20)], strict=True):
        assert torch.equal(image, again)
        assert torch.equal(labels, labels_again)
    for one, other in zip(found.training, before, strict=True):
        assert_same(one, other)
    assert {file: file.read_bytes() for file in (tmp_path / "cache").iterdir()} == files


def test_what_is_done_to_a_kept_tensor_does_not_reach_the_disk(tmp_path: Path, data: Path, plan: Plan) -> None:
    found, _ = prepared(data, plan, tmp_path / "cache")
    expected = found.training[0].image.clone()
    found.training[0].image.fill_(7.0)
    again, made = prepared(data, plan, tmp_path / "cache")
    assert made == []
    assert torch.equal(again.training[0].image, expected)


def test_two_that_make_the_same_cases_at_once_agree(tmp_path: Path, data: Path, plan: Plan) -> None:
    both, dataset = Barrier(2, timeout=60), open_dataset(data)

    def prepare(keep: Cache) -> Prepared:
        class AtOnce(Anew):
            def case(self, case, preparation, make) -> PreparedCase:
                # neither finds what the other one made
                return keep.case(case, preparation, lambda: (both.wait(), make())[1])

        return prepare_cases(dataset, plan, keep=AtOnce())

    with ThreadPoolExecutor() as pool:
        one, other = pool.map(prepare, [Cache(tmp_path / "cache", dataset) for _ in range(2)])
    again, made = prepared(data, plan, tmp_path / "cache")
    assert made == []
    for cases in zip(one.training, other.training, again.training, strict=True):
        assert_same(cases[0], cases[1])
        assert_same(cases[0], cases[2])
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_file_that_changes_while_it_is_prepared_is_not_kept_as_what_it_became(
    tmp_path: Path, data: Path, plan: Plan
) -> None:
    dataset = open_dataset(data)
    keep = Cache(tmp_path / "cache", dataset)
    prepare_cases(dataset, plan, lambda name: touch(data / "images" / f"{name}.nii.gz"), keep)
    assert prepared(data, plan, tmp_path / "cache")[1] == ["case_0", "case_1"]


def test_cases_of_the_same_name_in_two_data_sets_do_not_take_each_others_place(
    tmp_path: Path, data: Path, plan: Plan
) -> None:
    other = data_set(tmp_path / "other", 2)
    for folder in (data, other):
        assert prepared(folder, plan, tmp_path / "cache")[1] == ["case_0", "case_1"]
    for folder in (data, other):
        assert prepared(folder, plan, tmp_path / "cache")[1] == []


def test_a_folder_is_made_and_a_file_in_its_place_is_refused(tmp_path: Path, data: Path, plan: Plan) -> None:
    prepared(data, plan, tmp_path / "deep/cache")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        Cache(tmp_path / "file", open_dataset(data))


def test_masks_of_each_class_are_stamped_too(tmp_path: Path) -> None:
    folder, (volume, labels) = tmp_path / "data/case", body(0)
    (folder / "segmentations").mkdir(parents=True)
    write_volume(folder / "ct.nii.gz", volume)
    for index, name in enumerate(("spleen", "liver"), 1):
        write_labels(folder / f"segmentations/{name}.nii.gz", labels == index, like=volume)
    plan = plan_dataset(open_dataset(tmp_path / "data"), Wishes()).plan
    assert prepared(tmp_path / "data", plan, tmp_path / "cache")[1] == ["case"]
    touch(folder / "segmentations/liver.nii.gz")
    assert prepared(tmp_path / "data", plan, tmp_path / "cache")[1] == ["case"]
