"""An evaluation asks every predictor the same, and what it says can be counted by hand."""

import csv
import io
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from fredholm.pipelines.forecast.evaluation import Evaluation, Scores, evaluate, measure
from fredholm.pipelines.forecast.scores import spectrum, trainer_windows, vrmse
from fredholm.pipelines.forecast.surrogate import Surrogate
from fredholm.pipelines.well.folder import WellFolder
from fredholm.pipelines.well.windows import Windows
from helpers.well import write_file, write_run, write_set


@pytest.fixture
def surrogate(tmp_path: Path) -> Surrogate:
    run = write_run(tmp_path / "run", write_set(tmp_path / "set", frames=9))
    return Surrogate(run, run.weights_file, torch.device("cpu"))


@pytest.fixture
def windows(surrogate: Surrogate, tmp_path: Path) -> Windows:
    write_file(tmp_path / "set/data/test/short.hdf5", frames=5, seed=9)
    return Windows(WellFolder.open(tmp_path / "set"), "test", 2)


@pytest.fixture
def evaluation(surrogate: Surrogate, windows: Windows) -> Evaluation:
    return evaluate(surrogate, windows, {str(n): numbers for n, numbers in enumerate(windows.trajectories)}, batch=3)


def test_persistence_and_the_mean_are_what_they_are_called(
    evaluation: Evaluation, windows: Windows, surrogate: Surrogate
) -> None:
    std = torch.tensor(surrogate.run.plan.simulation.statistics.std)
    numbers = windows.trajectories[2]
    frames = torch.cat((windows[numbers[0]].history, *(windows[number].target for number in numbers)))
    persistence = evaluation.predictors["persistence"]
    np.testing.assert_allclose(persistence.one_step[2, :, 0], vrmse(frames[1:-1], frames[2:], std))
    still = frames[1:2].expand_as(frames[2:])
    np.testing.assert_allclose(persistence.rollout[2, :, 0], vrmse(still, frames[2:], std))
    level = still.mean((1, 2), keepdim=True).expand_as(still)
    np.testing.assert_allclose(evaluation.predictors["mean"].rollout[2, :, 0], vrmse(level, frames[2:], std), rtol=1e-6)


def test_the_first_step_of_a_rollout_is_one_step_and_the_others_are_not(evaluation: Evaluation) -> None:
    scores = evaluation.predictors["surrogate"]
    assert np.array_equal(scores.one_step[:, 0], scores.rollout[:, 0])
    assert (scores.one_step[2:, 1:, 0] != scores.rollout[2:, 1:, 0]).all()


def test_a_shorter_trajectory_counts_as_far_as_it_goes(evaluation: Evaluation) -> None:
    scores = evaluation.predictors["surrogate"].rollout[:, :, 0, 0]
    assert scores.shape == (4, 7)
    assert np.isnan(scores[:2, 3:]).all()
    assert evaluation.window("surrogate", 3, 7)[0, 0] == pytest.approx(scores[2:, 3:].mean())
    assert evaluation.one_step("surrogate").shape == (5, 3)


def test_together_they_score_as_alone(evaluation: Evaluation, surrogate: Surrogate, windows: Windows) -> None:
    alone = evaluate(surrogate, windows, {"only": windows.trajectories[3]}).predictors["surrogate"]
    np.testing.assert_allclose(alone.rollout[0], evaluation.predictors["surrogate"].rollout[3], rtol=1e-4)


def test_what_is_not_finite_is_infinitely_wrong() -> None:
    truth, prediction = torch.randn(2, 8, 2), torch.randn(2, 8, 2)
    prediction[1, 3, 0] = torch.nan
    found = measure(prediction, truth, torch.ones(2))
    assert found[1, :, 0].isinf().all()
    assert found[0].isfinite().all()
    scores = np.stack([found.numpy()] * 3)
    scores[2] = 1.0
    evaluation = Evaluation({"surrogate": Scores(scores, scores)}, "abc", ("u", "v"))
    assert evaluation.predictors["surrogate"].diverged == 2
    assert evaluation.one_step("surrogate")[0, 0] == np.inf
    means = evaluation.as_dict()["predictors"]["surrogate"]["one_step"]["vrmse"]
    assert means["u"] is means["mean"] is None
    assert means["v"] is not None
    assert evaluation.typical in (0, 1)


def test_in_another_unit_the_scores_are_the_same(surrogate: Surrogate, tmp_path: Path) -> None:
    """G1, G7: what is scored is denormalised, and no score has a unit."""
    write_set(tmp_path / "other", frames=9)
    for file in (tmp_path / "other").rglob("*.hdf5"):
        with h5py.File(file, "r+") as opened:
            for name in ("t0_fields/density", "t1_fields/velocity"):
                opened[name][()] = 1024 * opened[name][()]  # a power of two: nothing is rounded
    run = write_run(tmp_path / "other run", tmp_path / "other")
    other = Surrogate(run, run.weights_file, torch.device("cpu"))
    found = []
    for one, folder in ((surrogate, "set"), (other, "other")):
        windows = Windows(WellFolder.open(tmp_path / folder), "test", 2)
        found.append(evaluate(one, windows, {"0": windows.trajectories[0]}).predictors["surrogate"].rollout)
    defined = [0, 2, 3, 4]  # all but the one that counts as The Well's code does
    np.testing.assert_allclose(found[0][:, :, defined], found[1][:, :, defined], rtol=1e-4)


def test_the_table_has_every_step_that_was_scored(evaluation: Evaluation) -> None:
    rows = list(csv.DictReader(io.StringIO(evaluation.as_csv())))
    assert len(rows) == 3 * 3 * (3 + 3 + 7 + 7)
    scores = evaluation.predictors["surrogate"]
    (row,) = [row for row in rows if list(row.values())[:4] == ["surrogate", "3", "5", "velocity_y"]]
    assert float(row["rollout_vrmse"]) == pytest.approx(scores.rollout[3, 5, 0, 2], rel=1e-5)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (100, [(0, 1), (1, 3), (3, 10), (10, 31), (31, 100)]),
        (500, [(0, 1), (1, 3), (3, 10), (10, 31), (31, 100)]),
        (97, [(0, 1), (1, 3), (3, 9), (9, 30), (30, 97)]),
        (77, [(0, 1), (1, 2), (2, 8), (8, 25), (25, 77)]),
        (1, [(0, 1)]),
    ],
)
def test_the_trainers_windows_are_its_own(steps: int, expected: list[tuple[int, int]]) -> None:
    assert trainer_windows(steps) == expected


def test_a_wave_has_its_energy_at_its_number() -> None:
    x = torch.arange(16) * 2 * torch.pi / 16
    found = spectrum((3 + torch.cos(5 * x)).view(1, 16, 1, 1).expand(1, 16, 12, 1))
    assert found.shape == (1, 6, 1)
    assert found[0, :, 0].argmax() == 4
    assert found.sum().item() == pytest.approx(0.5, rel=1e-5)  # the mean square of a cosine
