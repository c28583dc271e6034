"""`fredholm convert`: networks that others trained become runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ..backbones import MonaiOptions, from_monai
from ..pipelines.classes import Classes
from ..pipelines.plan import Network, Plan, Preparation
from ..pipelines.run import Run
from ..pipelines.tensors import first_line
from .console import note, result

WRAPPERS = ("state_dict", "model", "model_state_dict", "net", "network_weights")


@dataclass
class Convert:
    """Turn weights of MONAI's SwinUNETR or HyenaNDUNETR into a run that `segment predict` takes.

    Weights do not say how scans were prepared: give what the network was trained with.

    Example: fredholm convert monai model.pt -o RUN --spacing 1.5 1.5 2.0 --window-hu -175 250 --range 0 1
    """

    source: tyro.conf.Positional[Literal["monai"]]
    """What trained the weights."""

    checkpoint: tyro.conf.Positional[Path]
    """File of torch.save or safetensors: a state dict, or a checkpoint that holds one."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """Folder of the run, made anew."""

    spacing: tuple[float, float, float] = (1.5, 1.5, 2.0)
    """Voxel size in mm towards the patient's right, front and head."""

    window_hu: tuple[float, float] = (-175.0, 250.0)
    """Hounsfield units that became the ends of the range."""

    range: tuple[float, float] = (0.0, 1.0)
    """What they became."""

    window: tuple[int, int, int] = (96, 96, 96)
    """Voxels of a window along each axis."""

    names: Path | None = None
    """JSON file {"1": "spleen", ...} or dataset.json."""

    padding: Literal["circular", "zero"] = "circular"
    """MONAI's hyena_fft_padding."""

    grid: Literal["single", "double"] = "single"
    """MONAI's hyena_grid_type."""

    cache: int = 32
    """MONAI's hyena_l_cache."""

    merging: Literal["merging", "mergingv2"] = "merging"
    """MONAI's downsample."""

    def run(self) -> None:
        """Convert."""
        options = MonaiOptions(padding=self.padding, grid=self.grid, cache=self.cache, merging=self.merging)
        state = read_state(self.checkpoint)
        model = from_monai(state, options)
        if model.in_channels != 1:
            raise ValueError(f"{self.checkpoint}: the network takes {model.in_channels} channels, a CT scan has one")
        plan = Plan(
            names=self._names(model.out_channels),
            preparation=Preparation(spacing_mm=self.spacing, window_hu=self.window_hu, range=self.range),
            network=Network(stages=model.stage_letters, feature_size=model.feature_size, monai=options),
            window=self.window,
            notes=(
                f"weights from {self.checkpoint.name}; spacing {self.spacing} mm and window {self.window_hu} HU were "
                "given to convert, not read from the weights",
            ),
        )
        run = Run.create(self.output, plan)
        run.save_weights(state)
        note(f"{len(state)} of {len(state)} tensors matched: {model.stage_letters}, feature size {model.feature_size}")
        result(str(self.output))

    def _names(self, classes: int) -> dict[int, str]:
        if self.names is None:
            return {0: "background", **{index: f"class {index}" for index in range(1, classes)}}
        names = Classes.read_file(self.names).names
        if len(names) != classes:
            raise ValueError(f"{self.names} names {len(names)} classes, background included; the network has {classes}")
        return names


def read_state(path: Path) -> dict[str, Tensor]:
    """The state dict in a checkpoint; never runs code that a file brings along.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no checkpoint, or holds more than tensors and plain types, or no tensors.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except SafetensorError as error:
        raise ValueError(f"{path} is no safetensors file: {error}") from None
    except Exception as error:  # unpickling a damaged file may raise anything
        raise ValueError(f"{path} is no checkpoint of plain tensors: {first_line(error)}") from None
    while isinstance(content, dict):
        inner = next((content[key] for key in WRAPPERS if isinstance(content.get(key), dict)), None)
        if inner is None:
            state = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
            if state:
                return state
        content = inner
    raise ValueError(f"{path} holds no state dict")
