"""The check through the command: a table and lines on stdout, JSON in a file, and an exit code for scripts."""

import json
from pathlib import Path

import pytest
from helpers.segment import data_set, fredholm, says


def test_a_sound_data_set_is_a_table_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fredholm("segment", "check", data_set(tmp_path), "--json", tmp_path / "check.json") == 0
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["case", "voxels"]
    assert [row.split()[0] for row in rows] == ["case_0", "case_1"]
    assert "24 x 20 x 28" in rows[0]
    content = json.loads((tmp_path / "check.json").read_text())
    assert content["names"] == {"0": "background", "1": "spleen", "2": "liver"}
    assert (list(content["cases"]), content["findings"]) == (["case_0", "case_1"], [])


def test_an_error_is_told_and_gives_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_set(tmp_path, 3)
    twin = (data / "images/case_0.nii.gz").read_bytes()
    (data / "images/case_2.nii.gz").write_bytes(twin)
    assert fredholm("segment", "check", data, "--json", tmp_path / "check.json") == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "error: case_2: the image has the same voxels as that of case case_0"
    assert "fredholm: training would fail or be wrong: see the errors of case_2\n" in err
    (finding,) = json.loads((tmp_path / "check.json").read_text())["findings"]
    assert (finding["case"], finding["fatal"]) == ("case_2", True)


def test_a_warning_alone_leaves_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_set(tmp_path)
    (data / "names.json").write_text('{"1": "spleen", "2": "liver", "3": "kidney"}')
    assert fredholm("segment", "check", data) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "warning: classes that no case has: kidney"


def test_what_is_no_data_set_is_refused_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    says(capsys, "no images in", code=fredholm("segment", "check", tmp_path))
