"""Curves are the log's columns, and a training that goes on draws them on."""

import math
from pathlib import Path

from fredholm.pipelines.tensorboard import TensorBoard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def drawn(folder: Path) -> dict[str, dict[int, float]]:
    """Value by step of each curve."""
    events = EventAccumulator(str(folder)).Reload()
    return {name: {event.step: event.value for event in events.Scalars(name)} for name in events.Tags()["scalars"]}


def test_nothing_is_made_before_the_first_line(tmp_path: Path) -> None:
    TensorBoard(tmp_path / "curves")
    assert list(tmp_path.iterdir()) == []


def test_a_curve_has_the_values_of_its_column_where_there_are_some(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path / "curves")
    board({"step": 9, "loss": 0.5, "lr": 0.25})
    board({"step": 12, "dice": 0.75, "lr": 0.125})
    assert drawn(tmp_path / "curves") == {"loss": {9: 0.5}, "dice": {12: 0.75}, "lr": {9: 0.25, 12: 0.125}}


def test_a_line_can_be_seen_at_once(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path)
    for step in range(3):
        board({"step": step, "loss": step / 2})
        assert drawn(tmp_path)["loss"][step] == step / 2


def test_what_a_training_that_was_stopped_drew_too_far_is_hidden(tmp_path: Path) -> None:
    first, second = TensorBoard(tmp_path), TensorBoard(tmp_path)
    for step in (9, 19, 29):
        first({"step": step, "loss": 1.0})
    second({"step": 19, "loss": 0.5})
    assert drawn(tmp_path) == {"loss": {9: 1.0, 19: 0.5}}


def test_a_value_that_is_no_number_does_not_stop_the_training(tmp_path: Path) -> None:
    TensorBoard(tmp_path)({"step": 0, "dice": math.nan})
    assert math.isnan(drawn(tmp_path)["dice"][0])
