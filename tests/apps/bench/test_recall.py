"""`fredholm bench recall` trains, scores against the mean guess, and gathers the runs of a folder in a table."""

import csv

import pytest
from fredholm.pipelines.recall.plan import RecallPlan
from fredholm.pipelines.run import Run
from helpers.segment import fredholm, says

SMALL = ("--dim", "8", "--depth", "1", "--batch", "2", "--epochs", "1", "--device", "cpu")


@pytest.fixture(autouse=True)
def _few_steps_and_examples(monkeypatch) -> None:
    monkeypatch.setattr("fredholm.apps.training.EPOCH", 3)
    monkeypatch.setattr("fredholm.pipelines.recall.task.SCORED", 16)


def test_runs_are_told_beside_the_mean_guess(tmp_path, capsys) -> None:
    for options in (
        ("--mixer", "hyena"),
        ("--mixer", "attention", "--window", "9", "--interpolation", "4"),
        ("--task", "colour"),
    ):
        assert fredholm("bench", "recall", "--dims", "1", *options, *SMALL, "-o", tmp_path / "recall") == 0
    shown = capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "recall/recall.csv").read_text().splitlines()))
    assert [row["run"] for row in rows] == [
        "1d_copy_hyena",
        "1d_copy_attention_window9_interpolated",
        "1d_colour_hyena",
    ]
    for row in rows:
        assert row["run"] in shown
        assert row["steps"] == "3"
        assert float(row["share"]) == pytest.approx(float(row["mse"]) / float(row["mean guess"]), rel=1e-4)
        assert (tmp_path / "recall" / row["run"] / "weights.safetensors").is_file()


def test_sizes_are_those_of_the_task(tmp_path) -> None:
    assert fredholm("bench", "recall", "--place", "random", *SMALL, "-o", tmp_path) == 0
    plan = Run.open(tmp_path / "3d_copy_hyena_random", RecallPlan.read).plan
    assert (plan.canvas.grid, plan.canvas.glyph, plan.place) == ((16, 16, 16), 8, "random")


def test_a_run_that_is_there_is_not_overwritten(tmp_path, capsys) -> None:
    arguments = ("bench", "recall", "--dims", "1", *SMALL, "-o", tmp_path)
    assert fredholm(*arguments) == 0
    capsys.readouterr()
    says(capsys, "already holds a run", code=fredholm(*arguments))
    assert fredholm(*arguments, "--resume") == 0
    assert capsys.readouterr().out.count("1d_copy_hyena") == 1
