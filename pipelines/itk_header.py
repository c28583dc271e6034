"""The plain text at the head of NRRD and MetaImage files: what SimpleITK passes over, and how to write a line again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

LINE_AT_MOST = 1 << 20  # bytes
MM_OF_UNIT = {"": 1.0, "?": 1.0, "mm": 1.0, "cm": 10.0, "m": 1e3, "um": 1e-3, "µm": 1e-3, "micron": 1e-3}


class HeaderFormat(Protocol):
    """What tells one kind of header from another.

    Args:
        name: Of the format.
        library: SimpleITK's name of its reader and writer.
        placing: Keys of the lines that say where the voxels lie.
    """

    name: str
    library: str
    placing: tuple[str, ...]

    def begins(self, line: str) -> bool:
        """Whether a first line is one of this format."""
        ...

    def ends(self, line: str) -> bool:
        """Whether a line is the last one."""
        ...

    def entry(self, line: str) -> tuple[str, str]:
        """Key and value of a line; empty if it has none."""
        ...

    def states_orientation(self, said: Mapping[str, str]) -> bool:
        """Whether the directions of the axes are known in the patient."""
        ...

    def units(self, said: Mapping[str, str]) -> list[str]:
        """Units of length, as the file names them."""
        ...

    def scale(self, said: Mapping[str, str]) -> tuple[float, float]:
        """What values are multiplied with, and what is then added."""
        ...

    def detached(self, said: Mapping[str, str]) -> str | None:
        """What names the file of the voxels, if they have one of their own."""
        ...

    def is_raw(self, said: Mapping[str, str]) -> bool:
        """Whether voxels are stored as they are."""
        ...


class Nrrd:
    """NRRD: `key: value`, then an empty line."""

    name = "NRRD"
    library = "NrrdImageIO"
    placing = (
        *("space", "space dimension", "space units", "space origin", "space directions"),
        *("spacings", "axis mins", "axis maxs", "centerings"),
    )
    patient = ("right-anterior-superior", "left-anterior-superior", "left-posterior-superior", "ras", "las", "lps")

    def begins(self, line: str) -> bool:
        """The magic number."""
        return line.startswith("NRRD0")

    def ends(self, line: str) -> bool:
        """Nothing on it."""
        return not line

    def entry(self, line: str) -> tuple[str, str]:
        """A field of the format; what a user may add is written `key:=value`."""
        key, between, value = line.partition(": ")
        return (key, value.strip()) if between and not key.startswith("#") else ("", "")

    def states_orientation(self, said: Mapping[str, str]) -> bool:
        """A space of the patient, and directions in it."""
        return said.get("space", "").lower().removesuffix("-time") in self.patient and "space directions" in said

    def units(self, said: Mapping[str, str]) -> list[str]:
        """In quotes, one for each axis."""
        return said.get("space units", "").replace('"', " ").split()

    def scale(self, said: Mapping[str, str]) -> tuple[float, float]:
        """There is none."""
        return 1.0, 0.0

    def detached(self, said: Mapping[str, str]) -> str | None:
        """Where it names one."""
        return said.get("data file", said.get("datafile"))

    def is_raw(self, said: Mapping[str, str]) -> bool:
        """Neither packed nor text."""
        return said.get("encoding") == "raw"


class MetaImage:
    """MetaImage: `key = value`, the last of them where the voxels are."""

    name = "MetaImage"
    library = "MetaImageIO"
    placing = (
        *("TransformMatrix", "Rotation", "Orientation", "Offset", "Position", "Origin", "CenterOfRotation"),
        *("AnatomicalOrientation", "ElementSpacing", "ElementSize", "DistanceUnits"),
    )

    def begins(self, line: str) -> bool:
        """It has no magic number."""
        return self.entry(line)[0] in ("ObjectType", "NDims", "Comment", "ObjectSubType")

    def ends(self, line: str) -> bool:
        """Where the voxels are."""
        return self.entry(line)[0] == "ElementDataFile"

    def entry(self, line: str) -> tuple[str, str]:
        """Blanks beside the sign do not matter."""
        key, between, value = line.partition("=")
        return (key.strip(), value.strip()) if between else ("", "")

    def states_orientation(self, said: Mapping[str, str]) -> bool:
        """A matrix under one of its three names; without one SimpleITK takes the identity."""
        return any(key in said for key in ("TransformMatrix", "Rotation", "Orientation"))

    def units(self, said: Mapping[str, str]) -> list[str]:
        """One for all axes."""
        return said.get("DistanceUnits", "").split()

    def scale(self, said: Mapping[str, str]) -> tuple[float, float]:
        """SimpleITK does not apply it."""
        slope, offset = (f"ElementToIntensityFunction{name}" for name in ("Slope", "Offset"))
        return float(said.get(slope, 1)), float(said.get(offset, 0))

    def detached(self, said: Mapping[str, str]) -> str | None:
        """Unless they are local."""
        return said["ElementDataFile"] if said["ElementDataFile"].upper() != "LOCAL" else None

    def is_raw(self, said: Mapping[str, str]) -> bool:
        """Neither packed nor text."""
        return said.get("CompressedData", "False") == "False" and said.get("BinaryData", "True") == "True"


@dataclass(frozen=True)
class Header:
    """The lines of a header, the one that ends it included, and how many bytes of the file they are."""

    format: HeaderFormat
    lines: tuple[str, ...]
    length: int

    @classmethod
    def read(cls, path: Path, format_: HeaderFormat) -> "Header":
        """Read the head of a file.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is empty, or of another format.
        """
        lines: list[str] = []
        with path.open("rb") as file:
            while not lines or not format_.ends(lines[-1]):
                line = file.readline(LINE_AT_MOST)
                lines.append(line.decode("latin-1").rstrip("\r\n"))
                if not line or not format_.begins(lines[0]):
                    raise ValueError(f"{path} is not a {format_.name} file" if lines[0] else f"{path} is empty")
            return cls(format_, tuple(lines), file.tell())

    @property
    def said(self) -> dict[str, str]:
        """Value by key."""
        return dict(self.format.entry(line) for line in self.lines)

    @property
    def millimetres(self) -> float:
        """The unit of length in mm; 1 if none is named.

        Raises:
            ValueError: It is unknown, or not the same for all axes.
        """
        units = {MM_OF_UNIT.get(unit.lower()) for unit in self.format.units(self.said)} or {1.0}
        if len(units) > 1 or None in units:
            raise ValueError(f"unit of length {' '.join(self.format.units(self.said))}; expected mm, cm, m or um")
        return units.pop() or 1.0

    def placed(self, like: "Header") -> list[str]:
        """The lines of this header, with those of another that say where the voxels lie in place of its own."""
        own = [line for line in self.lines if not self._places(line)]
        return [*own[:-1], *(line for line in like.lines if self._places(line)), own[-1]]

    def _places(self, line: str) -> bool:
        return self.format.entry(line)[0] in self.format.placing
