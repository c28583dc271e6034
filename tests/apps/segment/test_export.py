"""An exported network needs no PyTorch: two files and ONNX Runtime give the label map of `predict`."""

import hashlib
import json
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from fredholm import pipelines
from fredholm.apps.segment import choices
from helpers.segment import QUICK, data_set, fredholm, names, predict, says, write_scan

pytestmark = pytest.mark.filterwarnings("default")  # the exporter warns of its own parts


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps, whose answers are clear as a trained network's are."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choices, "EPOCH", 3)
        assert fredholm("segment", "train", data_set(folder / "data"), "-o", folder / "run", *QUICK) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def exported(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    assert fredholm("segment", "export", trained, "-o", folder / "network.onnx") == 0
    return folder


@pytest.mark.slow
def test_two_files_come_out_and_say_what_they_are(exported: Path) -> None:
    assert names(exported) == ["network.json", "network.onnx"]
    content = json.loads((exported / "network.json").read_text())
    assert content["network"]["sha256"] == hashlib.sha256((exported / "network.onnx").read_bytes()).hexdigest()
    assert content["network"]["input"]["shape"] == [1, 1, 32, 32, 32]
    assert content["network"]["output"]["shape"] == [1, 3, 32, 32, 32]
    assert content["agreement with PyTorch"]["different"] == 0
    assert content["agreement with PyTorch"]["voxels"] == 32**3
    assert content["agreement with PyTorch"]["error"] < 3e-6
    liver = content["classes"][2]
    assert (liver["name"], liver["snomed"]) == ("liver", "10200004")


@pytest.mark.slow
def test_onnx_runtime_and_the_json_alone_give_the_labels_of_predict(
    exported: Path, trained: Path, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    scan = write_scan(tmp_path / "ct.nii.gz", number=7)
    assert predict(scan, tmp_path / "labels.nii.gz", trained) == 0

    content = json.loads((exported / "network.json").read_text())
    image = nib.as_closest_canonical(nib.load(scan)).get_fdata(dtype=np.float32)
    steps = {step["step"]: step for step in content["before"]}
    assert list(nib.load(scan).header.get_zooms()) == steps["resample"]["spacing_mm"]  # nothing to resample here
    (low, high), (first, last) = steps["scale"]["from"], steps["scale"]["to"]
    image = (image.clip(*steps["clip"]["hu"]) - low) / (high - low) * (last - first) + first
    missing = [max(0, side - n) for side, n in zip(content["windows"]["size"], image.shape, strict=True)]
    pads = [(n // 2, n - n // 2) for n in missing]
    window = np.pad(image, pads, constant_values=first).astype(np.float32)
    session = onnxruntime.InferenceSession(exported / content["network"]["file"])
    (logits,) = session.run(None, {content["network"]["input"]["name"]: window[None, None]})
    inside = tuple(slice(before, before + n) for (before, _), n in zip(pads, image.shape, strict=True))
    logits = logits[0][(slice(None), *inside)]

    expected = nib.as_closest_canonical(nib.load(tmp_path / "labels.nii.gz"))
    theirs = np.asanyarray(expected.dataobj)
    second, first = np.sort(logits, axis=0)[-2:]
    # twice what two logits may be off, and twice that, since it was measured on another window
    clear = first - second > 4 * content["agreement with PyTorch"]["error"] * np.abs(logits).max()
    np.testing.assert_array_equal(logits.argmax(0)[clear], theirs[clear])
    assert clear.mean() > 0.999  # elsewhere two classes tie to within what float32 can tell
    assert set(np.unique(theirs)) == {0, 1, 2}


def test_a_network_that_does_not_agree_is_not_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx = pytest.importorskip("fredholm.pipelines.onnx_export")
    helper = pytest.importorskip("onnx.helper")

    def half(model, window, file: Path) -> None:
        """A network that gives a constant."""
        shapes = [helper.make_tensor_value_info("image", 1, (1, 1, *window))]
        shapes.append(helper.make_tensor_value_info("logits", 1, (1, 1, *window)))
        graph = helper.make_graph([helper.make_node("Abs", ["image"], ["logits"])], "half", shapes[:1], shapes[1:])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        file.write_bytes(made.SerializeToString())

    monkeypatch.setattr(onnx, "export_onnx", half)
    code = fredholm("segment", "export", run, "-o", tmp_path / "network.onnx")
    says(capsys, "logits differ from PyTorch's", code=code)
    assert names(tmp_path) == []


def test_the_extra_is_named_where_it_is_missing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "fredholm.pipelines.onnx_export", raising=False)
    monkeypatch.delattr(pipelines, "onnx_export", raising=False)
    code = fredholm("segment", "export", run, "-o", tmp_path / "network.onnx")
    says(capsys, "pip install 'fredholm[export]'", code=code)
    assert names(tmp_path) == []
