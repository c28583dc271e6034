"""What would spoil training is found before it, case by case, and what only looks odd is told apart from it."""

import json
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from fredholm.pipelines import check as module
from fredholm.pipelines.check import Finding, check_dataset
from fredholm.pipelines.dataset import DataSet, open_dataset, read_case
from fredholm.pipelines.nifti import write_labels, write_volume
from fredholm.pipelines.volume import Volume
from helpers.orders import ORDERS, in_order
from nibabel.orientations import apply_orientation

AFFINE = np.diag((-1.0, -1.0, 2.0, 1.0))
NAMES = {"1": "spleen", "2": "kidney_left", "3": "kidney_right"}


def scan(seed: int, low: float = -1000) -> Volume:
    array = np.random.default_rng(seed).integers(0, 100, (6, 5, 4)).astype(np.float32)
    array[0, 0, 0] = low
    return Volume(array, AFFINE)


def label_map() -> np.ndarray:
    labels = np.zeros((6, 5, 4), np.uint8)  # the first axis runs to the left
    labels[2, 2, 2], labels[4:, 1, 1], labels[:2, 1, 1] = 1, 2, 3
    return labels


def put(root: Path, name: str, image: Volume, labels: np.ndarray, like: Volume | None = None) -> None:
    for kind in ("images", "labels"):
        (root / kind).mkdir(parents=True, exist_ok=True)
    write_volume(root / f"images/{name}.nii.gz", image)
    write_labels(root / f"labels/{name}.nii.gz", labels, like=like or image)


def sound(root: Path) -> DataSet:
    for seed, name in enumerate("abc"):
        put(root, name, scan(seed), label_map())
    (root / "names.json").write_text(json.dumps(NAMES))
    return open_dataset(root)


def found(dataset: DataSet) -> list[tuple[str, bool]]:
    return [(finding.case, finding.fatal) for finding in check_dataset(dataset).findings]


def only(dataset: DataSet) -> Finding:
    (finding,) = check_dataset(dataset).findings
    return finding


def test_a_sound_data_set_has_its_facts_and_no_findings(tmp_path: Path) -> None:
    told: list[str] = []
    check = check_dataset(sound(tmp_path), told.append)
    assert check.findings == []
    assert told == ["a", "b", "c"]
    facts = check.facts["a"]
    assert (facts.shape, facts.spacing_mm, facts.axes, facts.values[0]) == ((6, 5, 4), (1, 1, 2), "LPS", -1000)
    assert facts.voxels == {0: 115, 1: 1, 2: 2, 3: 2}
    content = json.loads(json.dumps(check.as_dict(), allow_nan=False))
    assert content["cases"]["a"]["voxels"] == {"0": 115, "1": 1, "2": 2, "3": 2}


def test_real_cases_are_sound(medical: Path) -> None:
    assert check_dataset(open_dataset(medical / "sarcoma")).findings == []


def test_real_left_and_right_are_where_they_should_be(medical: Path) -> None:
    finding = only(open_dataset(medical / "torso"))
    assert (finding.case, finding.fatal) == ("", False)
    assert "classes that no case has: " in finding.words


def test_labels_on_another_grid_are_an_error_and_the_others_are_read_all_the_same(tmp_path: Path) -> None:
    sound(tmp_path)
    put(tmp_path, "b", scan(1), label_map(), like=Volume(scan(1).array, np.diag((-1.0, -1.0, 2.5, 1.0))))
    check = check_dataset(open_dataset(tmp_path))
    assert list(check.facts) == ["a", "c"]
    (finding,) = check.fatal
    assert finding.case == "b"
    assert finding.words.startswith("not on one grid")


@pytest.mark.parametrize("value", [7, 255])
def test_a_value_without_a_name_is_an_error(tmp_path: Path, value: int) -> None:
    sound(tmp_path)
    labels = label_map()
    labels[0, 0, 0] = value
    put(tmp_path, "b", scan(1), labels)
    finding = only(open_dataset(tmp_path))
    assert (finding.case, finding.fatal) == ("b", True)
    assert f"label values {value} have no name" in finding.words


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    dataset = sound(tmp_path)
    dataset.cases[1].image.write_bytes(b"nothing")
    assert found(dataset) == [("b", True)]


def test_an_unknown_orientation_is_an_error(tmp_path: Path) -> None:  # A4
    dataset = sound(tmp_path)
    header = nib.Nifti1Header()
    header.set_data_shape((6, 5, 4))
    nib.save(nib.Nifti1Image(scan(1).array, None, header), dataset.cases[1].image)
    finding = only(dataset)
    assert finding.fatal
    assert "orientation unknown, sform and qform codes are both 0" in finding.words


def test_an_sform_and_qform_that_differ_are_a_warning_that_names_both(tmp_path: Path) -> None:  # A3
    dataset = sound(tmp_path)
    image = nib.load(dataset.cases[1].image)
    image.set_qform(np.diag((-1.0, -1.0, 2.0, 1.0)) + np.eye(4, k=3) * 9, code=1)  # pyright: ignore[reportAttributeAccessIssue]
    nib.save(nib.Nifti1Image(scan(1).array, None, image.header), dataset.cases[1].image)
    finding = only(dataset)
    assert (finding.case, finding.fatal) == ("b", False)
    assert all(word in finding.words for word in ("sform", "qform"))


def test_voxels_that_are_no_number_are_a_warning_that_counts_them(tmp_path: Path) -> None:
    dataset = sound(tmp_path)
    array = scan(1).array + 0.5
    array[1, 1, :3] = np.nan
    write_volume(dataset.cases[1].image, Volume(array, AFFINE))
    finding = only(dataset)
    assert (finding.case, finding.fatal) == ("b", False)
    assert "3 voxels are not finite" in finding.words


@pytest.mark.parametrize("order", ORDERS[::9])
def test_the_same_scan_under_two_names_is_an_error_in_any_axis_order(tmp_path: Path, order) -> None:
    sound(tmp_path)
    put(tmp_path, "d", in_order(scan(0), order), apply_orientation(label_map(), order))
    assert only(open_dataset(tmp_path)) == Finding("d", "the image has the same voxels as that of case a", fatal=True)


def test_an_empty_case_is_a_warning_and_an_empty_data_set_an_error(tmp_path: Path) -> None:
    dataset = sound(tmp_path)
    put(tmp_path, "a", scan(0), 0 * label_map())
    assert only(dataset) == Finding("a", "no voxel is labelled", fatal=False)
    for seed, name in enumerate("abc"):
        put(tmp_path, name, scan(seed), 0 * label_map())
    assert Finding("", "no voxel of the data set is labelled", fatal=True) in check_dataset(dataset).findings


def test_a_class_that_no_case_has_is_a_warning(tmp_path: Path) -> None:
    sound(tmp_path)
    (tmp_path / "names.json").write_text(json.dumps({**NAMES, "4": "liver"}))
    assert only(open_dataset(tmp_path)) == Finding("", "classes that no case has: liver", fatal=False)


def test_an_image_of_one_value_is_an_error(tmp_path: Path) -> None:
    sound(tmp_path)
    put(tmp_path, "b", Volume(np.zeros((6, 5, 4), np.float32), AFFINE), label_map())
    assert only(open_dataset(tmp_path)) == Finding("b", "every voxel is 0", fatal=True)


def test_values_that_are_no_hounsfield_units_are_a_warning(tmp_path: Path) -> None:
    sound(tmp_path)
    put(tmp_path, "b", scan(1, low=0), label_map())
    assert "no value is below 0 (0 to 98): Hounsfield units?" in only(open_dataset(tmp_path)).words


def test_a_channel_that_is_no_ct_may_have_any_values_but_not_one_alone(tmp_path: Path) -> None:
    description = {
        "labels": {name: int(value) for value, name in NAMES.items()},
        "channel_names": {"0": "CT", "1": "PET"},
    }
    for seed, name in enumerate("ab"):
        put(tmp_path, name, scan(seed), label_map())
        write_volume(tmp_path / f"images/{name}_1.nii.gz", scan(seed, low=0))
    (tmp_path / "dataset.json").write_text(json.dumps(description))
    for kind in ("images", "labels"):
        (tmp_path / kind).rename(tmp_path / f"{kind}Tr")
    for name in "ab":
        for old, new in ((name, f"{name}_0000"), (f"{name}_1", f"{name}_0001")):
            (tmp_path / f"imagesTr/{old}.nii.gz").rename(tmp_path / f"imagesTr/{new}.nii.gz")
    assert check_dataset(open_dataset(tmp_path)).findings == []
    write_volume(tmp_path / "imagesTr/b_0001.nii.gz", replace(scan(1), array=np.zeros((6, 5, 4), np.float32)))
    assert only(open_dataset(tmp_path)) == Finding("b", "every voxel of PET is 0", fatal=True)


def test_a_spacing_unlike_the_others_is_a_warning(tmp_path: Path) -> None:
    sound(tmp_path)
    put(tmp_path, "b", replace(scan(1), affine=10 * AFFINE + np.diag((0, 0, 0, -9))), label_map())
    assert only(open_dataset(tmp_path)) == Finding("b", "spacing 10 x 10 x 20 mm, 10 times that of the others", False)


def test_left_and_right_exchanged_are_a_warning(tmp_path: Path) -> None:
    sound(tmp_path)
    put(tmp_path, "b", scan(1), np.flip(label_map(), axis=0))
    finding = only(open_dataset(tmp_path))
    assert finding == Finding("b", "left and right are exchanged in 1 of 1 pairs, kidney_left for one", fatal=False)


def test_one_case_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[int] = []

    class Watched(Volume):
        def __del__(self) -> None:
            alive.pop()

    def watched(*arguments):
        image, labels = read_case(*arguments)
        alive.append(1)
        assert len(alive) == 1
        return Watched(image.array, image.affine), labels

    monkeypatch.setattr(module, "read_case", watched)
    assert len(check_dataset(sound(tmp_path)).facts) == 3
    assert alive == []
