"""`fredholm pde evaluate`: tables, files and a page, in one to three dimensions."""

import base64
import io
import json
import re
from pathlib import Path

import pytest
from helpers.segment import fredholm, says
from helpers.well import write_run, write_set
from PIL import Image


@pytest.mark.parametrize("grid", [(16,), (8, 6), (6, 4, 4)])
def test_scores_go_to_the_screen_to_files_and_to_a_page(tmp_path: Path, capsys, grid: tuple[int, ...]) -> None:
    run = write_run(tmp_path / "run", write_set(tmp_path / "set", grid=grid, frames=15))
    out = {name: tmp_path / f"out.{name}" for name in ("csv", "json")}
    options = ["--csv", out["csv"], "--json", out["json"], "--report", tmp_path / "out.html"]
    assert fredholm("pde", "evaluate", run.folder, tmp_path / "set", *options) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("surrogate", "persistence", "6:12", "velocity_x", "short waves"))
    content = json.loads(out["json"].read_text())
    assert content["predictors"]["persistence"]["windows"]["6:12"]["vrmse"]["density"] > 0
    assert len(content["made_with"]["weights_sha256"]) == 64
    assert len(out["csv"].read_text().splitlines()) == 1 + 3 * 2 * 13 * (1 + len(grid))
    page = (tmp_path / "out.html").read_text()
    assert page.count("<img") == 1 + 1 + (1 + len(grid)) + 1  # growth, animation, fields, spectra


def test_the_animation_moves(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", write_set(tmp_path / "set", frames=9))
    fredholm("pde", "evaluate", run.folder, tmp_path / "set", "--report", tmp_path / "out.html", "--trajectories", 1)
    page = (tmp_path / "out.html").read_text()
    pictures = [base64.b64decode(found) for found in re.findall(r"base64,([^\"]+)\"", page)]
    frames = [getattr(Image.open(io.BytesIO(picture)), "n_frames", 1) for picture in pictures]
    assert sorted(frames)[-2:] == [1, 7]


def test_a_page_of_another_name_is_one_line(tmp_path: Path, capsys) -> None:
    run = write_run(tmp_path / "run", write_set(tmp_path / "set"))
    code = fredholm("pde", "evaluate", run.folder, tmp_path / "set", "--report", tmp_path / "out.pdf")
    says(capsys, "the name of a report ends in .html", code=code)
