"""Where to compute and how precisely."""

import contextlib
from typing import Literal

import torch

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


def arithmetic(device: torch.device, precision: Precision) -> contextlib.AbstractContextManager[object]:
    """The context in which a network runs at this precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")
