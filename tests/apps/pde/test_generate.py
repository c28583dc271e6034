"""`fredholm pde generate`: what it writes passes the checker, and a second run keeps it."""

from pathlib import Path

import pytest
from helpers.segment import fredholm, says

QUICK = ["--grid", 8, "--trajectories", 3, "--frames", 3]


@pytest.mark.parametrize(("name", "dim"), [("gray_scott", 2), ("gray_scott", 3), ("shear_flow", 2)])
def test_what_is_made_is_good_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, dim: int) -> None:
    made = ["pde", "generate", name, "-o", tmp_path, "--dim", dim, *QUICK]
    assert fredholm(*made) == 0
    assert fredholm("pde", "check", tmp_path) == 0
    files = {file: file.read_bytes() for file in tmp_path.rglob("*.hdf5")}
    assert len(files) == 18
    gone = sorted(files)[0]
    gone.unlink()
    assert fredholm(*made) == 0
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.hdf5")} == files
    capsys.readouterr()
    says(capsys, "made with other options", code=fredholm(*made, "--seed", 1))


def test_a_flow_in_the_plane_stays_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = fredholm("pde", "generate", "shear_flow", "-o", tmp_path / "set", "--dim", 3, *QUICK)
    says(capsys, "expected --dim 2, got 3", code=code)
    assert not (tmp_path / "set").exists()
