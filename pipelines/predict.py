"""A trained network, loaded once, that labels scan after scan."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..backbones import MixerUNETR, round_weights
from .devices import Precision, arithmetic, best_precision, pick_device
from .memory import available_bytes, counted_peak, gigabytes, resident_bytes
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
        model: The network; it is put into evaluation mode, and its weights are rounded to `precision`. Where its last
            layer has more classes than channels, that layer is taken off, to be done once for each slice.
        device: Where it runs.
        precision: Of its arithmetic.
        overlap: Share of a window that its neighbour sees too.
    """

    plan: Plan
    model: nn.Module
    device: torch.device = field(default_factory=pick_device)
    precision: Precision | None = None
    overlap: float = 0.5

    head: nn.Module = field(init=False, default_factory=nn.Identity)

    def __post_init__(self) -> None:
        self.precision = self.precision or best_precision(self.device)
        if isinstance(self.model, MixerUNETR) and self.model.out_channels > self.model.feature_size:
            self.model, head = self.model.split()
            self.head = copy.deepcopy(head).cpu()  # where slices are, and in float32 as they are
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
        labels = label_volume(
            image, self._forward, self.tiling, air=air, shape=own, head=torch.inference_mode()(self.head), tick=tick
        )
        cleaned = postprocess(labels, self.plan.postprocessing, self.plan.names, volume.voxel_ml)
        return restore(cleaned, volume)

    def peak_bytes(self, volume: Volume) -> int:
        """Memory that the process will have at most while it labels a scan, which it has read already.

        What the process has now, its libraries and the scan included, is measured; what one window takes is counted;
        the prepared scan, the sums of windows, slices and label maps follow from their shapes.
        """
        self._forward(torch.zeros(1, self._inputs, *(32,) * 3))  # what libraries load on first use is there from now on
        own = canonical(volume).shape
        grid = resampled_shape(canonical(volume), self.plan.preparation.spacing_mm)
        depth, height, width = (max(n, w) for n, w in zip(grid, self.plan.window, strict=True))
        sums = 4 * (self._channels + 1) * min(depth, self.plan.window[0]) * height * width
        slices = 4 * (3 * self._channels + 2 * len(self.plan.names) + 2) * max(own[1] * own[2], grid[1] * grid[2])
        labels = 2 * math.prod(own) * (1 if len(self.plan.names) <= 256 else 2)
        preparing = 4 * self._inputs * (math.prod(own) * (3 if own != grid else 1) + math.prod(grid))
        predicting = 4 * self._inputs * math.prod(grid) + sums + max(self._window_bytes, slices) + labels
        return resident_bytes() + max(preparing, predicting)

    def check_memory(self, volume: Volume) -> int:
        """`peak_bytes` of a scan.

        Raises:
            ValueError: There is less memory than that.
        """
        peak, now, free = self.peak_bytes(volume), resident_bytes(), available_bytes()
        if free is not None and peak - now > free:
            raise ValueError(
                f"labelling a scan of {' x '.join(map(str, volume.shape))} voxels takes about {gigabytes(peak)}, and "
                f"{gigabytes(now + free)} are there: free some memory, or take a run with a coarser spacing or a "
                "smaller window"
            )
        return peak

    @property
    def _inputs(self) -> int:
        """Channels of a scan."""
        return self.plan.network.channels

    @property
    def _channels(self) -> int:
        """Of what is blended."""
        return len(self.plan.names) if isinstance(self.head, nn.Identity) else self.model.feature_size  # pyright: ignore

    @cached_property
    def _window_bytes(self) -> int:
        """Of host memory while a window goes through the network."""
        if self.device.type != "cpu":
            return 0
        return counted_peak(
            self.model, lambda model: self._through(model, torch.zeros(1, self._inputs, *self.plan.window))
        )

    def _forward(self, window: Tensor) -> Tensor:
        return self._through(self.model, window)

    @torch.inference_mode()
    def _through(self, model: nn.Module, window: Tensor) -> Tensor:
        assert self.precision is not None
        with arithmetic(self.device, self.precision):
            return model(window.to(self.device))
