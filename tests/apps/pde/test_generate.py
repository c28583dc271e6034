"""`fredholm pde generate`: what it writes passes the checker, and a second run keeps it."""

from pathlib import Path

import pytest
from fredholm.pipelines.forecast.planning import edges_of
from fredholm.pipelines.well.folder import WellFolder
from fredholm.pipelines.well.windows import Windows
from helpers.segment import fredholm, says

QUICK = ["--grid", 8, "--trajectories", 3, "--frames", 3]


MADE = [  # name, axes, files of a split, edges
    ("acoustics", 2, 1, ("WALL", "OPEN")),
    ("burgers", 2, 3, ("PERIODIC", "WALL")),
    ("gray_scott", 2, 6, ("PERIODIC",) * 2),
    ("gray_scott", 3, 6, ("PERIODIC",) * 3),
    ("shear_flow", 2, 6, ("PERIODIC",) * 2),
]


@pytest.mark.parametrize(("name", "dim", "each", "edges"), MADE)
def test_what_is_made_is_good_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, dim: int, each: int, edges: tuple[str, ...]
) -> None:
    made = ["pde", "generate", name, "-o", tmp_path, "--dim", dim, *QUICK]
    assert fredholm(*made) == 0
    assert fredholm("pde", "check", tmp_path) == 0
    files = {file: file.read_bytes() for file in tmp_path.rglob("*.hdf5")}
    assert len(files) == 3 * each
    assert edges_of(Windows(WellFolder.open(tmp_path), "test").contents) == edges
    gone = sorted(files)[0]
    gone.unlink()
    assert fredholm(*made) == 0
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.hdf5")} == files
    capsys.readouterr()
    says(capsys, "made with other options", code=fredholm(*made, "--seed", 1))


@pytest.mark.parametrize("name", ["acoustics", "burgers", "shear_flow"])
def test_what_is_of_the_plane_stays_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    code = fredholm("pde", "generate", name, "-o", tmp_path / "set", "--dim", 3, *QUICK)
    says(capsys, "expected --dim 2, got 3", code=code)
    assert not (tmp_path / "set").exists()
