"""Where to compute and how precisely."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from lightning_fabric import Fabric  # loads PyTorch's compiler: seconds that only training has to wait for

Precision = Literal["32-true", "bf16-mixed"]


def pick_device(name: str = "auto") -> torch.device:
    """The device of that name; `auto` takes a GPU if there is one.

    Raises:
        ValueError: There is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"unknown device {name!r}: expected auto, cpu, cuda or cuda:0") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name!r} was asked for, but PyTorch finds no GPU here")
    return device


def best_precision(device: torch.device) -> Precision:
    """bfloat16 where the hardware multiplies it itself, else float32."""
    if device.type == "cuda":
        return "bf16-mixed" if torch.cuda.is_bf16_supported() else "32-true"
    capabilities = torch.cpu.get_capabilities()
    return "bf16-mixed" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "32-true"


def fabric_of(device: torch.device, precision: Precision, devices: int = 1) -> "Fabric":
    """What trains on so many GPUs, or in so many processes on a CPU."""
    from lightning_fabric import Fabric

    strategy = "ddp" if devices > 1 else "auto"
    return Fabric(accelerator=device.type, devices=devices, strategy=strategy, precision=precision)


@contextmanager
def launched(fabric: "Fabric") -> Iterator[None]:
    """All processes of a Fabric while the block runs; the first one starts the others, which run the program anew."""
    fabric.launch()
    try:
        yield
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def arithmetic(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """The context in which a network runs at this precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")
