"""Scores of label maps, and every mistake on one line."""

import json
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from fredholm.apps.segment.evaluate import Metric
from fredholm.pipelines import images
from fredholm.pipelines.nifti import write_labels
from fredholm.pipelines.scores import METRICS
from fredholm.pipelines.volume import Volume, canonical
from helpers.segment import AFFINE, body, fredholm, says

# warnings are lines on stderr once the command has begun; here they must not be errors
pytestmark = pytest.mark.filterwarnings("default::UserWarning")


def write_map(path: Path, values: object, affine=AFFINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    array = np.array(values, np.int16).reshape(2, 2, -1)
    write_labels(path, array, like=Volume(array, affine))
    return path


def test_two_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = write_map(tmp_path / "found.nii.gz", [0, 1, 1, 1, 2, 0, 0, 7])
    truth = write_map(tmp_path / "truth.nii.gz", [0, 1, 1, 0, 2, 2, 2, 0])
    assert fredholm("segment", "evaluate", found, truth, "--metrics", "dice") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["Dice", "found"]
    assert lines[2:] == [
        ["class", "1", "0.800"],
        ["class", "2", "0.500"],
        ["class", "7", "0.000"],
        ["mean", "of", "classes", "0.433"],
    ]


def test_a_class_that_neither_has_is_a_dash_and_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, truth = (write_map(tmp_path / name, [0, 1, 1, 0]) for name in ("a.nii.gz", "b.nii.gz"))
    (tmp_path / "names.json").write_text('{"1": "spleen", "2": "liver"}')
    command = ("segment", "evaluate", found, truth, "--names", tmp_path / "names.json")
    assert fredholm(*command, "--json", tmp_path / "scores.json") == 0
    assert capsys.readouterr().out.splitlines()[3].split() == ["liver", "-", "-", "-", "-"]
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["dice"]["cases"]["a"] == scores["surface_dice"]["cases"]["a"] == {"spleen": 1.0, "liver": None}
    assert scores["hd95_mm"]["cases"]["a"] == {"spleen": 0.0, "liver": None}


def test_axis_orders_may_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    volume, labels = body(0)
    write_labels(tmp_path / "a.nii.gz", labels, like=volume)
    turned = canonical(Volume(labels, volume.affine))
    write_labels(tmp_path / "b.nii.gz", turned.array, like=turned)
    assert fredholm("segment", "evaluate", tmp_path / "a.nii.gz", tmp_path / "b.nii.gz") == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        "mean",
        "of",
        "classes",
        "1.000",
        "1.000",
        "0.00",
        "0.00",
    ]


def test_the_table_has_a_column_for_each_metric_and_means_with_their_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, missed in (("a", 0), ("b", 1), ("c", 1)):
        write_map(tmp_path / f"truth/{name}.nii.gz", [0, 1, 1, 0])
        write_map(tmp_path / f"found/{name}.nii.gz", [0, 1, missed, 0])
    assert fredholm("segment", "evaluate", tmp_path / "found", tmp_path / "truth", "--tolerance", "0.4") == 0
    title, _, one, mean, interval = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]
    assert title == ["mean of 3 cases", "Dice", "NSD 0.4 mm", "HD95 mm", "diff ml"]
    assert one == ["class 1", "0.889", *one[2:]]
    assert mean[1:] == one[1:]
    assert 0.5 < float(one[2]) < 1.0
    assert one[4] == "0.00"  # a microlitre too little is no minus nothing
    assert interval[:2] == ["95 % interval", "0.667 to 1.000"]


def test_scores_of_each_case_go_into_a_csv_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    affine = np.diag((10.0, 10.0, 10.0, 1.0))  # a voxel is a millilitre, the whole volume 34.6 mm across
    found = write_map(tmp_path / "found.nii.gz", [1, 1, 0, 2, 0, 0, 0, 0], affine)
    truth = write_map(tmp_path / "truth.nii.gz", [1, 1, 0, 0, 0, 0, 3, 0], affine)
    command = ("segment", "evaluate", found, truth, "--csv", tmp_path / "scores.csv")
    every = ("dice", "surface_dice", "hd95_mm", "hd_mm", "volume_difference_ml", "volume_difference_percent")
    assert fredholm(*command, "--metrics", *every) == 0
    assert (tmp_path / "scores.csv").read_text().splitlines() == [
        f"case,class,{','.join(every)},volume_ml,reference_ml",
        "found,class 1,1,1,0,0,0,0,2,2",
        "found,class 2,0,0,34.641,34.641,1,,1,0",
        "found,class 3,0,0,34.641,34.641,-1,-100,0,1",
    ]


def test_each_class_may_have_its_own_tolerance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = write_map(tmp_path / "found.nii.gz", [0, 1, 1, 0, 2, 2, 0, 0])
    truth = write_map(tmp_path / "truth.nii.gz", [1, 1, 0, 0, 0, 2, 2, 0])
    (tmp_path / "names.json").write_text('{"1": "spleen", "2": "liver"}')
    (tmp_path / "mm.json").write_text('{"spleen": 0.5}')
    command = ("segment", "evaluate", found, truth, "--json", tmp_path / "scores.json")
    named = ("--names", tmp_path / "names.json")
    assert fredholm(*command, *named, "--tolerance", tmp_path / "mm.json") == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["tolerance_mm"] == {"spleen": 0.5, "liver": 2.0}
    assert scores["surface_dice"]["cases"]["found"]["liver"] == 1.0
    assert scores["surface_dice"]["cases"]["found"]["spleen"] < 1.0
    capsys.readouterr()

    def refused(*options: object, text: str = "") -> int:
        if text:
            (tmp_path / "mm.json").write_text(text)
        return fredholm("segment", "evaluate", found, truth, *options)

    file = ("--tolerance", tmp_path / "mm.json")
    says(capsys, "mm.json speaks of names: give --names too", code=refused(*file))
    says(capsys, "no class is named 'splen'; known are", code=refused(*named, *file, text='{"splen": 1}'))
    says(capsys, "mm.json: liver: a tolerance is", "'2'", code=refused(*named, *file, text='{"liver": "2"}'))
    says(capsys, "--tolerance: a tolerance is", "-1", code=refused("--tolerance", "-1"))


def test_every_metric_that_there_is_may_be_asked_for() -> None:
    assert get_args(Metric) == tuple(METRICS)


def test_any_label_value_will_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_map(tmp_path / "one.nii.gz", [0, 300, 1035, 0])
    assert fredholm("segment", "evaluate", one, one, "--metrics", "dice") == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[2:4]] == [
        ["class", "300"],
        ["class", "1035"],
    ]


def test_files_are_compared_whatever_their_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    volume, labels = body(0)
    for folder, ending in (("found", ".nii.gz"), ("truth", ".nrrd")):
        (tmp_path / folder).mkdir()
        images.write_labels(tmp_path / folder / f"a{ending}", labels, like=volume)
    assert fredholm("segment", "evaluate", tmp_path / "found", tmp_path / "truth") == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-4:] == ["1.000", "1.000", "0.00", "0.00"]


def test_many_files_are_compared_by_name_and_missing_ones_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c", "d", "e"):
        write_map(tmp_path / f"truth/{name}.nii.gz", [0, 1, 1, 0])
        write_map(tmp_path / f"found/{name}.nii.gz", [0, 1, int(name > "b"), 0])
    write_map(tmp_path / "truth/f.nii.gz", [0, 1, 1, 0])
    write_map(tmp_path / "found/only.nii.gz", [0, 1, 1, 0])
    command = ("segment", "evaluate", tmp_path / "found", tmp_path / "truth", "--json", tmp_path / "scores.json")
    assert fredholm(*command, "--metrics", "dice") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["Dice", "mean"]
    assert "1 references have no prediction and are not scored, first f" in err
    assert list(json.loads((tmp_path / "scores.json").read_text())["dice"]["cases"]) == ["a", "b", "c", "d", "e"]


def test_values_that_one_class_is_made_of_are_put_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = write_map(tmp_path / "found.nii.gz", [0, 1, 1, 2])
    truth = write_map(tmp_path / "truth.nii.gz", [0, 10, 11, 51])
    (tmp_path / "names.json").write_text('{"lungs": [10, 11], "heart": 51}')
    assert fredholm("segment", "evaluate", found, truth, "--names", tmp_path / "names.json", "--metrics", "dice") == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[2:]] == ["1.000"] * 3


def test_regions_are_scored_whole_and_what_is_to_be_ignored_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = write_map(tmp_path / "found.nii.gz", [0, 1, 1, 2, 2, 0, 0, 0])
    truth = write_map(tmp_path / "truth.nii.gz", [0, 1, 2, 2, 3, 0, 0, 0])
    labels = {"background": 0, "tumour": [1, 2], "core": 2, "ignore": 3}
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": labels, "regions_class_order": [1, 2]}))
    options = ("--names", tmp_path / "dataset.json", "--metrics", "dice")
    assert fredholm("segment", "evaluate", found, truth, *options) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:4]]
    assert lines == [["tumour", "1.000"], ["core", "0.667"]]


def test_what_cannot_be_compared_is_refused_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_map(tmp_path / "a/one.nii.gz", [0, 1, 1, 0])
    other = write_map(tmp_path / "b/other.nii.gz", [0, 1, 1, 0, 0, 0, 0, 2], affine=np.diag((1, 1, 2.5, 1)))
    absent = tmp_path / "absent.nii.gz"
    (tmp_path / "names.json").write_text('{"1": "spleen"}')

    def evaluate(*arguments: object) -> int:
        return fredholm("segment", "evaluate", *arguments, "--json", tmp_path / "scores.json")

    says(capsys, f"{other}: not on one grid", "(2, 2, 1)", "(2, 2, 2)", "2.5", "-319", code=evaluate(one, other))
    says(capsys, f"no such file or folder: {absent}", code=evaluate(one, absent))
    says(capsys, "must both be files or both be folders", code=evaluate(one, tmp_path / "b"))
    says(capsys, "no file of", "has the name of one in", code=evaluate(tmp_path / "a", tmp_path / "b"))
    named = ("--names", tmp_path / "names.json")
    says(capsys, f"{other}: label values 2 have no name", code=evaluate(other, other, *named))
    says(capsys, "names.json", code=evaluate(one, one, "--names", absent.with_name("no names.json")))
    assert not (tmp_path / "scores.json").exists()


def test_scores_that_cannot_be_written_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_map(tmp_path / "one.nii.gz", [0, 1, 1, 0])
    code = fredholm("segment", "evaluate", one, one, "--json", tmp_path / "absent/scores.json")
    says(capsys, "no such folder", code=code)


# real data
