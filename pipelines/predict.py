"""A trained network, loaded once, that labels scan after scan."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..backbones import round_weights
from .devices import Precision, arithmetic, best_precision, pick_device
from .plan import Plan
from .postprocess import postprocess
from .prepare import prepare_image
from .resample import resampled_shape
from .run import Run
from .sliding import Tiling, label_volume
from .volume import Volume, canonical, restore


@dataclass
class Predictor:
    """Labels scans as a plan says.

    Args:
        plan: Preparation, window and post-processing.
        model: The network; it is put into evaluation mode, and its weights are rounded to `precision`.
        device: Where it runs.
        precision: Of its arithmetic.
        overlap: Share of a window that its neighbour sees too.
    """

    plan: Plan
    model: nn.Module
    device: torch.device = field(default_factory=pick_device)
    precision: Precision | None = None
    overlap: float = 0.5

    def __post_init__(self) -> None:
        self.precision = self.precision or best_precision(self.device)
        self.model.to(self.device).eval()
        if self.precision == "bf16-mixed":
            round_weights(self.model, torch.bfloat16)

    @classmethod
    def of(
        cls,
        run: Run,
        *,
        weights: Path | None = None,
        device: str = "auto",
        precision: Precision | None = None,
        overlap: float = 0.5,
    ) -> "Predictor":
        """The predictor of a finished run; `weights` is one of its files, by default the last."""
        return cls(run.plan, run.load_model(weights), pick_device(device), precision, overlap)

    @property
    def tiling(self) -> Tiling:
        """Its windows, as trained."""
        return Tiling(window=self.plan.window, overlap=self.overlap)

    def windows(self, volume: Volume) -> int:
        """How many windows a scan takes."""
        return self.tiling.count(resampled_shape(canonical(volume), self.plan.preparation.spacing_mm))

    def compile(self) -> None:
        """Let PyTorch compile the network; it takes minutes before the first window, and the later ones gain little."""
        self.model = torch.compile(self.model)  # pyright: ignore[reportAttributeAccessIssue]

    def label(self, volume: Volume, tick: Callable[[], None] = lambda: None) -> np.ndarray:
        """The class of each voxel after the plan's post-processing, in the scan's own axis order and shape.

        Args:
            volume: Hounsfield units.
            tick: Called after each of `windows(volume)` windows.
        """
        image = prepare_image(volume, self.plan.preparation)
        air = self.plan.preparation.range[0]
        own = canonical(volume).shape
        labels = label_volume(image, self._logits, self.tiling, air=air, shape=own, tick=tick)
        cleaned = postprocess(labels, self.plan.postprocessing, self.plan.names, volume.voxel_ml)
        return restore(cleaned, volume)

    @torch.inference_mode()
    def _logits(self, window: Tensor) -> Tensor:
        assert self.precision is not None
        with arithmetic(self.device, self.precision):
            return self.model(window.to(self.device))
