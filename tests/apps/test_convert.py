"""MONAI's weights become a run that predicts as MONAI does; a file with code in it is refused and not run."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from fredholm.apps.cli import main
from fredholm.backbones import MonaiOptions
from fredholm.pipelines.nifti import read_labels, write_volume
from fredholm.pipelines.plan import Network, Plan
from fredholm.pipelines.prepare import prepare_image
from fredholm.pipelines.run import Run
from fredholm.pipelines.volume import Volume
from monai.networks.nets import HyenaNDUNETR, SwinUNETR
from safetensors.torch import save_file
from torch import Tensor, nn

GRID = (64, 32, 32)  # MONAI's deepest norm needs more than one voxel
OPTIONS = ["--window", *map(str, GRID), "--spacing", "1", "1", "1", "--window-hu", "-100", "300", "--range", "0", "1"]


class Code:
    """Unpickled as any pickle is, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def theirs() -> nn.Module:
    torch.manual_seed(2)
    return SwinUNETR(in_channels=1, out_channels=3, feature_size=12).eval()


@pytest.fixture(scope="module")
def state(theirs: nn.Module) -> dict[str, Tensor]:
    return theirs.state_dict()


def hyena(stages: str, **options: str) -> nn.Module:
    try:
        return HyenaNDUNETR(1, 2, [letter == "H" for letter in stages], feature_size=12, **options).eval()
    except ImportError as error:
        pytest.skip(f"MONAI's HyenaNDUNETR: {error}")


def convert(checkpoint: Path, run: Path, *options: object) -> int:
    return main(["convert", "monai", str(checkpoint), "-o", str(run), *OPTIONS, *map(str, options)])


def saved(path: Path, content: object) -> Path:
    torch.save(content, path)
    return path


def scan() -> Volume:
    rng = np.random.default_rng(0)
    blocks = rng.uniform(-200, 400, [n // 8 for n in GRID]).repeat(8, 0).repeat(8, 1).repeat(8, 2)
    return Volume(blocks.round().astype(np.float32), np.eye(4))


def predicted(folder: Path, run: Path) -> np.ndarray:
    write_volume(folder / "ct.nii.gz", scan())
    command = ["segment", "predict", "-i", str(folder / "ct.nii.gz"), "-o", str(folder / "labels.nii.gz")]
    assert main([*command, "--run", str(run), "--precision", "32-true"]) == 0
    return read_labels(folder / "labels.nii.gz").array


def expected(model: nn.Module, run: Path) -> tuple[np.ndarray, np.ndarray]:
    """MONAI's labels, and where its two largest logits are further apart than rounding."""
    with torch.inference_mode():
        logits = model(prepare_image(scan(), Run.open(run).plan.preparation)[None])[0]
    first, second = logits.topk(2, dim=0).values
    return logits.argmax(0).numpy(), (first - second > 1e-3 * logits.abs().max()).numpy()


def says(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> None:
    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("fredholm: ")
    for word in words:
        assert word in line


def test_a_state_dict_becomes_a_run_that_predicts_as_monai_does(
    tmp_path: Path, theirs: nn.Module, state: dict[str, Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert convert(saved(tmp_path / "model.pt", state), run) == 0
    out, err = capsys.readouterr()
    assert out == f"{run}\n"
    assert err == f"{len(state)} of {len(state)} tensors matched: AAAA, feature size 12\n"
    plan = Plan.read(run / "plan.yaml")
    assert plan.names == {0: "background", 1: "class 1", 2: "class 2"}
    assert plan.network == Network(stages="AAAA", feature_size=12, monai=MonaiOptions())
    assert (plan.preparation.window_hu, plan.preparation.range) == ((-100.0, 300.0), (0.0, 1.0))
    assert (plan.window, plan.recipe) == (GRID, None)
    found, (labels, clear) = predicted(tmp_path, run), expected(theirs, run)
    assert len(np.unique(labels)) > 1
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(found[clear], labels[clear])
    assert "weights from model.pt; spacing (1.0, 1.0, 1.0) mm" in capsys.readouterr().err


def wrapped(state: dict[str, Tensor], kind: str) -> object:
    module = {f"module.{name}": tensor for name, tensor in state.items()}
    return {
        "state_dict": {"state_dict": state, "epoch": 3, "best": 0.5},
        "module": module,
        "state_dict of module": {"state_dict": module, "optimizer": {"lr": 1e-4}},
        "model": {"model": state},
        "half": {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in state.items()},
    }[kind]


@pytest.mark.parametrize("kind", ["state_dict", "module", "state_dict of module", "model", "half"])
def test_wrappers_and_prefixes_are_taken_off(tmp_path: Path, state: dict[str, Tensor], kind: str) -> None:
    assert convert(saved(tmp_path / "model.pt", wrapped(state, kind)), tmp_path / "run") == 0
    assert convert(saved(tmp_path / "plain.pt", state), tmp_path / "plain") == 0
    one, other = (Run.open(tmp_path / name).load_model().state_dict() for name in ("run", "plain"))
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(
            tensor, other[name], rtol=1e-3 if kind == "half" else 0, atol=1e-4 * (kind == "half")
        )


@pytest.mark.parametrize("prefix", ["", "module."])
def test_safetensors_are_read(tmp_path: Path, state: dict[str, Tensor], prefix: str) -> None:
    save_file({f"{prefix}{name}": tensor.contiguous() for name, tensor in state.items()}, tmp_path / "m.safetensors")
    assert convert(tmp_path / "m.safetensors", tmp_path / "run") == 0
    ours = Run.open(tmp_path / "run").load_model()
    assert sum(weight.numel() for weight in ours.parameters()) > 1e5


@pytest.mark.peer
def test_hyena_stages_are_read_and_predict_as_monai_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(3)
    model = hyena("HHAA", hyena_fft_padding="zero")
    checkpoint = saved(tmp_path / "model.pt", {"state_dict": model.state_dict()})
    assert convert(checkpoint, tmp_path / "run", "--padding", "zero") == 0
    assert "HHAA, feature size 12" in capsys.readouterr().err
    found, (labels, clear) = predicted(tmp_path, tmp_path / "run"), expected(model, tmp_path / "run")
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(found[clear], labels[clear])


def test_names_are_taken_from_a_file(tmp_path: Path, state: dict[str, Tensor]) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": {"spleen": 1, "liver": 2}}))
    checkpoint = saved(tmp_path / "model.pt", state)
    assert convert(checkpoint, tmp_path / "run", "--names", tmp_path / "dataset.json") == 0
    assert Plan.read(tmp_path / "run" / "plan.yaml").names == {0: "background", 1: "spleen", 2: "liver"}


def test_names_must_be_as_many_as_classes(
    tmp_path: Path, state: dict[str, Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "names.json").write_text('{"1": "spleen"}')
    code = convert(saved(tmp_path / "model.pt", state), tmp_path / "run", "--names", tmp_path / "names.json")
    says(capsys, "names 2 classes, background included; the network has 3", code=code)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("how", ["torch", "pickle", "nested"])
def test_a_file_with_code_in_it_is_refused_and_not_run(
    tmp_path: Path, state: dict[str, Tensor], capsys: pytest.CaptureFixture[str], how: str
) -> None:
    code, path = Code(tmp_path / "ran"), tmp_path / "model.pt"
    if how == "pickle":
        path.write_bytes(pickle.dumps(code))
    else:
        torch.save(code if how == "torch" else {"state_dict": state, "hyper_parameters": code}, path)
    says(capsys, f"{path} is no checkpoint of plain tensors", code=convert(path, tmp_path / "run"))
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "run").exists()


def test_tensors_left_over_are_refused_with_their_names(
    tmp_path: Path, state: dict[str, Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = saved(tmp_path / "model.pt", {**state, "extra.weight": torch.ones(3)})
    code = convert(checkpoint, tmp_path / "run")
    says(capsys, f"{len(state)} of {len(state) + 1} tensors matched; left over: extra.weight", code=code)
    assert not (tmp_path / "run").exists()


def test_a_missing_tensor_is_named(
    tmp_path: Path, state: dict[str, Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    fewer = {name: tensor for name, tensor in state.items() if name != "encoder2.layer.conv1.conv.weight"}
    says(capsys, "missing: ", "conv1", code=convert(saved(tmp_path / "model.pt", fewer), tmp_path / "run"))


def test_a_network_of_more_channels_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = SwinUNETR(in_channels=4, out_channels=3, feature_size=12)
    code = convert(saved(tmp_path / "model.pt", model.state_dict()), tmp_path / "run")
    says(capsys, "the network takes 4 channels, a CT scan has one", code=code)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"layer.weight": torch.ones(2)}, "no name starts with 'swinViT.'"),
        ({"epoch": 3}, "holds no state dict"),
        ({"state_dict": {}}, "holds no state dict"),
        ([torch.ones(2)], "holds no state dict"),
        (torch.ones(2), "holds no state dict"),
    ],
)
def test_what_is_no_such_network_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object, words: str
) -> None:
    says(capsys, words, code=convert(saved(tmp_path / "model.pt", content), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = tmp_path / name
    says(capsys, f"no such file: {path}", code=convert(path, tmp_path / "run"))
    path.write_bytes(b"<html>404 not found</html>" * 10)
    says(capsys, f"{path} is no ", code=convert(path, tmp_path / "run"))


def test_a_truncated_checkpoint_is_named(
    tmp_path: Path, state: dict[str, Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "model.pt", state)
    path.write_bytes(path.read_bytes()[:100_000])
    says(capsys, f"{path} is no checkpoint of plain tensors", code=convert(path, tmp_path / "run"))


@pytest.mark.parametrize("keep", [0, 1, 28])
def test_a_truncated_checkpoint_of_the_old_format_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keep: int
) -> None:
    path = tmp_path / "model.pt"
    torch.save({"a": torch.ones(3)}, path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes()[:keep])
    says(capsys, f"{path} is no checkpoint of plain tensors", code=convert(path, tmp_path / "run"))


def test_a_metric_beside_the_state_dict_does_no_harm(tmp_path: Path, state: dict[str, Tensor]) -> None:
    content = {"best_metric": torch.tensor(0.8), "state_dict": state}
    assert convert(saved(tmp_path / "model.pt", content), tmp_path / "run") == 0


def test_a_run_that_is_there_stays(
    tmp_path: Path, state: dict[str, Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = saved(tmp_path / "model.pt", state)
    assert convert(checkpoint, tmp_path / "run") == 0
    before = (tmp_path / "run" / "plan.yaml").read_bytes()
    capsys.readouterr()
    says(capsys, "already holds a run", code=convert(checkpoint, tmp_path / "run", "--cache", "64"))
    assert (tmp_path / "run" / "plan.yaml").read_bytes() == before


@pytest.mark.peer
def test_options_that_monai_does_not_know_together_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = hyena("HAAA")
    code = convert(saved(tmp_path / "model.pt", model.state_dict()), tmp_path / "run", "--grid", "double")
    says(capsys, "no double grid with circular padding", code=code)
