"""The command that plans: the plan that training makes, with reasons, taken by training as it is or edited."""

from pathlib import Path

import pytest
from fredholm.pipelines.plan import Plan
from helpers.segment import QUICK, data_set, fredholm, names, says

pytestmark = pytest.mark.filterwarnings("default::UserWarning")


@pytest.mark.slow
def test_a_plan_is_written_with_reasons_edited_and_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, file = data_set(tmp_path / "data", 1), tmp_path / "plan.yaml"
    assert fredholm("segment", "plan", data, "-o", file, *QUICK, "--memory", "4GB") == 0
    told, path = capsys.readouterr().out.splitlines()
    assert "s a step, " in told
    assert path == str(file)
    text = file.read_text()
    assert text.startswith(f"# Expected on this machine: {told}.\n")
    assert "# spleen: 0.512 ml, 3.8 % of voxels, in 1 of 1\n" in text
    file.write_text(text.replace("class_weights: {}", "class_weights: {2: 3.0}"))
    assert fredholm("segment", "train", data, "-o", tmp_path / "edited", "--plan", file) == 0
    assert fredholm("segment", "train", data, "-o", tmp_path / "own", *QUICK) == 0
    own, edited = (Plan.read(tmp_path / run / "plan.yaml") for run in ("own", "edited"))
    assert edited == Plan.read(file)
    assert own.recipe is not None
    assert edited.recipe is not None
    own.recipe.class_weights[2] = 3.0
    assert own == edited  # training by itself makes the same plan
    weights = [(tmp_path / run / "weights.safetensors").read_bytes() for run in ("own", "edited")]
    assert weights[0] != weights[1]  # and the edit had an effect


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--stages", "HHHH"), "--stages: the plan says it; change it in"),
        (("--window", "32", "32", "32"), "--window: the plan says it"),
        (("--resume",), "--plan and --resume exclude each other"),
    ],
)
def test_options_that_a_given_plan_leaves_without_effect_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...], words: str
) -> None:
    command = ("segment", "train", tmp_path, "-o", tmp_path / "run", "--plan", tmp_path / "plan.yaml", *option)
    says(capsys, words, code=fredholm(*command))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--memory", "much"), "expected an amount of memory such as 8GB, not 'much'"),
        (("--memory", "1MB"), "even a window of 32 x 32 x 32 with feature size 12 takes"),
        (("--stages", "HHXA"), "unknown letter 'X'"),
    ],
)
def test_mistakes_are_one_line_and_leave_no_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    data = data_set(tmp_path / "data", 1)
    command = ("segment", "plan", data, "-o", tmp_path / "plan.yaml", *QUICK, *options)
    assert fredholm(*command) == 1
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert names(tmp_path) == ["data"]


def test_a_plan_needs_a_folder_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("segment", "plan", data_set(tmp_path / "data", 1), "-o", tmp_path / "none" / "plan.yaml")
    says(capsys, "no such folder", code=fredholm(*command))
