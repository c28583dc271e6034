"""From labelled scans to scored label maps through the command, and every mistake on one line."""

import errno
import gzip
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from fredholm.apps import console, segment
from fredholm.apps.cli import main
from fredholm.pipelines.nifti import read_labels, read_volume, write_labels, write_volume
from fredholm.pipelines.plan import Network, Plan, Preparation
from fredholm.pipelines.predict import Predictor
from fredholm.pipelines.run import Run
from fredholm.pipelines.scores import dice
from fredholm.pipelines.training import Trainer
from fredholm.pipelines.volume import Volume, canonical
from nibabel.orientations import apply_orientation, axcodes2ornt, inv_ornt_aff

# warnings are lines on stderr once the command has begun; here they must not be errors
pytestmark = pytest.mark.filterwarnings("default::UserWarning")

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


@pytest.fixture(autouse=True)
def _short_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "EPOCH", 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with random weights, its head made even so that every class wins somewhere."""
    torch.manual_seed(1)
    model = PLAN.network.build(3).eval()
    with torch.inference_mode():
        mean = model(torch.rand(1, 1, 32, 32, 32) * 2 - 1).mean((0, 2, 3, 4))
        name = next(name for name, weight in model.named_parameters() if name.startswith("head") and weight.ndim == 1)
        model.get_parameter(name).sub_(mean)
    made = Run.create(tmp_path_factory.mktemp("runs") / "run", PLAN)
    made.save_weights(model.state_dict())
    return made.folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of one layer, where which network it is does not matter."""
    monkeypatch.setattr(Network, "build", lambda _, classes: torch.nn.Conv3d(1, classes, 3, padding=1))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
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


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# train, predict, evaluate


def test_from_labelled_scans_to_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, trained = data_set(tmp_path / "data"), tmp_path / "run"
    assert fredholm("segment", "train", data, "-o", trained, *QUICK, "--validation", "case_1") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["Dice", "case_1"]
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["spleen", "liver", "mean"]
    assert out.splitlines()[-1] == str(trained)
    assert "1 cases to train on, 1 held out, 2 classes; spacing 1 x 1 x 1 mm" in err
    assert names(trained) == ["log.csv", "plan.yaml", "state", "weights.safetensors"]
    plan = Plan.read(trained / "plan.yaml")
    assert plan.names == PLAN.names
    assert plan.data == {"folder": "data", "training": ["case_0"], "validation": ["case_1"]}
    assert plan.recipe is not None
    assert plan.recipe.steps == 3
    (row,) = Run.open(trained).read_log()
    assert (row["step"], row["loss"] > 0) == (2, True)

    assert fredholm("segment", "predict", "-i", data / "images", "-o", tmp_path / "found", "--run", trained) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(tmp_path / "found" / f"case_{number}.nii.gz") for number in (0, 1)]
    assert "fredholm:" not in err
    assert names(tmp_path / "found") == ["case_0.nii.gz", "case_1.nii.gz"]

    command = ("segment", "evaluate", tmp_path / "found", data / "labels", "--names", data / "names.json")
    assert fredholm(*command, "--json", tmp_path / "scores.json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[0].split() == ["Dice", "case_0", "case_1", "mean"]
    scores = json.loads((tmp_path / "scores.json").read_text())
    for name in ("case_0", "case_1"):
        found, truth = (
            read_labels(folder / f"{name}.nii.gz").array for folder in (tmp_path / "found", data / "labels")
        )
        row = dice(found, truth, [1, 2])
        assert scores["cases"][name] == {"spleen": pytest.approx(row[1]), "liver": pytest.approx(row[2])}
    assert scores["casewise"] == pytest.approx(np.mean(list(scores["mean_per_case"].values())))


def test_without_validation_only_the_folder_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_set(tmp_path / "data", 1)
    assert fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK, "--seed", "4", "--stages", "HHHH") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'run'}\n"
    plan = Plan.read(tmp_path / "run" / "plan.yaml")
    assert plan.network == Network(stages="HHHH", feature_size=12)
    assert plan.recipe is not None
    assert (plan.recipe.seed, plan.recipe.precision) == (4, "32-true")


@pytest.mark.usefixtures("small")
def test_minutes_are_turned_into_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [option for option in QUICK if option not in ("--epochs", "1")]
    data = data_set(tmp_path / "data", 1)
    assert fredholm("segment", "train", data, "-o", tmp_path / "run", *options, "--minutes", "1e-9") == 0
    recipe = Plan.read(tmp_path / "run" / "plan.yaml").recipe
    assert recipe is not None
    assert (recipe.steps, recipe.minutes) == (9, 1e-9)
    assert "s a step: 9 steps in 1e-09 minutes" in capsys.readouterr().err


def test_minutes_and_epochs_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("segment", "train", tmp_path, "-o", tmp_path / "run", "--minutes", "1", "--epochs", "1")
    says(capsys, "--minutes and --epochs exclude each other", code=fredholm(*command))


@pytest.mark.usefixtures("small")
def test_ctrl_c_saves_the_state_and_resume_goes_on_as_if_there_had_been_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_set(tmp_path / "data", 1)
    command = ("segment", "train", data, "-o")
    assert fredholm(*command, tmp_path / "whole", *QUICK) == 0
    step = console.Bar.step

    def stop(self: console.Bar, number: int, *more) -> None:
        step(self, number, *more)
        if number == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(console.Bar, "step", stop)
        capsys.readouterr()
        code = fredholm(*command, tmp_path / "halves", *QUICK)
        says(capsys, "stopped; what was finished is kept", code=code, expected=130)
    assert names(tmp_path / "halves") == ["plan.yaml", "state"]
    assert fredholm(*command, tmp_path / "halves", "--resume") == 0
    assert "going on at step 2 of 3" in capsys.readouterr().err
    whole, halves = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "halves"))
    assert whole == halves


@pytest.mark.usefixtures("small")
def test_a_finished_run_that_is_resumed_says_so_and_keeps_its_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # E5
    data, trained = data_set(tmp_path / "data", 1), tmp_path / "run"
    assert fredholm("segment", "train", data, "-o", trained, *QUICK) == 0
    weights, log = (trained / "weights.safetensors").read_bytes(), Run.open(trained).read_log()
    capsys.readouterr()
    assert fredholm("segment", "train", data, "-o", trained, "--resume") == 0
    assert "the run is finished already" in capsys.readouterr().err
    assert (trained / "weights.safetensors").read_bytes() == weights
    assert Run.open(trained).read_log() == log


@pytest.mark.usefixtures("small")
def test_a_finished_run_may_be_given_more_epochs(tmp_path: Path) -> None:  # E5
    data, trained = data_set(tmp_path / "data", 1), tmp_path / "run"
    assert fredholm("segment", "train", data, "-o", trained, *QUICK) == 0
    assert fredholm("segment", "train", data, "-o", trained, "--resume", "--epochs", "2") == 0
    assert Run.open(trained).load_state()["step"] == 6


def test_a_new_run_does_not_fall_upon_an_old_one(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "weights.safetensors").read_bytes()
    code = fredholm("segment", "train", data_set(tmp_path / "data", 1), "-o", run, *QUICK)
    says(capsys, f"{run} already holds a run: --resume goes on with it", code=code)
    assert (run / "weights.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--stages", "HHXA"], "unknown letter 'X'; known are A (WindowAttention), H (Hyena)"),
        (["--stages", "HH"], "expected four stages"),
        (["--feature-size", "13"], "multiple of 12, got 13"),
        (["--validation", "case_7"], "no case 'case_7'"),
        (["--validation", "case_0"], "every case is held out"),
        (["--spacing", "1", "0", "1"], "a spacing is three positive numbers of mm"),
        (["--device", "gpu"], "unknown device 'gpu'"),
        (["--resume"], "no run at"),
    ],
)
def test_a_wish_that_cannot_be_met_leaves_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    data = data_set(tmp_path / "data", 1)
    code = fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK, *options)
    says(capsys, words, code=code)
    assert not (tmp_path / "run").exists()


def test_a_window_that_does_not_fit_the_network_leaves_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_set(tmp_path / "data", 1, shape=(45, 34, 33))
    code = fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK, "--window", "40", "32", "32")
    says(capsys, "a multiple of 32", code=code)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--epochs", "0"],
        ["--epochs", "-1"],
        ["--accumulate", "0"],
        ["--batch", "0"],
        ["--ema", "2"],
        ["--window-hu", "250", "-150"],
    ],
)
def test_a_number_that_makes_no_sense_is_refused_before_a_run_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setattr(Trainer, "_step", lambda self, _: setattr(self, "step", self.step + 1))
    code = fredholm("segment", "train", data_set(tmp_path / "data", 1), "-o", tmp_path / "run", *QUICK, *options)
    says(capsys, code=code)
    assert not (tmp_path / "run").exists()


def test_a_data_set_without_labels_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_scan(tmp_path / "data/images/a.nii.gz")
    code = fredholm("segment", "train", tmp_path / "data", "-o", tmp_path / "run", *QUICK)
    says(capsys, "has images (1) but no label maps", code=code)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("make", [False, True])
def test_a_folder_without_images_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], make: bool) -> None:
    if make:
        (tmp_path / "data").mkdir()
    code = fredholm("segment", "train", tmp_path / "data", "-o", tmp_path / "run", *QUICK)
    says(capsys, "no images in" if make else "no such folder", str(tmp_path / "data"), code=code)


def test_a_label_map_on_another_grid_is_refused_with_both_shapes_and_affines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_set(tmp_path / "data", 1)
    other = Volume(np.ones((24, 20, 27), np.uint8), np.diag((1.5, 1.0, 1.0, 1.0)))
    write_labels(data / "labels/case_0.nii.gz", other.array, like=other)
    code = fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK)
    says(capsys, "case case_0: not on one grid", "(24, 20, 28)", "(24, 20, 27)", "-318", "1.5", code=code)
    assert not (tmp_path / "run").exists()


def test_a_label_without_a_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_set(tmp_path / "data", 1)
    (data / "names.json").write_text('{"1": "spleen"}')
    code = fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK)
    says(capsys, "case case_0: label values 2 have no name; known are 0, 1", code=code)


def test_a_label_map_without_any_label_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_set(tmp_path / "data", 1)
    write_labels(data / "labels/case_0.nii.gz", np.zeros((24, 20, 28), np.uint8), like=body(0)[0])
    code = fredholm("segment", "train", data, "-o", tmp_path / "run", *QUICK)
    says(capsys, "every label map is empty", code=code)


@pytest.mark.usefixtures("small")
def test_resuming_without_a_state_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, trained = data_set(tmp_path / "data", 1), tmp_path / "run"
    assert fredholm("segment", "train", data, "-o", trained, *QUICK) == 0
    shutil.rmtree(trained / "state")
    capsys.readouterr()
    says(capsys, "state/last.pt is missing", code=fredholm("segment", "train", data, "-o", trained, "--resume"))


def test_resuming_a_converted_run_is_refused(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = fredholm("segment", "train", data_set(tmp_path / "data", 1), "-o", run, "--resume")
    says(capsys, "recipe", code=code)


# predict


def predict(source: Path, target: Path, run: Path, *options: object) -> int:
    return fredholm("segment", "predict", "-i", source, "-o", target, "--run", run, "--precision", "32-true", *options)


def labels_of(run: Path, path: Path) -> np.ndarray:
    return Predictor.of(Run.open(run), device="cpu", precision="32-true").label(read_volume(path))


def assert_same_geometry(one: Path, other: Path) -> None:
    first, second = (nib.load(path).header for path in (one, other))
    assert first.sizeof_hdr == second.sizeof_hdr  # pyright: ignore[reportAttributeAccessIssue]
    for name in GEOMETRY:
        assert first[name].tobytes() == second[name].tobytes(), name  # pyright: ignore[reportIndexIssue]


def test_one_scan_gives_one_file_and_its_name_on_stdout(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scan, target = write_scan(tmp_path / "ct.nii.gz"), tmp_path / "labels.nii.gz"
    assert predict(scan, target, run) == 0
    out, err = capsys.readouterr()
    assert out == f"{target}\n"
    assert "fredholm:" not in err
    assert names(tmp_path) == ["ct.nii.gz", "labels.nii.gz"]
    found = read_labels(target).array
    np.testing.assert_array_equal(found, labels_of(run, scan))
    assert set(np.unique(found)) == {0, 1, 2}
    assert nib.load(target).get_data_dtype() == np.uint8  # pyright: ignore[reportAttributeAccessIssue]


def test_into_a_folder_that_is_there_goes_a_file_of_the_scans_name(tmp_path: Path, run: Path) -> None:
    scan = write_scan(tmp_path / "ct.nii")
    (tmp_path / "labels").mkdir()
    assert predict(scan, tmp_path / "labels", run) == 0
    assert names(tmp_path / "labels") == ["ct.nii"]


@pytest.mark.parametrize("kind", [nib.Nifti1Header, nib.Nifti2Header])
@pytest.mark.parametrize("codes", [(2, 1), (0, 1), (4, 0), (1, 3)])
@pytest.mark.parametrize("order", ["LPS", "RAS", "ASL"])
def test_the_label_maps_header_is_the_scans_bit_for_bit(  # A13
    tmp_path: Path, run: Path, kind: type, codes: tuple[int, int], order: str
) -> None:
    moves = axcodes2ornt(tuple(order))
    header = kind()
    shape = tuple(np.array((24, 20, 28))[np.argsort(moves[:, 0])])
    array = apply_orientation(body(0)[0].array, np.argsort(moves[:, 0])[:, None] * [1, 0] + [0, 1]).astype(np.int16)
    affine = np.eye(4) @ inv_ornt_aff(moves, array.shape)
    affine[:3, 3] = (0.0, -318.0, 0.0)
    header.set_data_shape(shape)
    header.set_data_dtype(np.int16)
    header.set_qform(affine, codes[1])
    header.set_sform(affine if codes[0] else None, codes[0])
    header.set_xyzt_units("mm", "sec")
    image = (nib.Nifti2Image if kind is nib.Nifti2Header else nib.Nifti1Image)(array, None, header)
    image.header.set_slope_inter(0.5, -10)
    image.to_filename(tmp_path / "ct.nii.gz")
    assert predict(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz", run) == 0
    assert_same_geometry(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz")
    found = nib.load(tmp_path / "labels.nii.gz")
    assert (found.dataobj.slope, found.dataobj.inter) == (1, 0)  # pyright: ignore[reportAttributeAccessIssue]
    assert set(np.unique(found.dataobj)) <= {0, 1, 2}  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("shape", [(5, 4, 3), (1, 1, 1), (33, 9, 2)])
def test_a_scan_smaller_than_the_window_works(tmp_path: Path, run: Path, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    write_volume(tmp_path / "ct.nii.gz", Volume(rng.uniform(-1000, 1000, shape).round(), AFFINE))
    assert predict(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz", run) == 0
    assert read_labels(tmp_path / "labels.nii.gz").shape == shape


def test_a_folder_of_scans_loads_the_network_once_and_looks_at_scans_only(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b.nii.gz", "a.nii", ".hidden.nii.gz"):
        write_scan(tmp_path / "scans" / name)
    (tmp_path / "scans/._a.nii").write_bytes(b"macOS leaves these about")
    (tmp_path / "scans/readme.txt").write_text("words")
    (tmp_path / "scans/C.NII.GZ").write_bytes((tmp_path / "scans/b.nii.gz").read_bytes())
    loads = []
    load = Run.load_model
    monkeypatch.setattr(Run, "load_model", lambda self: (loads.append(1), load(self))[1])
    assert predict(tmp_path / "scans", tmp_path / "deep/labels", run) == 0
    assert names(tmp_path / "deep/labels") == ["C.NII.GZ", "a.nii", "b.nii.gz"]
    assert capsys.readouterr().out.splitlines() == [
        str(tmp_path / "deep/labels" / name) for name in ("C.NII.GZ", "a.nii", "b.nii.gz")
    ]
    assert loads == [1]


def test_a_failing_scan_does_not_stop_the_others(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scans = tmp_path / "scans"
    for name in ("a", "d"):
        write_scan(scans / f"{name}.nii.gz")
    (scans / "b.nii.gz").write_bytes(b"no scan at all" * 100)
    (scans / "c.nii.gz").write_bytes((scans / "a.nii.gz").read_bytes()[:200])
    assert predict(scans, tmp_path / "labels", run) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(tmp_path / f"labels/{name}.nii.gz") for name in ("a", "d")]
    said = [line for line in err.splitlines() if line.startswith("fredholm: ")]
    assert len(said) == 3
    assert "b.nii.gz" in said[0]
    assert "is not a NIfTI file" in said[0]
    assert "c.nii.gz" in said[1]
    assert "truncated or damaged" in said[1]
    assert said[2] == f"fredholm: 2 of 4 scans failed, the others are in {tmp_path / 'labels'}"
    assert names(tmp_path / "labels") == ["a.nii.gz", "d.nii.gz"]


@pytest.mark.parametrize("kind", ["text", "truncated", "truncated late", "empty", "four axes", "no orientation"])
def test_what_is_no_scan_is_refused_on_one_line_and_leaves_nothing(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    scan = write_scan(tmp_path / "ct.nii.gz")
    content = scan.read_bytes()
    image = nib.load(scan)
    if kind == "four axes":
        nib.save(nib.Nifti1Image(np.zeros((4, 4, 4, 2), np.int16), np.eye(4)), scan)
    elif kind == "no orientation":
        image.header["sform_code"] = image.header["qform_code"] = 0  # pyright: ignore[reportIndexIssue]
        scan.write_bytes(gzip.compress(image.header.binaryblock + bytes(4) + gzip.decompress(content)[352:]))  # pyright: ignore[reportAttributeAccessIssue]
    else:
        scan.write_bytes(
            {"text": b"words " * 99, "truncated": content[:300], "truncated late": content[:-5], "empty": b""}[kind]
        )
    words = {
        "text": "is not a NIfTI file",
        "truncated": "truncated or damaged",
        "truncated late": "truncated or damaged",
        "empty": "is empty",
        "four axes": "one volume of three axes is expected",
        "no orientation": "orientation unknown",
    }[kind]
    says(capsys, str(scan), words, code=predict(scan, tmp_path / "labels.nii.gz", run))
    assert names(tmp_path) == ["ct.nii.gz"]


def test_a_file_of_unknown_orientation_is_labelled_when_one_is_assumed(tmp_path: Path, run: Path) -> None:  # A4
    array = body(0)[0].array.astype(np.int16)
    image = nib.Nifti1Image(array, None)
    image.header.set_zooms((1, 1, 1))
    image.header["sform_code"] = image.header["qform_code"] = 0
    image.to_filename(tmp_path / "ct.nii.gz")
    assert predict(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz", run, "--assume", "LPS") == 0
    assert_same_geometry(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz")


def test_a_warning_is_a_line_on_stderr(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = body(0)[0].array.astype(np.float32)
    array[0, 0, 0] = np.nan
    nib.save(nib.Nifti1Image(array, AFFINE), tmp_path / "ct.nii.gz")
    assert predict(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz", run) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'labels.nii.gz'}\n"
    (line,) = [line for line in err.splitlines() if line.startswith("fredholm: ")]
    assert line.startswith("fredholm: warning: ")
    assert "1 voxels are not finite" in line


def test_the_plans_notes_are_told(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, tmp_path / "run")
    Run.open(tmp_path / "run").replan(replace(PLAN, notes=("made of straw.",)))
    assert predict(write_scan(tmp_path / "ct.nii.gz"), tmp_path / "labels.nii.gz", tmp_path / "run") == 0
    assert "note: made of straw." in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("lacking", ["plan.yaml", "weights.safetensors", "all"])
def test_a_run_that_lacks_a_file_names_it(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], lacking: str
) -> None:
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run") if lacking == "all" else (tmp_path / "run" / lacking).unlink()
    code = predict(write_scan(tmp_path / "ct.nii.gz"), tmp_path / "labels.nii.gz", tmp_path / "run")
    says(capsys, "no such folder" if lacking == "all" else f"{lacking} is missing", str(tmp_path / "run"), code=code)
    assert not (tmp_path / "labels.nii.gz").exists()


def test_the_output_is_never_the_input(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scan = write_scan(tmp_path / "scans/ct.nii.gz")
    before = scan.read_bytes()
    (tmp_path / "link.nii.gz").symlink_to(scan)
    for target in (scan, scan.parent, tmp_path / "scans/../scans/ct.nii.gz", tmp_path / "link.nii.gz"):
        says(capsys, "would overwrite the scan", code=predict(scan, target, run))
    for target in (scan.parent, tmp_path / "scans/../scans"):
        says(capsys, "would overwrite the scans", code=predict(scan.parent, target, run))
    assert scan.read_bytes() == before
    assert names(tmp_path / "scans") == ["ct.nii.gz"]


@pytest.mark.parametrize("make", [False, True])
def test_an_input_without_a_scan_is_refused(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], make: bool
) -> None:
    if make:
        (tmp_path / "scans").mkdir()
    code = predict(tmp_path / "scans", tmp_path / "labels", run)
    says(capsys, "no NIfTI file" if make else "no such file", str(tmp_path / "scans"), code=code)
    assert not (tmp_path / "labels").exists()


@pytest.mark.parametrize("earlier", [None, b"an earlier label map"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken disk"), ValueError("no"), KeyboardInterrupt()])
def test_an_error_while_writing_leaves_no_half_file(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, earlier: bytes | None
) -> None:
    scan, target = write_scan(tmp_path / "ct.nii.gz"), tmp_path / "labels.nii.gz"
    if earlier is not None:
        target.write_bytes(earlier)

    def half(_: object, stream) -> None:
        stream.write(b"half")
        raise error

    monkeypatch.setattr(nib.Nifti1Image, "to_stream", half)
    assert predict(scan, target, run) == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert names(tmp_path) == ["ct.nii.gz", *(["labels.nii.gz"] if earlier else [])]
    assert earlier is None or target.read_bytes() == earlier


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_a_full_disk_leaves_no_half_file(
    tmp_path: Path, run: Path, small_disk: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    # uncompressed the label map is larger than the disk; compressed only what else lies there makes it so
    shape = (64, 64, 40)
    scan = write_scan(tmp_path / "ct.nii.gz", shape, affine=np.diag((0.25, 0.25, 0.25, 1.0)))
    (small_disk / "other").write_bytes(bytes(128 * 1024 - 4096 if ending == ".nii.gz" else 4096))
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Predictor, "label", lambda *_: rng.integers(0, 3, shape).astype(np.uint8))
        code = predict(scan, small_disk / f"labels{ending}", run)
    says(capsys, "No space left on device", code=code)
    assert names(small_disk) == ["other"]


def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/proc/self").is_dir():
        pytest.skip("no /proc here, the one folder in which not even root may write")
    says(capsys, code=predict(write_scan(tmp_path / "ct.nii.gz"), Path("/proc/labels.nii.gz"), run))


@pytest.mark.parametrize("target", ["labels.nrrd", "absent/labels.nii.gz"])
def test_an_output_that_cannot_be_written_is_told_before_the_work(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    worked = []
    label = Predictor.label
    monkeypatch.setattr(Predictor, "label", lambda *args: (worked.append(1), label(*args))[1])
    assert predict(write_scan(tmp_path / "ct.nii.gz"), tmp_path / target, run) == 1
    assert worked == []


@pytest.mark.parametrize("target", ["labels.nrrd", "absent/labels.nii.gz"])
def test_an_output_that_cannot_be_written_is_told(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    code = predict(write_scan(tmp_path / "ct.nii.gz"), tmp_path / target, run)
    says(capsys, "no such folder" if "absent" in target else "ends in .nii or .nii.gz", code=code)
    assert names(tmp_path) == ["ct.nii.gz"]


def test_ctrl_c_keeps_the_label_maps_that_are_finished(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        write_scan(tmp_path / f"scans/{name}.nii.gz")
    label = Predictor.label

    def stop(self: Predictor, volume: Volume, tick) -> np.ndarray:
        if volume.path is not None and volume.path.name == "b.nii.gz":
            raise KeyboardInterrupt
        return label(self, volume, tick)

    monkeypatch.setattr(Predictor, "label", stop)
    assert predict(tmp_path / "scans", tmp_path / "labels", run) == 130
    assert names(tmp_path / "labels") == ["a.nii.gz"]
    assert capsys.readouterr().out == f"{tmp_path / 'labels/a.nii.gz'}\n"


# evaluate


def write_map(path: Path, values: object, affine=AFFINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    array = np.array(values, np.int16).reshape(2, 2, -1)
    write_labels(path, array, like=Volume(array, affine))
    return path


def test_two_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = write_map(tmp_path / "found.nii.gz", [0, 1, 1, 1, 2, 0, 0, 7])
    truth = write_map(tmp_path / "truth.nii.gz", [0, 1, 1, 0, 2, 2, 2, 0])
    assert fredholm("segment", "evaluate", found, truth) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["Dice", "found"]
    assert lines[2:] == [
        ["class", "1", "0.800"],
        ["class", "2", "0.500"],
        ["class", "7", "0.000"],
        ["mean", "of", "classes", "0.433"],
    ]


def test_a_class_that_neither_has_is_a_dash_and_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, truth = (write_map(tmp_path / name, [0, 1, 1, 0]) for name in ("a.nii.gz", "b.nii.gz"))
    (tmp_path / "names.json").write_text('{"1": "spleen", "2": "liver"}')
    command = ("segment", "evaluate", found, truth, "--names", tmp_path / "names.json")
    assert fredholm(*command, "--json", tmp_path / "scores.json") == 0
    assert "liver                -" in capsys.readouterr().out
    assert json.loads((tmp_path / "scores.json").read_text())["cases"]["a"] == {"spleen": 1.0, "liver": None}


def test_axis_orders_may_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    volume, labels = body(0)
    write_labels(tmp_path / "a.nii.gz", labels, like=volume)
    turned = canonical(Volume(labels, volume.affine))
    write_labels(tmp_path / "b.nii.gz", turned.array, like=turned)
    assert fredholm("segment", "evaluate", tmp_path / "a.nii.gz", tmp_path / "b.nii.gz") == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "1.000"


def test_many_files_are_compared_by_name_and_missing_ones_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c", "d", "e"):
        write_map(tmp_path / f"truth/{name}.nii.gz", [0, 1, 1, 0])
        write_map(tmp_path / f"found/{name}.nii.gz", [0, 1, int(name > "b"), 0])
    write_map(tmp_path / "truth/f.nii.gz", [0, 1, 1, 0])
    write_map(tmp_path / "found/only.nii.gz", [0, 1, 1, 0])
    command = ("segment", "evaluate", tmp_path / "found", tmp_path / "truth", "--json", tmp_path / "scores.json")
    assert fredholm(*command) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["Dice", "mean"]
    assert "1 references have no prediction and are not scored, first f.nii.gz" in err
    assert list(json.loads((tmp_path / "scores.json").read_text())["cases"]) == ["a", "b", "c", "d", "e"]


def test_values_that_one_class_is_made_of_are_put_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = write_map(tmp_path / "found.nii.gz", [0, 1, 1, 2])
    truth = write_map(tmp_path / "truth.nii.gz", [0, 10, 11, 51])
    (tmp_path / "names.json").write_text('{"lungs": [10, 11], "heart": 51}')
    assert fredholm("segment", "evaluate", found, truth, "--names", tmp_path / "names.json") == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[2:]] == ["1.000"] * 3


def test_what_cannot_be_compared_is_refused_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_map(tmp_path / "a/one.nii.gz", [0, 1, 1, 0])
    other = write_map(tmp_path / "b/other.nii.gz", [0, 1, 1, 0, 0, 0, 0, 2], affine=np.diag((1, 1, 2.5, 1)))
    absent = tmp_path / "absent.nii.gz"
    (tmp_path / "names.json").write_text('{"1": "spleen"}')

    def evaluate(*arguments: object) -> int:
        return fredholm("segment", "evaluate", *arguments, "--json", tmp_path / "scores.json")

    says(capsys, f"{other}: not on one grid", "(2, 2, 1)", "(2, 2, 2)", "2.5", "-319", code=evaluate(one, other))
    says(capsys, f"no such file or folder: {absent}", code=evaluate(one, absent))
    says(capsys, "must both be files or both be folders", code=evaluate(one, tmp_path / "b"))
    says(capsys, "no file of", "has the name of one in", code=evaluate(tmp_path / "a", tmp_path / "b"))
    named = ("--names", tmp_path / "names.json")
    says(capsys, f"{other}: label values 2 have no name", code=evaluate(other, other, *named))
    says(capsys, "names.json", code=evaluate(one, one, "--names", absent.with_name("no names.json")))
    assert not (tmp_path / "scores.json").exists()


def test_scores_that_cannot_be_written_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_map(tmp_path / "one.nii.gz", [0, 1, 1, 0])
    code = fredholm("segment", "evaluate", one, one, "--json", tmp_path / "absent/scores.json")
    says(capsys, "no such folder", code=code)


# real data


@pytest.fixture(scope="module")
def coarse_run(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same network at 12 mm, where one window holds a body."""
    folder = tmp_path_factory.mktemp("coarse") / "run"
    shutil.copytree(run, folder)
    Run.open(folder).replan(replace(PLAN, preparation=replace(PLAN.preparation, spacing_mm=(12.0, 12.0, 12.0))))
    return folder


def test_a_real_scan_and_the_same_in_another_axis_order(medical: Path, tmp_path: Path, coarse_run: Path) -> None:
    given = medical / "torso" / "ct.nii.gz"
    image = nib.load(given)
    moves = axcodes2ornt(("P", "S", "R"))
    nib.save(image.as_reoriented(moves), tmp_path / "turned.nii.gz")  # pyright: ignore[reportAttributeAccessIssue]
    maps = []
    for name, scan in {"straight": given, "turned": tmp_path / "turned.nii.gz"}.items():
        assert predict(scan, tmp_path / f"{name}_labels.nii.gz", coarse_run) == 0
        assert_same_geometry(scan, tmp_path / f"{name}_labels.nii.gz")
        maps.append(canonical(read_labels(tmp_path / f"{name}_labels.nii.gz")))
    assert len(np.unique(maps[0].array)) > 1
    np.testing.assert_array_equal(maps[1].array, maps[0].array)
    np.testing.assert_allclose(maps[1].affine, maps[0].affine, rtol=0, atol=1e-4)


def test_awkward_files_are_labelled_or_refused_on_one_line(
    medical: Path, tmp_path: Path, coarse_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(medical / "awkward_nifti", tmp_path / "labels", coarse_run) == 1
    out, err = capsys.readouterr()
    labelled = ["AICHAmc", "CT_pitch", "anatomical", "resampled_anat_moved", "with_extension"]
    assert [Path(line).name.split(".")[0] for line in out.splitlines()] == labelled
    refused = [line for line in err.splitlines() if line.startswith("fredholm: ") and "warning" not in line]
    assert [line.split(":")[1].strip() for line in refused[:2]] == ["example_nifti2.nii.gz", "functional.nii"]
    assert refused[2:] == [f"fredholm: 2 of 7 scans failed, the others are in {tmp_path / 'labels'}"]
    for path in (tmp_path / "labels").iterdir():
        assert_same_geometry(medical / "awkward_nifti" / path.name, path)
