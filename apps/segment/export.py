"""`fredholm segment export`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ...pipelines.bundle import open_run
from ...pipelines.files import check_target, replacing_with_companions
from ..console import note, result
from ..extras import extra


@dataclass
class Export:
    """Turn a run into an ONNX file that needs neither PyTorch nor fredholm.

    The file is for windows of the run's size. A JSON file of the same name says all that is done to a scan before it
    and to the logits after it. ONNX Runtime must give the labels that PyTorch gives, or nothing is written.

    Example: fredholm segment export RUN -o network.onnx
    """

    run_folder: tyro.conf.Positional[Path]
    """Folder of the run, or bundle."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """File to write, .onnx."""

    weights: Literal["last", "best"] = "last"
    """Those after the last step, or those of the best validation."""

    def run(self) -> None:
        """Export and compare."""
        with extra("export"):
            from ...pipelines import onnx_export as onnx
        check_target(self.output, [".onnx"])
        run = open_run(self.run_folder)
        if len(run.plan.channels) > 1:
            raise ValueError(f"{run.folder}: only a network of one channel is exported, this has {run.plan.channels}")
        model = run.load_model(run.best_file if self.weights == "best" else run.weights_file)
        with replacing_with_companions(self.output) as file:
            note("exporting; this takes a minute or so")
            onnx.export_onnx(model, run.plan.window, file)
            agreement = onnx.compare(model, file, onnx.sample_window(run.plan))
            content = onnx.description(run.plan, file, agreement)
            beside = file.with_suffix(".json")
            beside.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        note(
            f"ONNX Runtime gives PyTorch's label at {agreement.voxels - agreement.different} of {agreement.voxels} "
            f"voxels of a window; logits differ by {agreement.error:.0e} of the largest at most"
        )
        result(str(self.output))
