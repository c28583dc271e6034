"""A trained network as an ONNX file, with all that is done before and after it as JSON, checked when it is made.

The `.onnx` file takes one window `(1, 1, *window)` of float32 and gives its logits; the window's size is fixed.
HyenaND's convolutions are matrix products with the DFT's cosines and sines (`kernels.decompositions`): exact up to
rounding, and nothing that a runtime may lack. Their kernels are made from their own small networks within the graph;
they do not depend on the image, so a runtime that folds constants, as ONNX Runtime does, makes them once when it loads
the file.

The `.json` file beside it says the rest: how a scan becomes windows, and how logits become a label map.
"""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

from ..kernels import decompositions
from .files import sha256
from .phantom import draw_body
from .plan import Plan
from .prepare import prepare_image
from .sliding import LEAST_WEIGHT, SIGMA
from .structures import structure
from .volume import Volume

OPSET = 20
OVERLAP = 0.5  # of windows, as `Predictor` has it
LARGEST_ERROR = 1e-4  # of logits, as a share of the largest; two float32 programs of this depth differ by some 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agreement:
    """How well ONNX Runtime and PyTorch agree on a window.

    Args:
        error: Largest difference of logits, as a share of the largest logit.
        voxels: Of the window.
        different: How many of them got another label.
    """

    error: float
    voxels: int
    different: int


def export_onnx(model: nn.Module, window: tuple[int, int, int], file: Path) -> None:
    """Write a network for windows of this size.

    Args:
        model: From `(1, 1, *window)` to logits `(1, classes, *window)`, on the CPU, float32, in evaluation mode.
        window: Voxels along each axis.
        file: `.onnx`.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's remarks about itself
        program = torch.export.export(model, (torch.zeros(1, 1, *window),))
        table: dict[Any, Callable[..., Any]] = {**decompositions(), torch.ops.aten.conv3d.default: _convolution}
        plain = program.run_decompositions(table)
        made = torch.onnx.export(
            plain,
            dynamo=True,
            optimize=False,  # the runtime folds constants too, when it loads the file, and the file stays small
            verbose=False,
            opset_version=OPSET,
            input_names=["image"],
            output_names=["logits"],
        )
    assert made is not None
    made.save(file)


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1, 1, 1),
    padding: Sequence[int] = (0, 0, 0),
    dilation: Sequence[int] = (1, 1, 1),
    groups: int = 1,
) -> Tensor:
    """A convolution always with a bias: where there is none, the exporter makes one, wrongly of two dimensions."""
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    return torch.ops.aten.convolution.default(x, weight, bias, stride, padding, dilation, False, [0, 0, 0], groups)


def compare(model: nn.Module, file: Path, image: Tensor) -> Agreement:
    """Run a window through both.

    Args:
        model: What was exported.
        file: Where to.
        image: `(1, 1, *window)`, float32.

    Raises:
        ValueError: Logits differ by more than `LARGEST_ERROR`; within it only a tie can change a label.
    """
    with torch.inference_mode():
        ours = model(image).numpy()
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3  # errors; it warns of every constant that it does not fold
    session = onnxruntime.InferenceSession(file, quiet, providers=["CPUExecutionProvider"])
    theirs = np.asarray(session.run(None, {"image": image.numpy()})[0])
    error = float(np.abs(ours - theirs).max() / np.abs(ours).max())
    labels, others = ours.argmax(1), theirs.argmax(1)
    if not error <= LARGEST_ERROR:
        raise ValueError(f"{file.name}: ONNX Runtime's logits differ from PyTorch's by {error:.1e} of the largest")
    return Agreement(error=error, voxels=labels.size, different=int((labels != others).sum()))


def sample_window(plan: Plan) -> Tensor:
    """A window of a drawn body, prepared as a scan would be: `(1, 1, *window)`."""
    hu, _, affine = draw_body(0, 0)
    image = prepare_image(Volume(hu.astype(np.float32), affine), plan.preparation)
    for axis, side in enumerate(plan.window, start=1):
        start = max(0, (image.shape[axis] - side) // 2)
        image = image.narrow(axis, start, min(side, image.shape[axis]))
    missing = [side - n for side, n in zip(plan.window, image.shape[1:], strict=True)]
    sides = [pad for n in reversed(missing) for pad in (n // 2, n - n // 2)]
    return nn.functional.pad(image, sides, value=plan.preparation.range[0])[None]


def description(plan: Plan, file: Path, agreement: Agreement) -> dict[str, Any]:
    """What a program needs beside the ONNX file, as plain types for JSON."""
    preparation, shape = plan.preparation, [1, 1, *plan.window]
    return {
        "network": {
            "file": file.name,
            "sha256": sha256(file),
            "opset": OPSET,
            "input": {"name": "image", "type": "float32", "shape": shape},
            "output": {"name": "logits", "type": "float32", "shape": [1, len(plan.names), *plan.window]},
            "axes": ["batch", "channel", "to the patient's right", "to the front", "to the head"],
        },
        "before": [
            {"step": "reorder axes", "to": "RAS+"},
            {"step": "resample", "spacing_mm": list(preparation.spacing_mm), "extent": "full", "between": "linear"},
            {"step": "clip", "hu": list(preparation.window_hu)},
            {"step": "scale", "from": list(preparation.window_hu), "to": list(preparation.range)},
            {"step": "pad on both sides to a window at least", "value": preparation.range[0]},
        ],
        "windows": {
            "size": list(plan.window),
            "overlap": OVERLAP,
            "weight": {"kind": "gaussian", "sigma": SIGMA, "of": "the window's side", "least": LEAST_WEIGHT},
        },
        "after": [
            {"step": "weighted mean of the windows' logits"},
            {"step": "crop the padding"},
            {"step": "resample logits", "to": "the scan's grid", "extent": "full", "between": "linear"},
            {"step": "argmax", "over": "channel"},
            *(dataclasses.asdict(step) for step in plan.postprocessing),
            {"step": "reorder axes", "to": "the scan's"},
        ],
        "classes": [_class(index, name) for index, name in plan.names.items()],
        "notes": list(plan.notes),
        "agreement with PyTorch": dataclasses.asdict(agreement),
    }


def _class(index: int, name: str) -> dict[str, Any]:
    found = structure(name)
    known = {"snomed": found.type.value, "meaning": found.type.meaning, "side": found.side} if found.known else {}
    return {"index": index, "name": name} | ({"colour": found.colour, **known} if index else {})
