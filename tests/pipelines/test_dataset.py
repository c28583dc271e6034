"""A folder is recognised by what lies in it, and a mistake in it is said in one line that names the place."""

import json
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.dataset import open_dataset, read_case
from fredholm.pipelines.images import read_labels, write_labels
from fredholm.pipelines.volume import Volume, canonical, restore

AFFINE = np.diag((-1.0, 1.0, 2.0, 1.0))
IMAGE = Volume(np.arange(24).reshape(2, 3, 4), AFFINE)
MSD_LABELS = {"0": "background", "1": "liver", "2": "spleen"}


def put(path: Path, values=(0, 1, 2), affine=AFFINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    array = np.resize(np.array(values, np.int32), (2, 3, 4))
    write_labels(path, array, like=Volume(array, affine))
    return path


def say(root: Path, name="dataset.json", **content: object) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(json.dumps(content))
    return root


def msd(root: Path, names=("a", "b"), labels: object = MSD_LABELS, values=(0, 1, 2), **more: object) -> Path:
    for name in names:
        put(root / f"imagesTr/{name}.nii.gz")
        put(root / f"labelsTr/{name}.nii.gz", values)
    training = [{"image": f"./imagesTr/{name}.nii.gz", "label": f"./labelsTr/{name}.nii.gz"} for name in names]
    return say(root, labels=labels, training=training, **more)


def nnunet(root: Path, labels: object, values=(0, 1, 2), **more: object) -> Path:
    for name in ("a", "b"):
        put(root / f"imagesTr/{name}_0000.nii.gz")
        put(root / f"labelsTr/{name}.nii.gz", values)
    return say(root, labels=labels, channel_names={"0": "CT"}, file_ending=".nii.gz", **more)


def named(root: Path, labels: object, values=(0, 1, 2)) -> Path:
    """The same data set as a folder of pairs."""
    for name in ("a", "b"):
        put(root / f"images/{name}.nii")
        put(root / f"labels/{name}.nii", values)
    (root / "names.json").write_text(json.dumps(labels))
    return root


def read_first(root: Path) -> np.ndarray:
    dataset = open_dataset(root)
    _, labels = read_case(dataset, dataset.labelled[0])
    assert labels is not None
    return labels


def read_all(root: Path) -> None:
    dataset = open_dataset(root)
    for case in dataset.labelled:
        read_case(dataset, case)


def says(words: str, root: Path) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=words) as caught:
        read_all(root)
    assert "\n" not in str(caught.value)


def test_a_decathlon_folder_is_recognised(tmp_path) -> None:
    dataset = open_dataset(msd(tmp_path, test=["./imagesTs/c.nii.gz"]))
    assert [case.name for case in dataset.cases] == ["a", "b"]
    assert dataset.names == {0: "background", 1: "liver", 2: "spleen"}
    assert dataset.classes.merge is None
    assert [(case.name, case.label) for case in dataset.unlabelled] == [("c", None)]


def test_real_sarcoma_cases_are_read_as_a_decathlon_folder(medical) -> None:
    dataset = open_dataset(medical / "sarcoma")
    assert dataset.names == {0: "background", 1: "GTV"}
    assert len(dataset.labelled) == 5
    image, labels = read_case(dataset, dataset.cases[0])
    assert labels is not None
    assert (image.shape, labels.shape, labels.dtype) == ((161, 143, 48), (161, 143, 48), np.uint8)
    assert np.unique(labels).tolist() == [0, 1]


def test_an_nnunet_folder_is_recognised(tmp_path) -> None:
    put(tmp_path / "imagesTs/c_0000.nii.gz")
    dataset = open_dataset(nnunet(tmp_path, {"background": 0, "liver": 1, "spleen": 2}))
    assert [case.name for case in dataset.cases] == ["a", "b"]
    assert dataset.names == {0: "background", 1: "liver", 2: "spleen"}
    assert [case.name for case in dataset.unlabelled] == ["c"]


def test_an_older_nnunet_folder_that_lists_files_without_their_channel_is_read(tmp_path) -> None:
    msd(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"imagesTr/{name}.nii.gz").rename(tmp_path / f"imagesTr/{name}_0000.nii.gz")
    assert [case.image.name for case in open_dataset(tmp_path).cases] == ["a_0000.nii.gz", "b_0000.nii.gz"]


@pytest.mark.parametrize(("images", "labels"), [("images", "labels"), ("imagesTr", "labelsTr")])
@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_two_folders_of_the_same_names_are_pairs(tmp_path, images, labels, suffix) -> None:
    for name in ("a_0000", "b_0001"):
        put(tmp_path / images / f"{name}{suffix}")
        put(tmp_path / labels / f"{name}{suffix}", (0, 3))
    dataset = open_dataset(tmp_path)
    assert [case.name for case in dataset.labelled] == ["a_0000", "b_0001"]
    assert dataset.names == {0: "background", 1: "class 3"}
    assert np.unique(read_first(tmp_path)).tolist() == [0, 1]


@pytest.mark.parametrize("ending", ["_label", "_labels", "_seg"])
def test_files_side_by_side_are_pairs(tmp_path, ending) -> None:
    for name in ("a", "b"):
        put(tmp_path / f"{name}.nii.gz")
        put(tmp_path / f"{name}{ending}.nii.gz")
    (tmp_path / f"._a{ending}.nii.gz").write_text("left by macOS")
    dataset = open_dataset(tmp_path)
    assert [(case.name, case.label and case.label.name) for case in dataset.cases] == [
        ("a", f"a{ending}.nii.gz"),
        ("b", f"b{ending}.nii.gz"),
    ]
    assert dataset.names == {0: "background", 1: "class 1", 2: "class 2"}


@pytest.mark.parametrize(
    ("image", "label"), [("a.nrrd", "a.seg.nrrd"), ("a.mha", "a_seg.mha"), ("a.nii.gz", "a_seg.nrrd")]
)
def test_formats_may_differ(tmp_path, image: str, label: str) -> None:
    put(tmp_path / image)
    put(tmp_path / label)
    dataset = open_dataset(tmp_path)
    assert [(case.name, case.label and case.label.name) for case in dataset.cases] == [("a", label)]
    assert np.unique(read_first(tmp_path)).tolist() == [0, 1, 2]


def test_one_folder_per_case_is_recognised(tmp_path) -> None:
    for name in ("s01", "s02"):
        put(tmp_path / name / "ct.nii.gz")
        put(tmp_path / name / "labels.nii.gz")
    assert [case.name for case in open_dataset(tmp_path).labelled] == ["s01", "s02"]


def test_the_real_torso_folder_is_one_case_with_its_117_names(medical) -> None:
    dataset = open_dataset(medical / "torso")
    assert [case.name for case in dataset.labelled] == ["torso"]
    assert (len(dataset.names), dataset.names[5], dataset.classes.merge) == (118, "liver", None)
    image, labels = read_case(dataset, dataset.cases[0])
    assert labels is not None
    assert image.shape == labels.shape
    np.testing.assert_array_equal(labels, read_labels(medical / "torso" / "labels.nii.gz").array)


def test_images_alone_are_unlabelled_until_labels_are_asked_for(tmp_path) -> None:
    put(tmp_path / "a.nii.gz")
    dataset = open_dataset(tmp_path)
    assert [case.name for case in dataset.unlabelled] == ["a"]
    image, labels = read_case(dataset, dataset.cases[0])
    assert (image.shape, labels) == ((2, 3, 4), None)
    with pytest.raises(ValueError, match="but no label maps"):
        _ = dataset.labelled


@pytest.mark.parametrize("make", [msd, nnunet, named])
@pytest.mark.parametrize(
    "labels", [MSD_LABELS, {"background": 0, "spleen": 2, "liver": 1}, {"liver": 1, "spleen": "2"}]
)
def test_names_are_read_either_way_round_in_every_layout(tmp_path, make, labels) -> None:
    dataset = open_dataset(make(tmp_path, labels=labels))
    assert dataset.names == {0: "background", 1: "liver", 2: "spleen"}
    assert dataset.classes.merge is None


@pytest.mark.parametrize("make", [msd, nnunet, named])
def test_a_list_of_values_becomes_one_class_and_the_rest_background(tmp_path, make) -> None:
    labels = {"background": 0, "lungs": [10, 11, 12, 13, 14], "liver": 5}
    root = make(tmp_path, labels=labels, values=(0, 5, 10, 12, 14, 99))
    dataset = open_dataset(root)
    assert dataset.names == {0: "background", 1: "lungs", 2: "liver"}
    assert dataset.classes.merge == {0: 0, 10: 1, 11: 1, 12: 1, 13: 1, 14: 1, 5: 2}
    expected = np.resize([0, 2, 1, 1, 1, 0], (2, 3, 4))
    np.testing.assert_array_equal(read_first(root), expected)


def test_nnunets_regions_and_voxels_to_ignore_are_read(tmp_path) -> None:
    labels = {"background": 0, "whole": [1, 2], "core": 2, "ignore": 3}
    root = nnunet(tmp_path, labels, values=(0, 1, 2, 3), regions_class_order=[1, 2])
    dataset = open_dataset(root)
    assert dataset.names == {0: "background", 1: "whole", 2: "core"}
    assert dataset.classes.regions == {1: [1, 2]}
    np.testing.assert_array_equal(read_first(root), np.resize([0, 1, 2, 3], (2, 3, 4)))


def test_values_with_gaps_get_classes_without(tmp_path) -> None:
    root = nnunet(tmp_path, {"spleen": 70000, "background": 0, "liver": 5}, values=(0, 5, 70000))
    dataset = open_dataset(root)
    assert dataset.names == {0: "background", 1: "liver", 2: "spleen"}
    np.testing.assert_array_equal(read_first(root), np.resize([0, 1, 2], (2, 3, 4)))


@pytest.mark.parametrize("make", [msd, nnunet, named])
def test_a_value_without_a_name_is_refused_with_case_values_and_known_ones(tmp_path, make) -> None:
    root = make(tmp_path, labels=MSD_LABELS, values=(0, 1, 7, -3))
    says("case a: label values -3, 7 have no name; known are 0, 1, 2", root)


def test_more_than_255_classes_fit(tmp_path) -> None:
    root = msd(tmp_path, labels={f"c{i}": i for i in range(1, 301)}, values=(0, 300))
    assert read_first(root).max() == 300


@pytest.mark.parametrize("make", [msd, nnunet, named])
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"lungs": [1, 2], "liver": [2, 3]}, "value 2 is in 'lungs' and in 'liver'"),
        ({"lungs": [1, 2], "liver": 2}, "value 2 is in 'lungs' and in 'liver'"),
        ({"1": "liver", "2": "liver"}, "the name 'liver' stands twice"),
        ({"liver": 1.5}, "no name with a whole number"),
        ({"liver": []}, "no name with a whole number"),
        ({"liver": True}, "no name with a whole number"),
        ({"liver": 1, "ignore": 1}, "value 1 is in 'liver' and in 'ignore'"),
        ({}, "no names of classes"),
    ],
)
def test_names_that_make_no_sense_are_refused(tmp_path, make, labels, words) -> None:
    says(words, make(tmp_path, labels=labels))


def test_a_label_map_with_axes_in_another_order_is_brought_to_its_image(tmp_path) -> None:
    array = np.random.default_rng(0).integers(0, 3, (2, 3, 4)).astype(np.uint8)
    like = Volume(array, np.array([[0, 0, -1.0, 3], [1, 0, 0, 0], [0, -2, 0, 9], [0, 0, 0, 1]]))
    turned = canonical(like)
    write_labels(tmp_path / "a.nii.gz", array, like=like)
    write_labels(tmp_path / "a_seg.nii.gz", turned.array, like=turned)
    np.testing.assert_array_equal(read_first(tmp_path), array)
    np.testing.assert_array_equal(restore(turned.array, like), array)


def test_a_label_map_on_another_grid_is_refused_by_case(tmp_path) -> None:
    put(tmp_path / "a.nii.gz")
    put(tmp_path / "a_seg.nii.gz", affine=np.diag((-1.0, 1.0, 2.5, 1.0)))
    says(r"case a: not on one grid: .*2\.0.*2\.5", tmp_path)


def test_a_real_pair_of_unequal_height_is_refused(medical, tmp_path) -> None:
    (tmp_path / "ct.nii.gz").symlink_to(medical / "torso" / "ct.nii.gz")
    (tmp_path / "labels.nii.gz").symlink_to(medical / "torso" / "labels_lower_part_wrong_origin.nii.gz")
    says(r"not on one grid: .*\(122, 101, 112\).*\(122, 101, 30\)", tmp_path)


def test_a_missing_folder_is_named(tmp_path) -> None:
    says("no such folder: .*nowhere", tmp_path / "nowhere")


def test_an_empty_folder_says_what_was_expected(tmp_path) -> None:
    says("no images in .*: expected dataset.json", tmp_path)


def test_broken_json_is_named_with_its_place(tmp_path) -> None:
    (tmp_path / "dataset.json").write_text('{\n "labels": {"0" "background"}\n}')
    says(r"dataset\.json: broken JSON at line 2, column 17", tmp_path)
    (tmp_path / "dataset.json").write_text("[]")
    says(r"dataset\.json: expected an object", tmp_path)
    (tmp_path / "dataset.json").write_bytes(b'{"labels": "\xff"}')
    says(r"dataset\.json: .*0xff", tmp_path)


def test_duplicate_names_are_refused(tmp_path) -> None:
    put(tmp_path / "pairs/a.nii")
    put(tmp_path / "pairs/a.nii.gz")
    says("duplicate names: .*a.nii and .*a.nii.gz", tmp_path / "pairs")
    says("duplicate names of cases: a", msd(tmp_path / "msd", names=("a", "a")))
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "dataset.json").write_text('{"labels": {"1": "liver", "1": "spleen"}}')
    says(r"dataset\.json: duplicate names: 1", tmp_path / "keys")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["images/a", "images/b", "labels/a"], "images without a label map: b"),
        (["a", "b", "a_seg"], "images without a label map: b"),
        (["s1/ct", "s1/labels", "s2/ct"], "images without a label map: s2"),
        (["images/a", "labels/a", "labels/c"], "label maps without an image: c"),
        (["a", "c_seg"], "label maps without an image: c_seg"),
    ],
)
def test_images_without_labels_and_labels_without_images_are_listed(tmp_path, files, words) -> None:
    for name in files:
        put(tmp_path / f"{name}.nii")
    says(words, tmp_path)


def test_a_training_case_without_its_label_is_refused(tmp_path) -> None:
    msd(tmp_path)
    whole = {"image": "imagesTr/b.nii.gz", "label": "labelsTr/b.nii.gz"}
    say(tmp_path, labels=MSD_LABELS, training=[{"image": "imagesTr/a.nii.gz"}, whole])
    says("images without a label map: a", tmp_path)
    say(tmp_path, labels=MSD_LABELS, training=["imagesTr/a.nii.gz"])
    says(r"a case is .*, not \"imagesTr/a\.nii\.gz\"", tmp_path)


def test_listed_files_that_are_missing_are_named(tmp_path) -> None:
    msd(tmp_path)
    (tmp_path / "labelsTr" / "b.nii.gz").unlink()
    says(r"lists files that are missing: .*labelsTr/b\.nii\.gz", tmp_path)


CT_AND_PET = {"1": "PET", "0": "CT"}


def with_pet(root: Path, affine=AFFINE, names=("a", "b")) -> Path:
    nnunet(root, MSD_LABELS)
    for name in names:
        put(root / f"imagesTr/{name}_0001.nii.gz", (5, 6, 7), affine)
    return say(root, labels=MSD_LABELS, channel_names=CT_AND_PET, file_ending=".nii.gz")


def test_each_channel_is_a_file_and_their_order_is_that_of_their_numbers(tmp_path) -> None:
    put(tmp_path / "imagesTs/c_0000.nii.gz"), put(tmp_path / "imagesTs/c_0001.nii.gz")
    dataset = open_dataset(with_pet(tmp_path))
    assert dataset.channels == ("CT", "PET")
    assert [(case.name, len(case.images)) for case in (*dataset.cases, *dataset.test)] == [("a", 2), ("b", 2), ("c", 2)]
    image, _ = read_case(dataset, dataset.cases[1])
    assert [np.unique(channel).tolist() for channel in image.channels] == [[0, 1, 2], [5, 6, 7]]


def test_a_channel_whose_axes_run_otherwise_is_turned_to_the_first(tmp_path) -> None:
    root = with_pet(tmp_path)
    pet = canonical(read_labels(root / "imagesTr/a_0001.nii.gz"))
    assert not np.array_equal(pet.affine, AFFINE)
    expected = restore(pet.array, IMAGE)
    write_labels(root / "imagesTr/a_0001.nii.gz", pet.array, like=pet)
    dataset = open_dataset(root)
    np.testing.assert_array_equal(read_case(dataset, dataset.cases[0])[0].others[0], expected)


def test_channels_on_different_grids_are_refused_with_the_case(tmp_path) -> None:
    says("case a: not on one grid", with_pet(tmp_path, affine=np.diag((-1.0, 1.0, 3.0, 1.0))))


def test_a_case_that_lacks_a_channel_is_named(tmp_path) -> None:
    says(r"case b: expected 2 channels, _0000 to _0001, found b_0000\.nii\.gz", with_pet(tmp_path, names=("a",)))


def test_listed_images_of_several_channels_stand_without_their_numbers(tmp_path) -> None:
    root = msd(tmp_path / "a", modality=CT_AND_PET)
    says("lists files that are missing: .*2 channels are 2 files, NAME_0000 and so on", root)
    for name in ("a", "b"):
        put(root / f"imagesTr/{name}_0001.nii.gz", (5, 6, 7))
        (root / f"imagesTr/{name}.nii.gz").rename(root / f"imagesTr/{name}_0000.nii.gz")
    assert [case.name for case in open_dataset(root).cases] == ["a", "b"]
    read_all(root)


@pytest.mark.parametrize("names", [{"CT": 0, "PET": 1}, {"1": "CT", "2": "PET"}, "CT"])
def test_channel_names_of_another_form_are_refused(tmp_path, names) -> None:
    nnunet(tmp_path, MSD_LABELS)
    says("channel_names are", say(tmp_path, labels=MSD_LABELS, channel_names=names))


def test_only_files_with_the_ending_that_the_data_set_states_are_its_cases(tmp_path) -> None:
    root = nnunet(tmp_path, MSD_LABELS)
    put(root / "imagesTr/a_0000.nii", (9,)), put(root / "labelsTr/c.mha")
    assert [case.image.name for case in open_dataset(root).cases] == ["a_0000.nii.gz", "b_0000.nii.gz"]
    say(root, labels=MSD_LABELS, channel_names={"0": "CT"})
    says("duplicate names", root)


def test_files_of_another_format_are_refused_by_their_ending(tmp_path) -> None:
    says(r"end in \.png", say(tmp_path, labels=MSD_LABELS, channel_names={"0": "CT"}, file_ending=".png"))


def test_two_label_maps_for_one_image_are_refused(tmp_path) -> None:
    for name in ("a", "a_label", "a_seg"):
        put(tmp_path / f"{name}.nii")
    says("a has two label maps, a_label.nii and a_seg.nii", tmp_path)
