"""The layouts of public data sets with a folder for each case, and what is said when a folder is not the right one."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.dataset import open_dataset, read_case
from fredholm.pipelines.images import write_labels
from fredholm.pipelines.layouts import recognised
from fredholm.pipelines.volume import Volume

LIKE = Volume(np.zeros((4, 4, 4), np.float32), np.diag((-1.0, -1.0, 2.0, 1.0)))
ORGANS = ("spleen", "liver", "pancreas")
# PanTS: three parts, duct and lesion of the pancreas, and what lies around it
PANTS = [
    *("adrenal_gland_left", "adrenal_gland_right", "aorta", "bladder", "celiac_artery", "colon"),
    *("common_bile_duct", "duodenum", "femur_left", "femur_right", "gall_bladder", "kidney_left"),
    *("kidney_right", "liver", "lung_left", "lung_right", "pancreas", "pancreas_body", "pancreas_head"),
    *("pancreas_tail", "pancreatic_duct", "pancreatic_lesion", "postcava", "prostate", "spleen"),
    *("stomach", "superior_mesenteric_artery", "veins"),
]


def put(path: Path, *voxels: tuple[int, int, int]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    array = np.zeros((4, 4, 4), np.uint8)
    for voxel in voxels:
        array[voxel] = 1
    write_labels(path, array, like=LIKE)
    return path


def case(image: Path, labels: Path, masks: Iterable[str] = ORGANS) -> None:
    """A case whose classes have one voxel each."""
    put(image / "ct.nii.gz")
    for number, name in enumerate(masks):
        put(labels / "segmentations" / f"{name}.nii.gz", (number % 4, number // 4 % 4, number // 16))


def totalsegmentator(root: Path, *names: str, table: str = "", masks: Iterable[str] = ORGANS) -> Path:
    for name in names:
        case(root / name, root / name, masks)
    if table:
        (root / "meta.csv").write_text(table, encoding="utf-8-sig")
    return root


def pants(root: Path, masks: Iterable[str] = ORGANS) -> Path:
    for part, name in (("Tr", "PanTS_00000001"), ("Tr", "PanTS_00000002"), ("Te", "PanTS_00009001")):
        case(root / f"Image{part}" / name, root / f"Label{part}" / name, masks)
    return root


def says(words: str, root: Path) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        _ = open_dataset(root).labelled
    assert "\n" not in str(caught.value)


def test_totalsegmentators_folders_are_cases_with_a_class_for_each_file(tmp_path: Path) -> None:
    dataset = open_dataset(totalsegmentator(tmp_path, "s0000", "s0001"))
    assert [one.name for one in dataset.labelled] == ["s0000", "s0001"]
    assert dataset.names == {0: "background", 1: "liver", 2: "pancreas", 3: "spleen"}
    assert (dataset.validation, dataset.test) == (None, ())
    _, labels = read_case(dataset, dataset.cases[0])
    assert labels is not None
    assert [labels[place] for place in ((1, 0, 0), (2, 0, 0), (0, 0, 0), (3, 3, 3))] == [1, 2, 3, 0]


def test_totalsegmentators_table_says_what_is_for_validation_and_test(tmp_path: Path) -> None:
    table = "image_id;age;split\ns0000;50;train\ns0001;;val\ns0002;61;test\ns0009;3;train\n"
    dataset = open_dataset(totalsegmentator(tmp_path, "s0000", "s0001", "s0002", "s0003", table=table))
    assert [one.name for one in dataset.cases] == ["s0000", "s0001", "s0003"]
    assert [one.name for one in dataset.test] == ["s0002"]
    assert dataset.validation == ("s0001",)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("image_id,split\ns0,val\n", "expected the columns image_id and split with ; between them"),
        ("image_id;split\ns0;valid\n", "a split is train, val or test, not valid"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path, table: str, words: str) -> None:
    says(rf"meta\.csv: {words}", totalsegmentator(tmp_path, "s0", table=table))


def test_one_case_alone_is_a_data_set(tmp_path: Path) -> None:
    root = totalsegmentator(tmp_path, "s0000") / "s0000"
    assert [one.name for one in open_dataset(root).labelled] == ["s0000"]


def test_pants_has_28_structures_and_its_own_test_cases(tmp_path: Path) -> None:
    dataset = open_dataset(pants(tmp_path, PANTS))
    assert [one.name for one in dataset.labelled] == ["PanTS_00000001", "PanTS_00000002"]
    assert [one.name for one in dataset.test] == ["PanTS_00009001"]
    assert len(dataset.names) == 29
    _, labels = read_case(dataset, dataset.cases[1])
    assert labels is not None
    assert np.bincount(labels.ravel()).tolist() == [64 - 28, *[1] * 28]


def test_names_choose_classes_and_their_order(tmp_path: Path) -> None:
    (totalsegmentator(tmp_path, "s0") / "names.json").write_text('{"1": "spleen", "2": "liver"}')
    dataset = open_dataset(tmp_path)
    assert dataset.names == {0: "background", 1: "spleen", 2: "liver"}
    _, labels = read_case(dataset, dataset.cases[0])
    assert labels is not None
    assert np.bincount(labels.ravel()).tolist() == [62, 1, 1]


def test_a_class_without_its_file_in_one_case_is_refused(tmp_path: Path) -> None:
    totalsegmentator(tmp_path, "s0")
    says("case s1 has no mask of pancreas; every case has a file", totalsegmentator(tmp_path, "s1", masks=ORGANS[:2]))
    (tmp_path / "names.json").write_text('{"spleen": 1, "liver": 2}')
    assert len(open_dataset(tmp_path).labelled) == 2


def test_masks_in_some_cases_and_label_maps_in_others_are_refused(tmp_path: Path) -> None:
    totalsegmentator(tmp_path, "s0", "s1")
    put(tmp_path / "s1/labels.nii.gz")
    says("some cases have one label map, s1, and others a file for each class", tmp_path)


def test_a_case_without_any_mask_is_named(tmp_path: Path) -> None:
    totalsegmentator(tmp_path, "s0")
    put(tmp_path / "s1/ct.nii.gz")
    says("images without a label map: s1", tmp_path)


@pytest.mark.parametrize("below", ["ImageTr", "ImageTr/PanTS_00000001"])
def test_a_folder_within_the_data_set_says_which_was_meant(tmp_path: Path, below: str) -> None:
    root = pants(tmp_path / "data")
    says(rf"no label maps; did you mean {root}\?", root / below)


def test_a_folder_of_images_alone_says_which_was_meant(tmp_path: Path) -> None:
    for kind in ("imagesTr", "labelsTr"):
        put(tmp_path / kind / "a.nii.gz")
    says(rf"no label maps; did you mean {tmp_path}\?", tmp_path / "imagesTr")


@pytest.mark.parametrize("make", [pants, lambda root: totalsegmentator(root, "s0")])
def test_a_folder_above_the_data_set_says_which_was_meant(tmp_path: Path, make) -> None:
    make(tmp_path / "download" / "set")
    (tmp_path / "download" / "readme.txt").write_text("read me")
    says(rf"no images in .*; did you mean {tmp_path / 'download' / 'set'}\?", tmp_path / "download")


def test_a_folder_of_nothing_has_no_cases_and_no_advice(tmp_path: Path) -> None:
    assert recognised(tmp_path).cases == []
    says("or NAME.nii.gz$", tmp_path)
