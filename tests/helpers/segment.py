"""Small labelled scans, the command in-process, and what a mistake must look like."""

from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from fredholm.apps.cli import main
from fredholm.pipelines.ledger import NAME
from fredholm.pipelines.nifti import write_labels, write_volume
from fredholm.pipelines.plan import Network, Plan, Preparation
from fredholm.pipelines.run import Run
from fredholm.pipelines.volume import Volume

GEOMETRY = [
    *("dim", "pixdim", "xyzt_units", "sform_code", "qform_code", "srow_x", "srow_y", "srow_z"),
    *("quatern_b", "quatern_c", "quatern_d", "qoffset_x", "qoffset_y", "qoffset_z"),
]
AFFINE = np.array([[-1.0, 0, 0, 0], [0, -1, 0, -318], [0, 0, 1, 0], [0, 0, 0, 1]])
PLAN = Plan(
    names={0: "background", 1: "spleen", 2: "liver"},
    preparation=Preparation(spacing_mm=(1.0, 1.0, 1.0), window_hu=(-150.0, 250.0)),
    network=Network(feature_size=12),
    window=(32, 32, 32),
)
QUICK = ["--feature-size", "12", "--window", "32", "32", "32", "--epochs", "1", "--precision", "32-true"]


def fredholm(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def body(number: int, shape=(24, 20, 28)) -> tuple[Volume, np.ndarray]:
    """Two blocks of tissue in air; LPS, as many files are."""
    rng = np.random.default_rng(number)
    labels = np.zeros(shape, np.uint8)
    labels[4:12, 4:12, 4:12] = 1
    labels[14:22, 8:16, 10:20] = 2
    array = np.array([-1000.0, 50.0, 150.0])[labels] + rng.normal(0, 10, shape)
    return Volume(np.rint(array).astype(np.float32), AFFINE), labels


def write_scan(path: Path, shape=(24, 20, 28), number=0, affine=AFFINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_volume(path, replace(body(number, shape)[0], affine=affine))
    return path


def data_set(root: Path, count: int = 2, shape=(24, 20, 28)) -> Path:
    for number in range(count):
        volume, labels = body(number, shape)
        for kind in ("images", "labels"):
            (root / kind).mkdir(parents=True, exist_ok=True)
        write_volume(root / f"images/case_{number}.nii.gz", volume)
        write_labels(root / f"labels/case_{number}.nii.gz", labels, like=volume)
    (root / "names.json").write_text('{"1": "spleen", "2": "liver"}')
    return root


def even_run(folder: Path) -> Path:
    """A run with random weights, its head made even so that every class wins somewhere."""
    torch.manual_seed(1)
    model = PLAN.network.build(3).eval()
    with torch.inference_mode():
        mean = model(torch.rand(1, 1, 32, 32, 32) * 2 - 1).mean((0, 2, 3, 4))
        name = next(name for name, weight in model.named_parameters() if name.startswith("head") and weight.ndim == 1)
        model.get_parameter(name).sub_(mean)
    made = Run.create(folder, PLAN)
    made.save_weights(model.state_dict())
    return made.folder


def says(capsys: pytest.CaptureFixture[str], *words: str, code: int, expected: int = 1) -> str:
    """Nothing on stdout; on stderr one line from the command, with these words, and no traceback."""
    out, err = capsys.readouterr()
    assert code == expected
    assert out == ""
    (line,) = [line for line in err.splitlines() if line.startswith("fredholm: ")]
    assert "Traceback" not in err
    for word in words:
        assert word in line
    return line


def names(folder: Path) -> list[str]:
    """What lies in a folder, but for the record of what was made there."""
    return sorted(path.name for path in folder.iterdir() if path.name != NAME)


def predict(source: Path, target: Path, run: Path, *options: object) -> int:
    return fredholm("segment", "predict", "-i", source, "-o", target, "--run", run, "--precision", "32-true", *options)


def assert_same_geometry(one: Path, other: Path) -> None:
    first, second = (nib.load(path).header for path in (one, other))
    assert first.sizeof_hdr == second.sizeof_hdr  # pyright: ignore[reportAttributeAccessIssue]
    for name in GEOMETRY:
        assert first[name].tobytes() == second[name].tobytes(), name  # pyright: ignore[reportIndexIssue]
