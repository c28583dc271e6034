"""Names and values are read either way round, and what cannot be meant is refused on one line."""

import json
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.classes import Classes, few, read_json
from fredholm.pipelines.nifti import write_labels
from fredholm.pipelines.volume import Volume

FILE = Path("names.json")


def read(labels: object) -> Classes:
    return Classes.read(labels, FILE)


@pytest.mark.parametrize(
    "labels",
    [
        {"0": "background", "1": "spleen", "2": "liver"},
        {"1": "spleen", "2": "liver"},
        {"2": "liver", "1": "spleen"},
        {"spleen": 1, "liver": 2},
        {"background": 0, "liver": 2, "spleen": 1},
        {"spleen": "1", "liver": "2", "background": "0"},
        {"spleen": [1], "liver": [2]},
    ],
)
def test_names_and_values_may_stand_either_way_round(labels: dict) -> None:
    found = read(labels)
    assert found.names == {0: "background", 1: "spleen", 2: "liver"}
    assert found.merge is None


def test_values_with_gaps_become_indices_without() -> None:
    found = read({"10": "spleen", "4": "liver", "255": "aorta"})
    assert found.names == {0: "background", 1: "liver", 2: "spleen", 3: "aorta"}
    assert found.merge == {0: 0, 4: 1, 10: 2, 255: 3}
    np.testing.assert_array_equal(found.indices(np.array([255, 4, 0, 10])), [3, 1, 0, 2])


def test_a_list_of_values_is_one_class_and_the_others_are_background() -> None:
    found = read({"lungs": [10, 11, 12], "heart": 51})
    assert found.names == {0: "background", 1: "lungs", 2: "heart"}
    np.testing.assert_array_equal(found.indices(np.array([[12, 51], [7, 10]])), [[1, 2], [0, 1]])


def test_classes_of_lists_keep_the_order_of_the_file() -> None:
    assert read({"late": [90, 91], "early": 3}).names == {0: "background", 1: "late", 2: "early"}
    assert read({"late": [90], "rest": [0, 5], "early": 3}).names == {0: "rest", 1: "late", 2: "early"}


def test_a_value_without_a_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"label values 3, 9 have no name; known are 0, 1, 2"):
        read({"1": "a", "2": "b"}).indices(np.array([0, 9, 1, 3]))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.int64])
def test_indices_are_bytes_whatever_the_file_held(dtype) -> None:
    found = read({"1": "a", "100": "b"}).indices(np.array([[0, 100], [1, 1]], dtype))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, [[0, 2], [1, 1]])


def test_negative_and_very_large_values_are_looked_up_too() -> None:
    classes = Classes.of([("low", [-1]), ("high", [70_000])], "here", chosen=False)
    np.testing.assert_array_equal(classes.indices(np.array([70_000, -1, 0])), [2, 1, 0])


def test_more_classes_than_a_byte_holds_are_kept_in_two() -> None:
    many = read({str(value): f"class {value}" for value in range(1, 301)})
    found = many.indices(np.array([300, 0, 256]))
    assert found.dtype == np.int16
    assert found.tolist() == [300, 0, 256]
    assert read({str(value): f"class {value}" for value in range(1, 256)}).indices(np.array([255])).dtype == np.uint8


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, "no names of classes"),
        (None, "no names of classes"),
        ([1, 2], "no names of classes"),
        ({"spleen": "liver"}, "is no name with a whole number"),
        ({"spleen": 1.5}, "is no name with a whole number"),
        ({"spleen": True}, "is no name with a whole number"),
        ({"spleen": [1, "x"]}, "is no name with a whole number"),
        ({"spleen": []}, "is no name with a whole number"),
        ({"spleen": 1, "liver": 1}, "value 1 is in 'spleen' and in 'liver'"),
        ({"lungs": [1, 2], "heart": [2]}, "value 2 is in 'lungs' and in 'heart'"),
        ({"1": "a", "2": "a"}, "the name 'a' stands twice"),
        ({"a": 3, "ignore": 3}, "value 3 is in 'a' and in 'ignore'"),
        ({"ignore": 0}, "value 0 is in 'background' and in 'ignore'"),
    ],
)
def test_what_names_no_classes_is_refused_on_one_line(labels: object, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        read(labels)
    assert "\n" not in str(caught.value)
    assert str(FILE) in str(caught.value)


@pytest.mark.parametrize("wrapped", [False, True])
def test_names_are_read_from_a_file_or_from_a_data_sets_description(tmp_path: Path, wrapped: bool) -> None:
    labels = {"1": "Milz", "2": "Leber \u00fc"}
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps({"name": "x", "labels": labels} if wrapped else labels), encoding="utf-8")
    assert Classes.read_file(path).names == {0: "background", 1: "Milz", 2: "Leber \u00fc"}


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "names.json").write_text('{"1": "spleen"}', encoding="utf-8-sig")
    assert Classes.read_file(tmp_path / "names.json").names[1] == "spleen"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"1": "a",', "broken JSON at line 1, column 1"),
        ('{"1": "a",\n"2" "b"}', "broken JSON at line 2, column 5"),
        ("[1]", "expected an object in braces"),
        ('{"1": "a", "1": "b"}', "duplicate names: 1"),
        ('{"labels": {"a": 1, "a": 2}}', "duplicate names: a"),
    ],
)
def test_broken_json_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "names.json").write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        read_json(tmp_path / "names.json")
    assert str(tmp_path / "names.json") in str(caught.value)


def test_a_missing_file_of_names_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Classes.read_file(tmp_path / "names.json")


def test_classes_that_nothing_names_are_those_found(tmp_path: Path) -> None:
    for name, values in (("a", [0, 3, 3, 1]), ("b", [7, 7, 7, 7])):
        array = np.array(values, np.uint8).reshape(1, 2, 2)
        write_labels(tmp_path / f"{name}.nii.gz", array, like=Volume(array, np.eye(4)))
    found = Classes.found([tmp_path / "a.nii.gz", tmp_path / "b.nii.gz"])
    assert found.names == {0: "background", 1: "class 1", 2: "class 3", 3: "class 7"}
    assert found.merge == {0: 0, 1: 1, 3: 2, 7: 3}


def test_a_few_are_told_and_many_are_counted() -> None:
    assert few([1, 2]) == "1, 2"
    assert few(range(8)) == "0, 1, 2, 3, 4 and 3 more"
    assert few("abc", 2) == "a, b and 1 more"
    assert few([]) == ""


@pytest.mark.parametrize(
    "labels", [{"0": "background", "1": "a", "2": "b", "3": "ignore"}, {"a": 1, "b": 2, "ignore": 3}]
)
def test_voxels_to_ignore_are_one_past_the_last_class(labels: dict) -> None:
    classes = read(labels)
    assert (classes.names, classes.ignored) == ({0: "background", 1: "a", 2: "b"}, 3)
    assert classes.indices(np.array([0, 1, 2, 3])).tolist() == [0, 1, 2, 3]


def test_voxels_to_ignore_may_have_any_value() -> None:
    classes = read({"a": 4, "ignore": 255})
    assert classes.indices(np.array([0, 4, 255])).tolist() == [0, 1, 2]


def test_255_classes_and_voxels_to_ignore_are_kept_apart_in_two_bytes() -> None:
    classes = read({**{f"c{n}": n for n in range(1, 256)}, "ignore": 256})
    assert classes.indices(np.array([255, 256])).tolist() == [255, 256]


TUMOUR = {"background": 0, "whole": [1, 2, 3], "core": [2, 3], "enhancing": 3}


def regions(labels: dict, order: object) -> Classes:
    return Classes.described({"labels": labels, "regions_class_order": order}, FILE)


def test_regions_are_the_classes_that_they_cut_one_another_into() -> None:
    classes = regions(TUMOUR, [1, 2, 3])
    assert classes.names == {0: "background", 1: "whole", 2: "core", 3: "enhancing"}
    assert classes.indices(np.array([0, 1, 2, 3])).tolist() == [0, 1, 2, 3]
    assert classes.regions == {1: [1, 2, 3], 2: [2, 3]}


def test_a_regions_class_has_the_place_that_the_order_gives_it() -> None:
    classes = regions(TUMOUR, [10, 30, 20])
    assert classes.names == {0: "background", 1: "whole", 2: "enhancing", 3: "core"}
    assert classes.indices(np.array([0, 1, 2, 3])).tolist() == [0, 1, 3, 2]
    assert classes.regions == {1: [1, 2, 3], 3: [2, 3]}


def test_a_region_that_others_cover_wholly_is_made_of_them() -> None:
    classes = regions({"both": [1, 2], "a": 1, "b": 2}, [1, 2, 3])
    assert classes.indices(np.array([0, 1, 2])).tolist() == [0, 2, 3]
    assert classes.regions == {1: [2, 3]}


def test_regions_and_voxels_to_ignore_go_together() -> None:
    classes = regions({**TUMOUR, "ignore": 4}, [1, 2, 3])
    assert classes.indices(np.array([3, 4])).tolist() == [3, 4]
    assert classes.ignored == 4


@pytest.mark.parametrize(
    ("labels", "order", "words"),
    [
        (TUMOUR, [1, 2], r"regions_class_order has \[1, 2\] for 3 regions"),
        (TUMOUR, [1, 2, 2], "for 3 regions"),
        (TUMOUR, [1, 2, "3"], "for 3 regions"),
        (TUMOUR, 3, "for 3 regions"),
        ({"a": [1, 2], "b": [2, 3]}, [1, 2], "values 3 cover a part of region 'a' and do not belong to it"),
    ],
)
def test_regions_that_a_label_map_cannot_hold_are_refused(labels: dict, order: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        regions(labels, order)


def test_a_value_of_no_region_is_refused() -> None:
    with pytest.raises(ValueError, match="label values 9 have no name"):
        regions(TUMOUR, [1, 2, 3]).indices(np.array([0, 9]))
