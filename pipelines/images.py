"""Images and label maps in and out, whatever the format: the ending of a file's name says which it is.

`.nii` and `.nii.gz` are NIfTI (see `nifti`); `.nrrd`, `.mha` and `.mhd` are NRRD and MetaImage (see `itk`). Whichever
it is, a volume has RAS+ millimetres, a file that does not state its orientation is refused unless it is assumed, and a
label map written in the format of its scan repeats what that file said of its geometry.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np

from . import files, itk, nifti
from .volume import Volume, reordered, same_grid

SUFFIXES = (*nifti.SUFFIXES, *itk.SUFFIXES)


def read_volume(path: Path | str, *, assume: str | None = None) -> Volume:
    """Read an image.

    Args:
        path: A file with one volume of three axes; further axes have length 1.
        assume: Orientation, such as `"RAS"`, for a file that states none: its axes then run so, and its first voxel is
            at 0. Ignored if the file states one.

    Returns:
        A volume of float32 (Hounsfield units for CT). Voxels that are no finite number get the smallest finite value
        of the image, with a warning that counts them.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The ending is unknown, or the file is damaged, empty, not of three axes or of unknown orientation.
    """
    return _format(path).read_volume(path, assume=assume)


def read_channels(paths: Sequence[Path], *, assume: str | None = None) -> Volume:
    """Read an image of several channels, a file for each.

    Args:
        paths: As in `read_volume`; the first says where the image lies, the axes of the others may run in another
            order.
        assume: As in `read_volume`.

    Returns:
        The volume of the first file, the others as its further channels.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: As in `read_volume`, or the files are not on one grid.
    """
    first, *others = (read_volume(path, assume=assume) for path in paths)
    if not others:
        return first
    others = [reordered(other, like=first) for other in others]
    for other in others:
        same_grid(first, other)
    return replace(first, others=tuple(other.array for other in others))


def read_labels(path: Path | str, *, assume: str | None = None) -> Volume:
    """Read a label map, exactly: integers never pass through floating point.

    Args:
        path: As in `read_volume`. Floats that are whole numbers are accepted, and scaled integers within 0.001.
        assume: As in `read_volume`.

    Returns:
        A volume of the smallest unsigned (or, with negative labels, signed) integer type.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: As in `read_volume`, or a value is not a whole number; the first such value is named.
    """
    return _format(path).read_labels(path, assume=assume)


def write_labels(path: Path | str, labels: np.ndarray, like: Volume) -> None:
    """Write a label map on the grid of `like`.

    Args:
        path: Its ending says the format; replaced only when the new file is complete.
        labels: Integers or booleans in the shape and axis order of `like`; kept as uint8, int16 or int32, the smallest
            that holds them.
        like: The volume whose geometry is repeated, to the letter if it came from a file of the same format.

    Raises:
        ValueError: Ending, shape or type does not fit, or a label is beyond int32.
        OSError: The folder is missing or cannot be written.
    """
    _format(path).write_labels(path, labels, like)


def images_in(folder: Path) -> list[Path]:
    """The images of a folder, sorted by name; hidden ones, as macOS leaves them about, are passed over."""
    files = (path for path in folder.iterdir() if path.name.lower().endswith(SUFFIXES) and path.is_file())
    return sorted(path for path in files if not path.name.startswith("."))


def files_of(path: Path) -> list[Path]:
    """The files that an image lies in: its own, and the one that its header names for the voxels, if there is one.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It has no header that could be read.
    """
    return itk.files_of(path) if path.name.lower().endswith(itk.SUFFIXES) else [path]


def stem(path: Path) -> str:
    """A file's name without its ending."""
    return next((path.name[: -len(s)] for s in SUFFIXES if path.name.lower().endswith(s)), path.stem)


def check_target(path: Path) -> None:
    """Refuse a place for an image that cannot be written.

    Raises:
        ValueError: Its ending is that of no format.
        FileNotFoundError: Its folder does not exist.
    """
    files.check_target(path, SUFFIXES)


def _format(path: Path | str) -> ModuleType:
    name = Path(path).name.lower()
    for module in (nifti, itk):
        if name.endswith(module.SUFFIXES):
            return module
    raise ValueError(f"{path}: images end in {', '.join(SUFFIXES)}")
