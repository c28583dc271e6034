"""`fredholm info`: versions, devices and which kernels are in use."""

import importlib.metadata
import importlib.util
import platform
from dataclasses import dataclass

import torch

from ..kernels.backend import VARIABLE, Backend, backend
from ..pipelines.devices import best_precision, pick_device
from .console import result, table

PACKAGES = ("fredholm", "torch", "triton", "monai", "lightning-fabric", "nibabel", "numpy")
KERNELS: dict[Backend, str] = {
    "triton": "Triton",
    "cpu": "PyTorch (folded DFTs as matrix products)",
    "reference": f"the definitions in float64, which are slow ({VARIABLE}=reference)",
}


@dataclass
class Info:
    """Show versions, devices and which kernels are in use.

    Example: fredholm info
    """

    def run(self) -> None:
        """Print them."""
        device = pick_device()
        rows = [["python", platform.python_version()], *([name, _version(name)] for name in PACKAGES)]
        rows += [
            ["device", _device_name(device)],
            ["threads", str(torch.get_num_threads())],
            ["precision", best_precision(device)],
            ["kernels", KERNELS[backend(torch.empty(0, device=device))]],
        ]
        result(table(["", ""], rows).split("\n", 2)[2])


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    return str(torch.cpu.get_capabilities().get("cpu_name") or platform.processor() or platform.machine())
