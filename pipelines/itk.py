"""NRRD and MetaImage files (`.nrrd`, `.mha`, `.mhd`) in and out, through SimpleITK.

SimpleITK reads voxels and geometry, in LPS millimetres; they become RAS+ here. What it passes over in silence is looked
up in the file's own header:

- a file without an orientation gets the identity there. Here it is refused unless the caller says `assume`: an NRRD
  file without a `space` that names the patient's sides, a MetaImage without a matrix of directions;
- units of length other than millimetres scale the geometry;
- slope and offset of a MetaImage's values are applied.

A label map written `like` a volume that came from a file of its format repeats the lines that place it to the letter.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import SimpleITK

from .files import check_target, replacing_with_companions
from .itk_header import Header, HeaderFormat, MetaImage, Nrrd
from .stored import Stored, labels_to_write
from .volume import Volume, assumed_affine, checked_affine

FORMATS: dict[str, HeaderFormat] = {".nrrd": Nrrd(), ".mha": MetaImage(), ".mhd": MetaImage()}
SUFFIXES = tuple(FORMATS)
LPS = np.diag((-1.0, -1.0, 1.0, 1.0))  # to RAS+ and back


@dataclass(frozen=True, eq=False)
class ItkSource:
    """The header of a file, and the affine that its volume was given."""

    header: Header
    affine: np.ndarray


def read_volume(path: Path | str, *, assume: str | None = None) -> Volume:
    """Read an image; see `images.read_volume`."""
    return _read(Path(path), assume).image()


def read_labels(path: Path | str, *, assume: str | None = None) -> Volume:
    """Read a label map; see `images.read_labels`."""
    return _read(Path(path), assume).labels()


def write_labels(path: Path | str, labels: np.ndarray, like: Volume) -> None:
    """Write a label map, packed; see `images.write_labels`. The voxels of an `.mhd` lie in a `.zraw` beside it."""
    path, kept = Path(path), labels_to_write(labels)
    library = FORMATS[check_target(path, SUFFIXES)].library
    if kept.shape != like.shape:
        raise ValueError(f"{path}: array of shape {kept.shape} is not on the grid of shape {like.shape}")
    with replacing_with_companions(path) as beside:
        SimpleITK.WriteImage(_image(kept, like.affine), str(beside), useCompression=True, imageIO=library)
        if (header := _header_of(like)) is not None and header.format.library == library:
            _place(beside, header)


def files_of(path: Path) -> list[Path]:
    """The files that an image lies in; all of its folder where the header names a list or a pattern of files."""
    header = Header.read(path, FORMATS[path.suffix.lower()])
    named = header.format.detached(header.said)
    if named is None:
        return [path]
    voxels = path.parent / named
    return [path, voxels] if voxels.is_file() else [file for file in path.parent.iterdir() if file.is_file()]


def _read(path: Path, assume: str | None) -> Stored:
    header = Header.read(path, FORMATS[path.suffix.lower()])
    image = _execute(path, header)
    affine = _affine(image, header, assume, path)
    array = SimpleITK.GetArrayFromImage(image).T
    said = header.said
    slope, inter = (
        float(said.get(f"ElementToIntensityFunction{name}", n)) for name, n in (("Slope", 1), ("Offset", 0))
    )
    return Stored(array.reshape(array.shape[:3]), slope, inter, affine, ItkSource(header, affine), path)


def _execute(path: Path, header: Header) -> SimpleITK.Image:
    reader = SimpleITK.ImageFileReader()
    reader.SetImageIO(header.format.library)
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
        kind = SimpleITK.GetPixelIDValueAsString(reader.GetPixelID())
        _check_kind(reader.GetSize(), kind, reader.GetNumberOfComponents(), path)
        _check_length(header, math.prod(reader.GetSize()) * int(re.findall(r"(\d+)-bit", kind)[0]) // 8, path)
        image = reader.Execute()
    except RuntimeError:  # its words are many lines of C++
        raise ValueError(f"{path} is truncated or damaged: its {header.format.name} cannot be read") from None
    return SimpleITK.VectorIndexSelectionCast(image, 0) if kind.startswith("vector") else image


def _check_kind(shape: Sequence[int], kind: str, components: int, path: Path) -> None:
    if len(shape) < 3 or any(n > 1 for n in shape[3:]):
        raise ValueError(f"{path} has shape {tuple(shape)}: one volume of three axes is expected")
    if components > 1 or "complex" in kind:
        raise ValueError(f"{path} holds {components} x {kind}: one real number per voxel is expected")


def _check_length(header: Header, needed: int, path: Path) -> None:
    # before any memory is asked for: a damaged header may claim any size
    if header.format.detached(header.said) or not header.format.is_raw(header.said):
        return
    if path.stat().st_size - header.length < needed:
        raise ValueError(f"{path} is truncated or damaged: its header speaks of {needed} bytes")


def _affine(image: SimpleITK.Image, header: Header, assume: str | None, path: Path) -> np.ndarray:
    try:
        unit = np.diag((*[header.millimetres] * 3, 1.0))
        if header.format.states_orientation(header.said):
            return checked_affine(unit @ LPS @ _lps(image))
        if assume is None:
            raise ValueError("orientation unknown; state it, such as --assume RAS")
        return checked_affine(unit @ assumed_affine(image.GetSpacing()[:3], assume))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _lps(image: SimpleITK.Image) -> np.ndarray:
    axes = image.GetDimension()
    affine = np.eye(4)
    directions = np.array(image.GetDirection()).reshape(axes, axes)[:3, :3]
    affine[:3, :3] = directions * image.GetSpacing()[:3]
    affine[:3, 3] = image.GetOrigin()[:3]
    return affine


def _image(array: np.ndarray, affine: np.ndarray) -> SimpleITK.Image:
    image = SimpleITK.GetImageFromArray(np.ascontiguousarray(array.T))
    lps = LPS @ affine
    spacing = np.linalg.norm(lps[:3, :3], axis=0)
    image.SetSpacing(spacing.tolist())
    image.SetDirection((lps[:3, :3] / spacing).ravel().tolist())
    image.SetOrigin(lps[:3, 3].tolist())
    return image


def _header_of(volume: Volume) -> Header | None:
    """The header whose lines still say where a volume lies: three axes, and not moved since."""
    source = volume.source
    if not isinstance(source, ItkSource) or not np.array_equal(source.affine, volume.affine):
        return None
    axes = source.header.said.get("dimension", source.header.said.get("NDims"))
    return source.header if axes == "3" else None


def _place(path: Path, like: Header) -> None:
    """Write the lines of another header that say where its voxels lie in place of a file's own."""
    written = Header.read(path, like.format)
    voxels = path.read_bytes()[written.length :]
    path.write_bytes("".join(f"{line}\n" for line in written.placed(like)).encode("latin-1") + voxels)
