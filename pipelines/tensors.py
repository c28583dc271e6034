"""Files of tensors, there whole or not at all; a full disk is called one."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from .files import replacing

LITTLE_BYTES = 16 << 20  # free on a disk that counts as full


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors, from any device, and a few words about them.

    Raises:
        OSError: The folder is missing or cannot be written, or the disk is full.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as beside, disk_errors(path):
        save_file(plain, beside, None if metadata is None else dict(metadata))


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Make what the writers of tensors raise on a full disk the OSError that it is."""
    try:
        yield
    except (SafetensorError, RuntimeError) as error:
        free = shutil.disk_usage(path.parent).free
        reason = "No space left on device" if free < LITTLE_BYTES else first_line(error)
        raise OSError(f"{path} could not be written: {reason}") from None


def first_line(error: BaseException) -> str:
    """What an error says on its first line, or its kind if it says nothing."""
    return next(iter(str(error).splitlines()), type(error).__name__)
