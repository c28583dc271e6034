"""Splits follow from names alone, part the cases exactly, and never a patient."""

import json
import random
from pathlib import Path

import pytest
import yaml
from fredholm.pipelines.splits import Fold, Split, patient, read_split
from hypothesis import given
from hypothesis import strategies as st

NAMES = [f"case_{number:02}" for number in range(11)]
VISITS = [f"patient{number:03}_frame{frame:02}" for number in range(7) for frame in (1, 12)]


@given(st.sets(st.text("abc0129-_", min_size=1), min_size=2, max_size=30), st.integers(2, 5), st.randoms())
def test_folds_hold_out_every_case_exactly_once_in_whatever_order_names_come(
    names: set[str], of: int, rng: random.Random
) -> None:
    if len({patient(name) for name in names}) < of:
        return
    splits = []
    for number in range(1, of + 1):
        shuffled = rng.sample(sorted(names), len(names))
        splits.append(Split.of_fold(shuffled, Fold(number, of)))
        assert splits[-1] == Split.of_fold(sorted(names), Fold(number, of))
        assert {*splits[-1].training, *splits[-1].validation} == names
    held_out = [name for split in splits for name in split.validation]
    assert sorted(held_out) == sorted(names)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_patients_examinations_stay_together(number: int) -> None:
    split = Split.of_fold(VISITS, Fold(number, 3))
    sides = [{name.split("_")[0] for name in side} for side in (split.training, split.validation)]
    assert not sides[0] & sides[1]
    assert len(sides[1]) in (2, 3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sub-01_ses-2_ct", "sub-01"),
        ("sub-a7", "sub-a7"),
        ("patient007_frame01", "patient007"),
        ("12_visit3_ct", "12"),
        ("P3-baseline", "P3"),
        ("P3_follow-up", "P3"),
        ("BraTS-GLI-00005-100", "BraTS-GLI-00005"),
        ("BraTS-GLI-00005", "BraTS-GLI-00005"),
        ("case_00012", "case_00012"),
        ("sts_019", "sts_019"),
        ("s0011", "s0011"),
        ("PanTS_00000001", "PanTS_00000001"),
        ("hospital_study_3", "hospital_study_3"),  # "hospital" is no patient
        ("12_3", "12_3"),  # may be a patient's third scan or not
    ],
)
def test_names_tell_the_patient_only_where_they_say_so(name: str, expected: str) -> None:
    assert patient(name) == expected


def test_every_fifth_patient_is_held_out_where_there_are_five() -> None:
    assert Split.usual(NAMES).validation == ("case_00", "case_05", "case_10")
    assert Split.usual(VISITS[:8]) == Split(tuple(VISITS[:8]), ())
    assert Split.usual(VISITS).validation == (*VISITS[:2], *VISITS[10:12])


def test_a_split_keeps_the_order_that_it_was_given() -> None:
    assert Split.holding_out(["c", "a", "b"], ["a"]) == Split(("c", "b"), ("a",))


@pytest.mark.parametrize(
    ("training", "validation", "words"),
    [
        (("a",), ("a",), "cases stand twice in the split: a"),
        (("a", "b", "a"), (), "cases stand twice in the split: a"),
        ((), ("a",), "every case is held out"),
        (VISITS[:1], VISITS[1:2], "whose patients are trained on too, by their names: patient000_frame12"),
    ],
)
def test_a_split_that_would_deceive_is_refused(training, validation, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Split(tuple(training), tuple(validation))


def test_an_unknown_case_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no case 'z'; the cases are a, b"):
        Split.holding_out(["b", "a"], ["z"])


def test_more_folds_than_patients_are_refused() -> None:
    with pytest.raises(ValueError, match="7 patients cannot be dealt out to 8 folds"):
        Split.of_fold(VISITS, Fold(1, 8))


@pytest.mark.parametrize("text", ["0/5", "6/5", "1/1", "5", "1/0", "-1/5", "a/b", "1/5/5", ""])
def test_what_is_no_fold_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a fold is k/n"):
        Fold.parse(text)


def test_folds_are_counted_from_1() -> None:
    assert (Fold.parse("1/5"), Fold.parse("5/5")) == (Fold(1, 5), Fold(5, 5))


@pytest.mark.parametrize("words", [json.dumps, yaml.safe_dump])
@pytest.mark.parametrize("sides", [("training", "validation"), ("train", "val")])
def test_a_stated_split_is_read(tmp_path: Path, words, sides: tuple[str, str]) -> None:
    file = tmp_path / "split"
    file.write_text(words(dict(zip(sides, (["a", "b"], ["c"]), strict=True))))
    assert read_split(file, "abcd") == Split(("a", "b"), ("c",))


def test_the_plan_of_a_run_states_its_split(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump({"names": {}, "data": {"folder": "x", "training": ["a"], "validation": ["c"]}}))
    assert read_split(file, "ac") == Split(("a",), ("c",))


def test_nnunets_splits_are_read_fold_by_fold(tmp_path: Path) -> None:
    file = tmp_path / "splits_final.json"
    file.write_text(json.dumps([{"train": ["b", "c"], "val": ["a"]}, {"train": ["a", "c"], "val": ["b"]}]))
    assert read_split(file, "abc", Fold(2, 2)) == Split(("a", "c"), ("b",))
    with pytest.raises(ValueError, match=r"there are 2 splits: choose one with --fold 1/2"):
        read_split(file, "abc")
    with pytest.raises(ValueError, match="there are 2 splits, not 5"):
        read_split(file, "abc", Fold(1, 5))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "neither JSON nor YAML"),
        ("[]", "there are 0 splits"),
        ("3", "a split is"),
        ('{"training": ["a"]}', "a split is"),
        ('{"training": "a", "validation": []}', "a split is"),
        ('{"training": [1], "validation": []}', "a split is"),
        ('{"training": ["a"], "validation": ["z"]}', "names that are no case: z; cases are a, b"),
        ('{"training": ["a"], "validation": ["a"]}', "cases stand twice"),
    ],
)
def test_a_file_that_is_no_split_is_refused_on_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "split.json").write_text(text)
    with pytest.raises(ValueError, match=rf"split\.json.*{words}") as caught:
        read_split(tmp_path / "split.json", "ab")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file: .*nowhere"):
        read_split(tmp_path / "nowhere", "ab")
