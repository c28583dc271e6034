"""Scores of label maps, and every mistake on one line."""

import json
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines import images
from fredholm.pipelines.nifti import write_labels
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
    assert fredholm("segment", "evaluate", found, truth) == 0
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
    assert "liver                -" in capsys.readouterr().out
    assert json.loads((tmp_path / "scores.json").read_text())["cases"]["a"] == {"spleen": 1.0, "liver": None}


def test_axis_orders_may_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    volume, labels = body(0)
    write_labels(tmp_path / "a.nii.gz", labels, like=volume)
    turned = canonical(Volume(labels, volume.affine))
    write_labels(tmp_path / "b.nii.gz", turned.array, like=turned)
    assert fredholm("segment", "evaluate", tmp_path / "a.nii.gz", tmp_path / "b.nii.gz") == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "1.000"


def test_files_are_compared_whatever_their_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    volume, labels = body(0)
    for folder, ending in (("found", ".nii.gz"), ("truth", ".nrrd")):
        (tmp_path / folder).mkdir()
        images.write_labels(tmp_path / folder / f"a{ending}", labels, like=volume)
    assert fredholm("segment", "evaluate", tmp_path / "found", tmp_path / "truth") == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "1.000"


def test_many_files_are_compared_by_name_and_missing_ones_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c", "d", "e"):
        write_map(tmp_path / f"truth/{name}.nii.gz", [0, 1, 1, 0])
        write_map(tmp_path / f"found/{name}.nii.gz", [0, 1, int(name > "b"), 0])
    write_map(tmp_path / "truth/f.nii.gz", [0, 1, 1, 0])
    write_map(tmp_path / "found/only.nii.gz", [0, 1, 1, 0])
    command = ("segment", "evaluate", tmp_path / "found", tmp_path / "truth", "--json", tmp_path / "scores.json")
    assert fredholm(*command) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["Dice", "mean"]
    assert "1 references have no prediction and are not scored, first f" in err
    assert list(json.loads((tmp_path / "scores.json").read_text())["cases"]) == ["a", "b", "c", "d", "e"]


def test_values_that_one_class_is_made_of_are_put_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = write_map(tmp_path / "found.nii.gz", [0, 1, 1, 2])
    truth = write_map(tmp_path / "truth.nii.gz", [0, 10, 11, 51])
    (tmp_path / "names.json").write_text('{"lungs": [10, 11], "heart": 51}')
    assert fredholm("segment", "evaluate", found, truth, "--names", tmp_path / "names.json") == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[2:]] == ["1.000"] * 3


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
