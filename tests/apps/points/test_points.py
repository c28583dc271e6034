"""`fredholm points`: train, predict, evaluate, and what is wrong is one line."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.points.plan import PointPlan
from fredholm.pipelines.run import Run
from helpers.points import NAMES, clouds, write_npz
from helpers.segment import fredholm, says

SMALL = ["--points", "32", "--dims", "16", "24", "--neighbours", "8", "--batch", "8", "--device", "cpu"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run on balls, plates and rods, and the data beside it."""
    root = tmp_path_factory.mktemp("points")
    write_npz(root / "train.npz", 20)
    write_npz(root / "test.npz", 5, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fredholm.apps.training.EPOCH", 60)
        options = ("--epochs", "1", "--validate-every", "40", "--learning-rate", "0.01", *SMALL)
        assert fredholm("points", "train", root / "train.npz", "-o", root / "run", *options) == 0
    return root


def test_balls_plates_and_rods_are_told_apart(trained, capsys) -> None:
    scores, page, rows = trained / "scores.json", trained / "report.html", trained / "rows.csv"
    arguments = ("points", "evaluate", trained / "run", trained / "test.npz", "--json", scores, "--csv", rows)
    assert fredholm(*arguments, "--report", page) == 0
    out = capsys.readouterr().out
    found = json.loads(scores.read_text())
    assert found["overall"] >= 0.9
    assert (found["votes"], found["points"], found["sampler"]) == (1, 32, "farthest points")
    assert np.array(found["confusion"]).sum() == 15
    assert "overall" in out
    assert "votes 1" in out
    table = list(csv.DictReader(rows.read_text().splitlines()))
    right = sum(row["class"] == row["predicted"] for row in table)
    assert right / len(table) == pytest.approx(found["overall"])
    assert page.read_text().count("<figure>") >= 2


def test_the_same_scores_come_out_each_time_and_in_any_order_of_points(trained) -> None:
    content = dict(np.load(trained / "test.npz"))
    order = np.random.default_rng(0).permutation(content["points"].shape[1])
    np.savez(trained / "shuffled.npz", **{**content, "points": content["points"][:, order]})
    found = []
    for name in ("test", "test", "shuffled"):
        fredholm("points", "evaluate", trained / "run", trained / f"{name}.npz", "--csv", trained / "each.csv")
        rows = csv.reader((trained / "each.csv").read_text().splitlines())
        found.append([row[1:] for row in rows])
    assert found[0] == found[1] == found[2]


def test_the_best_weights_were_chosen_on_training_clouds(trained) -> None:
    run = Run.open(trained / "run", PointPlan.read)
    assert [row for row in run.read_log() if "accuracy" in row]
    assert run.best_file.is_file()
    assert (
        fredholm("points", "evaluate", trained / "run", trained / "test.npz", "--weights", "best", "--votes", "2") == 0
    )


def test_a_folder_is_classified_and_a_bad_file_stops_no_other(trained, tmp_path, capsys) -> None:
    points, labels = clouds(1, seed=2)
    for cloud, label in zip(points, labels, strict=True):
        np.savetxt(tmp_path / f"{NAMES[label]}.xyz", cloud)
    (tmp_path / "damaged.off").write_text("OFF\n3 1 0\n0 0 0\n")
    code = fredholm("points", "predict", "-i", tmp_path, "--run", trained / "run", "-o", tmp_path / "out.json")
    said = capsys.readouterr()
    assert code == 1
    assert "damaged.off" in said.err
    assert "1 of 4 files could not be read" in said.err
    found = json.loads((tmp_path / "out.json").read_text())
    assert {Path(one["file"]).stem: one["class"] for one in found} == dict(zip(NAMES, NAMES, strict=True))
    for one in found:
        assert sum(one["probabilities"].values()) == pytest.approx(1)
    assert "ball.xyz" in said.out


def test_one_file_is_classified_and_its_table_written(trained, tmp_path) -> None:
    np.savetxt(tmp_path / "rod.txt", clouds(1, points=20)[0][2])  # fewer points than the network sees
    run = ("--run", trained / "run")
    assert fredholm("points", "predict", "-i", tmp_path / "rod.txt", *run, "-o", tmp_path / "out.csv") == 0
    rows = csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
    assert [row["class"] for row in rows] == ["rod"]


def test_a_run_goes_on_as_if_it_had_never_stopped(trained, tmp_path, monkeypatch) -> None:
    from fredholm.pipelines.training import Trainer

    once = ("points", "train", trained / "train.npz", "--epochs", "1", "--validate-every", "0", *SMALL)
    recipe = {"steps": 6, "save_every": 3}
    original = PointPlan.__post_init__

    def short(self) -> None:
        original(self)
        for name, value in recipe.items():
            object.__setattr__(self.recipe, name, value)

    monkeypatch.setattr(PointPlan, "__post_init__", short)
    fredholm(*once, "-o", tmp_path / "whole")
    take_step = Trainer._step

    def stopped(self, batches) -> None:
        if self.step == 4:
            raise KeyboardInterrupt
        take_step(self, batches)

    monkeypatch.setattr(Trainer, "_step", stopped)
    assert fredholm(*once, "-o", tmp_path / "parts") == 130
    monkeypatch.setattr(Trainer, "_step", take_step)
    assert fredholm(*once, "-o", tmp_path / "parts", "--resume") == 0
    whole, parts = (Run.open(tmp_path / name, PointPlan.read) for name in ("whole", "parts"))
    assert whole.weights_file.read_bytes() == parts.weights_file.read_bytes()


def test_what_is_wrong_is_one_line(trained, tmp_path, capsys) -> None:
    code = fredholm("points", "train", tmp_path / "nowhere", "-o", tmp_path / "run")
    says(capsys, "no data set at", code=code)
    code = fredholm("points", "train", trained / "train.npz", "-o", tmp_path / "run", "--normals", *SMALL)
    says(capsys, "--normals was asked for, and not every cloud has them", code=code)
    assert not (tmp_path / "run").exists()
    code = fredholm("points", "train", trained / "train.npz", "-o", tmp_path / "run", "--points", "4")
    says(capsys, "points is a whole number of 64 or more", code=code)
    np.savez(tmp_path / "other.npz", points=np.eye(3)[None], labels=[0], class_names=["cone", "cube"])
    code = fredholm("points", "evaluate", trained / "run", tmp_path / "other.npz")
    says(capsys, "has the classes cone, cube, the run ball, plate, rod", code=code)
    code = fredholm("points", "predict", "-i", tmp_path / "run", "--run", trained / "run")
    says(capsys, "no such file or folder", code=code)
    code = fredholm("points", "predict", "-i", trained / "test.npz", "--run", trained / "run", "-o", tmp_path / "x.txt")
    says(capsys, ".csv", code=code)
