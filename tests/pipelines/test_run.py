"""A run is a folder; what is missing, damaged or of another network is named, and loading it runs no code."""

import math
import pickle
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fredholm.pipelines.plan import Network, Plan, Preparation
from fredholm.pipelines.run import Run
from safetensors.torch import load_file
from torch import Tensor

NETWORK = Network(stages="AAAA", feature_size=12)
PLAN = Plan(
    names={0: "background", 1: "spleen", 2: "liver"},
    preparation=Preparation(spacing_mm=(1.0, 1.0, 1.0), window_hu=(-100.0, 200.0)),
    network=NETWORK,
    window=(32, 32, 32),
)


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return NETWORK.build(3).state_dict()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", PLAN)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB; mounting one needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Code:
    """Unpickled as any pickle is, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_new_run_makes_its_folder_and_holds_its_plan(tmp_path: Path) -> None:
    made = Run.create(tmp_path / "deep" / "run", PLAN)
    assert names(tmp_path / "deep") == ["run", "run/plan.yaml"]
    assert Run.open(made.folder) == made


def test_a_folder_that_holds_a_run_is_not_taken_for_a_new_one(run: Run) -> None:
    before = (run.folder / "plan.yaml").read_bytes()
    with pytest.raises(FileExistsError, match="already holds a run: --resume goes on with it"):
        Run.create(run.folder, replace(PLAN, notes=("other",)))
    assert (run.folder / "plan.yaml").read_bytes() == before


def test_a_folder_with_other_files_may_become_a_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    Run.create(tmp_path, PLAN)
    assert names(tmp_path) == ["notes.txt", "plan.yaml"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"no run at {tmp_path / 'absent'}: no such folder"):
        Run.open(tmp_path / "absent")


def test_a_folder_without_a_plan_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"{tmp_path} is no run: plan.yaml is missing"):
        Run.open(tmp_path)


def test_a_run_without_weights_names_them(run: Run) -> None:
    with pytest.raises(FileNotFoundError, match=r"is no finished run: weights.safetensors is missing"):
        run.load_model()


def test_a_run_without_a_state_names_it(run: Run) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot be resumed: state/last.pt is missing"):
        run.load_state()


def test_a_changed_plan_is_kept(run: Run) -> None:
    changed = run.replan(replace(PLAN, notes=("changed",)))
    assert changed.plan.notes == ("changed",)
    assert Run.open(run.folder) == changed


def test_weights_come_back_bit_for_bit_in_evaluation_mode(run: Run, weights: dict[str, Tensor]) -> None:
    run.save_weights(weights)
    model = run.load_model()
    assert not model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, weights[name])
    assert names(run.folder) == ["plan.yaml", "weights.safetensors"]


def test_weights_of_any_layout_are_written(run: Run) -> None:
    given = {"a": torch.randn(4, 6).T, "b": torch.randn(3, 3, requires_grad=True)[:, 1], "c": torch.arange(3)}
    run.save_weights(given)
    found = load_file(run.weights_file)
    assert all(torch.equal(found[name], tensor) for name, tensor in given.items())


@pytest.mark.parametrize("keep", [0, 5, 300, -1])
def test_damaged_weights_are_named(run: Run, weights: dict[str, Tensor], keep: int) -> None:
    run.save_weights(weights)
    run.weights_file.write_bytes(run.weights_file.read_bytes()[:keep])
    with pytest.raises(ValueError, match=f"{run.weights_file} is damaged") as caught:
        run.load_model()
    assert "\n" not in str(caught.value)


def test_weights_that_are_something_else_are_named(run: Run) -> None:
    run.weights_file.write_bytes(b"<html>404 not found</html>" * 40)
    with pytest.raises(ValueError, match=f"{run.weights_file} is damaged"):
        run.load_model()


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAN, network=Network(stages="HHAA", feature_size=12)),
        replace(PLAN, network=Network(stages="AAAA", feature_size=24)),
        replace(PLAN, names={0: "background", 1: "spleen"}),
    ],
    ids=["letters", "width", "classes"],
)
def test_weights_of_another_network_are_refused_on_one_line(run: Run, weights: dict[str, Tensor], other: Plan) -> None:
    run.save_weights(weights)
    with pytest.raises(ValueError, match=f"{run.weights_file} does not fit plan.yaml: .+") as caught:
        run.replan(other).load_model()
    assert "\n" not in str(caught.value)


def test_a_state_comes_back_and_needs_no_pickled_code(run: Run) -> None:  # I1
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    given = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": 7,
        "unlogged": [0.5, 0.25],
        "random": torch.get_rng_state(),
    }
    run.save_state(given)
    torch.load(run.state_file, weights_only=True)
    found = run.load_state()
    assert list(found) == list(given)
    assert (found["step"], found["unlogged"]) == (7, [0.5, 0.25])
    assert torch.equal(found["model"]["weight"], model.weight)  # pyright: ignore[reportIndexIssue]
    optimizer.load_state_dict(found["optimizer"])  # pyright: ignore[reportArgumentType]
    assert names(run.folder) == ["plan.yaml", "state", "state/last.pt"]


def test_a_new_state_takes_the_place_of_the_old(run: Run) -> None:
    for step in (1, 2):
        run.save_state({"step": step})
    assert run.load_state() == {"step": 2}
    assert names(run.folder) == ["plan.yaml", "state", "state/last.pt"]


def test_a_state_with_code_in_it_is_refused_and_not_run(run: Run, tmp_path: Path) -> None:  # I1
    run.state_file.parent.mkdir()
    torch.save({"step": Code(tmp_path / "ran")}, run.state_file)
    with pytest.raises(ValueError, match="is damaged") as caught:
        run.load_state()
    assert "\n" not in str(caught.value)
    run.state_file.write_bytes(pickle.dumps(Code(tmp_path / "ran")))
    with pytest.raises(ValueError, match="is damaged"):
        run.load_state()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_state_is_named(run: Run, share: float) -> None:
    run.save_state({"model": torch.randn(1000)})
    content = run.state_file.read_bytes()
    run.state_file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=f"{run.state_file} is damaged"):
        run.load_state()


def test_an_empty_state_is_named(run: Run) -> None:
    run.state_file.parent.mkdir()
    run.state_file.touch()
    with pytest.raises(ValueError, match="is damaged"):
        run.load_state()


def test_an_error_while_writing_keeps_weights_and_state(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.save_weights({"a": torch.ones(3)})
    run.save_state({"step": 1})

    def half(_: object, path: Path, *more: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("fredholm.pipelines.tensors.save_file", half)
    monkeypatch.setattr("torch.save", half)
    with pytest.raises(KeyboardInterrupt):
        run.save_weights({"a": torch.zeros(3)})
    with pytest.raises(KeyboardInterrupt):
        run.save_state({"step": 2})
    assert torch.equal(load_file(run.weights_file)["a"], torch.ones(3))
    assert run.load_state() == {"step": 1}
    assert names(run.folder) == ["plan.yaml", "state", "state/last.pt", "weights.safetensors"]


def test_on_a_full_disk_the_earlier_files_stay_and_nothing_is_left_beside(full_disk: Path) -> None:
    run = Run.create(full_disk / "run", PLAN)
    run.save_weights({"a": torch.ones(3)})
    run.save_state({"step": 1})
    for write in (run.save_weights, run.save_state):
        with pytest.raises(Exception):  # noqa: B017, PT011 (which one is the next test's affair)
            write({"a": torch.randn(200_000)})
    assert torch.equal(load_file(run.weights_file)["a"], torch.ones(3))
    assert run.load_state() == {"step": 1}
    assert names(run.folder) == ["plan.yaml", "state", "state/last.pt", "weights.safetensors"]


@pytest.mark.parametrize("what", ["save_weights", "save_state"])
def test_a_full_disk_is_an_os_error(full_disk: Path, what: str) -> None:
    run = Run.create(full_disk / "run", PLAN)
    with pytest.raises(OSError, match="No space left"):
        getattr(run, what)({"a": torch.randn(200_000)})


def test_the_log_comes_back(run: Run) -> None:
    rows = [
        {"step": 9, "loss": 1.25, "lr": 4e-4, "seconds": 3.5},
        {"step": 19, "loss": 0.5, "dice": 0.75, "lr": 1e-5, "seconds": 7.0},
        {"step": 29, "dice": 0.125, "lr": 0.0, "seconds": 8.0},
    ]
    assert run.read_log() == []
    for row in rows:
        run.log(row)
    assert run.read_log() == rows
    assert run.log_file.read_text().splitlines()[0] == ",".join(run.columns)


def test_a_score_that_is_no_number_is_logged_all_the_same(run: Run) -> None:
    run.log({"step": 1, "dice": math.nan})
    (row,) = run.read_log()
    assert math.isnan(row["dice"])


def test_a_step_beyond_a_million_is_logged_exactly(run: Run) -> None:
    run.log({"step": 1_234_567, "loss": 1.0})
    assert run.read_log()[0]["step"] == 1_234_567


def test_lines_from_a_step_on_are_cut(run: Run) -> None:
    for step in (9, 19, 29, 39):
        run.log({"step": step, "loss": 1 / 3, "lr": 1e-4, "seconds": step / 7})
    before = run.log_file.read_text().splitlines()
    run.cut_log(29)
    assert [row["step"] for row in run.read_log()] == [9, 19]
    assert run.log_file.read_text().splitlines() == before[:3]  # what stays is not rewritten in other digits
    run.log({"step": 29, "loss": 0.1})
    assert [row["step"] for row in run.read_log()] == [9, 19, 29]


def test_cutting_nothing_changes_no_byte(run: Run) -> None:
    run.log({"step": 9, "loss": 1.0})
    before = run.log_file.read_bytes()
    run.cut_log(100)
    assert run.log_file.read_bytes() == before


@pytest.mark.parametrize("step", [0, 100])
def test_cutting_may_take_all_or_nothing(run: Run, step: int) -> None:
    run.log({"step": 9, "loss": 1.0})
    run.cut_log(step)
    assert len(run.read_log()) == (0 if step == 0 else 1)


def test_cutting_a_log_that_is_not_there_makes_an_empty_one(run: Run) -> None:
    run.cut_log(5)
    assert run.read_log() == []
    run.log({"step": 0, "loss": 1.0})
    assert run.log_file.read_text().count("step") == 1
