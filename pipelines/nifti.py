"""NIfTI files (`.nii`, `.nii.gz`, versions 1 and 2) in and out, with nothing of their geometry lost.

Which matrix places the voxels: the sform if its code is above 0, otherwise the qform. If both are coded and disagree
by more than a tenth of a voxel anywhere in the volume, the sform is taken and a warning names both. If neither is
coded the orientation is unknown, left and right included, and reading is refused unless the caller says `assume`.
Spatial units of metres or micrometres are turned into mm; unknown units are taken as mm.

A result written `like` a volume that came from a file repeats that file's shape, affine, codes, matrices and units bit
for bit. Files are written beside their place and renamed when complete, so an interrupted run leaves no half file.
"""

import gzip
import math
import os
import warnings
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import nibabel as nib
import numpy as np
from nibabel.arrayproxy import ArrayProxy
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError, HeaderTypeError
from nibabel.wrapstruct import WrapStructError

from .files import check_target, replacing
from .stored import Stored, labels_to_write
from .volume import Volume, assumed_affine, checked_affine, grid_shift

SUFFIXES = (".nii.gz", ".nii")
MILLIMETRES = {1: 1e3, 3: 1e-3}  # by NIfTI's code of the spatial unit; 2 is mm, 0 unknown
HEADER_ERRORS = (HeaderDataError, HeaderTypeError, WrapStructError, ImageFileError)
COMPRESSION = 3
DEFLATE_AT_MOST = 1100  # bytes that a byte of a gzip file can stand for; the format's limit is 1032


@dataclass(frozen=True, eq=False)
class NiftiSource:
    """The header of a file, and the affine that its volume was given."""

    header: nib.Nifti1Header
    affine: np.ndarray


def read_volume(path: Path | str, *, assume: str | None = None) -> Volume:
    """Read an image, scaled by its slope and intercept.

    Args:
        path: A `.nii` or `.nii.gz` file. Axes beyond the third must have length 1.
        assume: Orientation, such as `"RAS"` or `"LAS"`, for a file that states none: the affine is then built from the
            voxel sizes, with the centre of the first voxel at 0. Ignored if the file states one.

    Returns:
        A volume of float32 (Hounsfield units for CT). Voxels that are no finite number get the smallest finite value
        of the image, with a warning that counts them.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no NIfTI file, damaged, empty, 4-D, or of unknown orientation.
    """
    return _read(Path(path), assume).image()


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
    return _read(Path(path), assume).labels()


def write_labels(path: Path | str, labels: np.ndarray, like: Volume) -> None:
    """Write a label map on the grid of `like`.

    Args:
        path: Ends in `.nii` or `.nii.gz`; replaced only when the new file is complete.
        labels: Integers or booleans in the shape and axis order of `like`; kept as uint8, int16 or int32, the smallest
            that holds them, with slope 1 and intercept 0.
        like: The volume whose geometry is repeated. Its display window, intent and header extensions are not: they
            speak of its values.

    Raises:
        ValueError: Ending, shape or type does not fit, or a label is beyond int32.
        OSError: The folder is missing or cannot be written.
    """
    kept = labels_to_write(labels)
    header = _header(like)
    header.extensions.clear()
    header["cal_min"] = header["cal_max"] = 0
    header.set_intent("none")
    _write(Path(path), kept, header, like)


def write_volume(path: Path | str, volume: Volume) -> None:
    """Write an image: int16 if its values are whole numbers that fit, else float32; otherwise as `write_labels`.

    Header extensions of the file that the volume came from are written again.
    """
    array = volume.array
    limits = np.iinfo(np.int16)
    fits = limits.min <= array.min() and array.max() <= limits.max and np.array_equal(array, np.rint(array))
    _write(Path(path), array.astype(np.int16 if fits else np.float32), _header(volume), volume)


def _read(path: Path, assume: str | None) -> Stored:
    with _damage_named(path), path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        with gzip.GzipFile(fileobj=file) if packed else nullcontext(file) as stream:
            image_class = _image_class(stream.read(348), path)
            stream.seek(0)
            image = image_class.from_stream(cast("BinaryIO", stream))  # pyright: ignore[reportArgumentType]
            shape = _checked_shape(image.header, path)
            proxy = cast("ArrayProxy", image.dataobj)
            _check_length(proxy, os.fstat(file.fileno()).st_size * (DEFLATE_AT_MOST if packed else 1), path)
            array = np.asarray(proxy.get_unscaled()).reshape(shape, order="F")
            while packed and stream.read(1 << 20):  # gzip compares its checksum at the very end only
                pass
    header = image.header.copy()
    affine = _affine(header, assume, path)
    return Stored(array, float(proxy.slope), float(proxy.inter), affine, NiftiSource(header, affine), path)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"no such file: {path}") from None
    except HEADER_ERRORS as error:
        raise ValueError(f"{path}: its NIfTI header cannot be used: {_one_line(error)}") from error
    except (EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's own trouble, such as permissions
            raise
        raise ValueError(f"{path} is truncated or damaged: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _image_class(start: bytes, path: Path) -> type[nib.Nifti1Image]:
    if start[344:348] == b"n+1\0":
        return nib.Nifti1Image
    if start[4:8] == b"n+2\0":
        return nib.Nifti2Image
    raise ValueError(f"{path} is not a NIfTI file (.nii or .nii.gz)" if start else f"{path} is empty")


def _checked_shape(header: nib.Nifti1Header, path: Path) -> tuple[int, ...]:
    shape = header.get_data_shape()
    if len(shape) < 3 or any(n > 1 for n in shape[3:]):
        raise ValueError(f"{path} has shape {shape}: one volume of three axes is expected")
    if min(shape) < 1:
        raise ValueError(f"{path} has shape {shape}: it holds no voxels")
    if header.get_data_dtype().kind not in "iuf":
        raise ValueError(f"{path} holds {header.get_data_dtype()}: one real number per voxel is expected")
    return shape[:3]


def _check_length(proxy: ArrayProxy, available: int, path: Path) -> None:
    # before any memory is asked for: a damaged header may claim any size
    end = proxy.offset + math.prod(map(int, proxy.shape)) * proxy.dtype.itemsize
    if proxy.offset < 0 or end > available:
        raise ValueError(f"{path} is truncated or damaged: its header speaks of {end} bytes")


def _affine(header: nib.Nifti1Header, assume: str | None, path: Path) -> np.ndarray:
    unit = MILLIMETRES.get(int(header["xyzt_units"]) & 7, 1.0)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return checked_affine(np.diag((unit, unit, unit, 1.0)) @ _stated_affine(header, assume, path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _stated_affine(header: nib.Nifti1Header, assume: str | None, path: Path) -> np.ndarray:
    if int(header["sform_code"]) > 0:
        affine = np.asarray(header.get_sform())
        _warn_of_another_qform(header, affine, path)
        return affine
    if int(header["qform_code"]) > 0:
        return np.asarray(header.get_qform())
    if assume is None:
        raise ValueError("orientation unknown, sform and qform codes are both 0; state it, such as --assume RAS")
    return assumed_affine(np.asarray(header["pixdim"])[1:4].tolist(), assume)


def _warn_of_another_qform(header: nib.Nifti1Header, sform: np.ndarray, path: Path) -> None:
    if int(header["qform_code"]) <= 0 or not np.linalg.det(sform):
        return
    try:
        qform = np.asarray(header.get_qform())
    except ValueError:  # a quaternion longer than 1; the sform stands
        return
    shape = cast("tuple[int, int, int]", header.get_data_shape()[:3])
    if grid_shift(sform, qform, shape) > 0.1:
        named = [
            f"{name} (code {int(header[f'{name}_code'])}) has origin {np.round(matrix[:3, 3], 3).tolist()}"
            f" and spacing {np.round(np.linalg.norm(matrix[:3, :3], axis=0), 3).tolist()}"
            for name, matrix in (("sform", sform), ("qform", qform))
        ]
        warnings.warn(f"{path}: {named[0]}, but {named[1]}; the sform is taken", stacklevel=6)


def _header(like: Volume) -> nib.Nifti1Header:
    source = like.source
    if isinstance(source, NiftiSource) and np.array_equal(source.affine, like.affine):
        header = source.header.copy()
        if header.get_data_shape()[:3] == like.shape:
            return header
    header = nib.Nifti1Header()
    header.set_data_shape(like.shape)
    header.set_qform(like.affine, code=1)
    header.set_sform(like.affine, code=1)
    if grid_shift(like.affine, np.asarray(header.get_qform()), like.shape) > 1e-2:  # a quaternion has no room for shear
        header["qform_code"] = 0
    header.set_xyzt_units("mm")
    return header


def _write(path: Path, array: np.ndarray, header: nib.Nifti1Header, like: Volume) -> None:
    suffix = check_target(path, SUFFIXES)
    if array.shape != like.shape:
        raise ValueError(f"{path}: array of shape {array.shape} is not on the grid of shape {like.shape}")
    header.set_data_dtype(array.dtype)
    image_class = nib.Nifti2Image if isinstance(header, nib.Nifti2Header) else nib.Nifti1Image
    image = image_class(array.reshape(header.get_data_shape()), None, header)
    image.header.set_slope_inter(1, 0)  # only now: making the image clears it
    with replacing(path) as beside, beside.open("xb") as file, _packed(file, suffix) as stream:
        image.to_stream(cast("BinaryIO", stream))  # pyright: ignore[reportArgumentType]


def _packed(file: BinaryIO, suffix: str) -> AbstractContextManager[BinaryIO | gzip.GzipFile]:
    # no name and no time inside: the same labels give the same bytes
    return gzip.GzipFile("", "wb", COMPRESSION, file, mtime=0) if suffix == ".nii.gz" else nullcontext(file)
