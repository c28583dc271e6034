"""Which of a room's modules computes: `reference.py`, `cpu.py` or `triton.py`.

A tensor on a GPU, NVIDIA's or AMD's, takes Triton; any other, and any where Triton is missing, takes plain PyTorch.
float64 is plain PyTorch everywhere, since Triton's kernels sum in float32. The environment variable `FREDHOLM_BACKEND`
overrides this. It is read at every call, also by compiled and exported programs, which do not look into operators.
"""

import functools
import importlib
import importlib.util
import os
import warnings
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor

Backend = Literal["reference", "cpu", "triton"]

VARIABLE = "FREDHOLM_BACKEND"
OLDEST_TRITON = (3, 4)


def backend(x: Tensor) -> Backend:
    """The backend that computes with `x`; `"cpu"` is plain PyTorch, which runs on any device.

    Raises:
        ValueError: `FREDHOLM_BACKEND` names no backend, or Triton where it cannot run.
    """
    wanted = os.environ.get(VARIABLE)
    match wanted:
        case None | "":
            return "triton" if x.is_cuda and _runs_in_triton(x) and _triton_is_here() else "cpu"
        case "triton":
            _check_triton_runs(x.device)
            return "triton" if _runs_in_triton(x) else "cpu"
        case "reference" | "cpu":
            return wanted
    raise ValueError(f"{VARIABLE}={wanted}: expected reference, cpu or triton")


def implementation(module: str, x: Tensor) -> ModuleType:
    """The module that computes with `x`; a room without a `triton.py` uses its `cpu.py` on a GPU too.

    Args:
        module: Name of a module of the room: `__name__` in its `ops.py`.
        x: As in `backend`.
    """
    return _load(module.rpartition(".")[0], backend(x))


@functools.cache
def _load(room: str, name: Backend) -> ModuleType:
    if name == "triton" and importlib.util.find_spec(f"{room}.triton") is None:
        name = "cpu"
    return importlib.import_module(f"{room}.{name}")


def _runs_in_triton(x: Tensor) -> bool:
    return x.dtype != torch.float64


@functools.cache
def _triton_is_here() -> bool:
    lack = _triton_lack()
    if lack is not None:
        warnings.warn(f"{lack}; until then the GPU computes with plain PyTorch, which is slower", stacklevel=2)
    return lack is None


def _check_triton_runs(device: torch.device) -> None:
    lack = _triton_lack()
    if lack is not None:
        raise ValueError(f"{VARIABLE}=triton: {lack}")
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(f"{VARIABLE}=triton: a tensor on {device.type} needs TRITON_INTERPRET=1 as well, or a GPU")


def _triton_lack() -> str | None:
    """What keeps Triton from running and how to mend it, or None."""
    least = ".".join(map(str, OLDEST_TRITON))
    try:
        import triton
    except ImportError:
        return f"Triton is not installed: pip install 'triton>={least}'"
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < OLDEST_TRITON:
        return f"Triton {triton.__version__} is too old: pip install 'triton>={least}'"
    return None
