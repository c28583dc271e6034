"""The CT series among files: found, grouped, put in order; what cannot be read rightly is refused by name.

Files are grouped by series UID, SOP class, matrix, orientation and pixel size, so that a localizer or a second stack
under the same UID becomes a candidate of its own. Nothing is dropped in silence: every DICOM object ends up in one
candidate, every other file is listed, and a damaged file counts against the series that it belongs to, or against all
if it does not say.
"""

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pydicom.uid import UID

from .decoders import check_decoder
from .file import DamagedFileError, is_dicom, read_header
from .geometry import most_at_one_place, stacked, tilt_degrees
from .refusal import Code, SeriesError
from .slices import CT_CLASSES, Instance, Slice, instance_of, slices_of

TOLERANCE = 0.1  # of a voxel, as for any two grids in this package
SUFFIXES = (".dcm", ".dicom", ".ima")  # a file of such a name that is not DICOM was one once
ALIKE = 1e-4  # how far direction cosines, and pixel sizes in mm, may differ within a stack
OTHER_QUANTITIES = ("OD", "MGML", "Z_EFF", "ED", "EDW", "PCT")  # rescale types that are not Hounsfield units
HARMLESS = (Code.NOT_CT, Code.LOCALIZER)  # what may lie beside the series that is meant


@dataclass(frozen=True, eq=False)
class Series:
    """A stack of CT slices that can be read.

    Args:
        slices: In order along their normal; the last axis of the volume.
        affine: `(4, 4)`, `(column, row, slice)` index to RAS+ mm. Sheared if the gantry was tilted.
        repairs: What was mended or left out to get here, one line each.
    """

    slices: tuple[Slice, ...]
    affine: np.ndarray
    repairs: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """Columns, rows, slices."""
        return self.slices[0].columns, self.slices[0].rows, len(self.slices)

    @property
    def spacing_mm(self) -> tuple[float, float, float]:
        """Distance between neighbouring voxels along each axis; between tilted slices, along the line they lie on."""
        i, j, k = np.linalg.norm(self.affine[:3, :3], axis=0).tolist()
        return i, j, k

    @property
    def tilt_degrees(self) -> float:
        """Angle between the line that the slices lie on and their normal; 0 unless the gantry was tilted."""
        return tilt_degrees(self.affine)

    @property
    def uid(self) -> str:
        """The series UID as the files say it; empty if they do not."""
        return self.slices[0].instance.series_uid

    @property
    def paths(self) -> tuple[Path, ...]:
        """Its files, each once, in the order of their first slice."""
        return tuple(dict.fromkeys(one.instance.path for one in self.slices))


@dataclass(frozen=True, eq=False)
class Candidate:
    """Objects that belong together, and what they make: a series, or a refusal.

    Args:
        name: The series UID that its files say, with `#1`, `#2` ... behind it if several candidates say the same.
        instances: Its files.
        slices: Planes in them.
        series: What can be read, or None.
        refusal: Why not, or None.
    """

    name: str
    instances: tuple[Instance, ...]
    slices: int
    series: Series | None
    refusal: SeriesError | None

    @property
    def uid(self) -> str:
        """The series UID that its files say."""
        return self.instances[0].series_uid

    @property
    def what(self) -> str:
        """What its files are, such as `CT Image Storage`; never what a person typed."""
        return UID(self.instances[0].sop_class).name or "no SOP class"

    @property
    def is_bystander(self) -> bool:
        """Whether it is something that lies beside CT series, a localizer or another modality."""
        return self.refusal is not None and self.refusal.code in HARMLESS


@dataclass(frozen=True)
class PassedOver:
    """A file that is in no candidate.

    Args:
        path: Where it lies.
        reason: Why.
        damaged: Whether it is, or was, a DICOM object.
        series_uid: Of a damaged one, if that much can be read.
    """

    path: Path
    reason: str
    damaged: bool
    series_uid: str = ""


@dataclass(frozen=True, eq=False)
class Findings:
    """All that was found.

    Args:
        candidates: Those of most slices first.
        passed_over: Files that are no DICOM, or damaged.
    """

    candidates: tuple[Candidate, ...]
    passed_over: tuple[PassedOver, ...]

    def meant(self, name: str | None = None) -> list[Candidate]:
        """Those that can be meant, readable or not: all but bystanders, or these where there is nothing else.

        Args:
            name: A series UID or a candidate's name; any if None.

        Raises:
            SeriesError: There is none.
        """
        asked = [one for one in self.candidates if name in (None, one.uid, one.name)]
        if not asked:
            damaged = [f"{one.path.name}: {one.reason}" for one in self.passed_over if one.damaged]
            what = "no DICOM object" if name is None else f"no series {name}"
            told = f"; {len(damaged)} damaged, the first {damaged[0]}" if damaged else ""
            raise SeriesError(Code.NO_SERIES, f"{what} among the files{told}")
        return [one for one in asked if not one.is_bystander] or asked

    def only(self, name: str | None = None) -> Series:
        """The one series that can be meant.

        A CT series that cannot be read is never passed over for one that can; localizers and other modalities are.

        Args:
            name: A series UID or a candidate's name, where there are several.

        Raises:
            SeriesError: There is none or more than one, or the one that is meant cannot be read.
        """
        meant = self.meant(name)
        refusal = next((one.refusal for one in meant if one.refusal), None)
        if refusal:
            raise refusal
        if len(meant) > 1:
            named = ", ".join(f"{one.name} ({one.slices} slices)" for one in meant)
            raise SeriesError(Code.AMBIGUOUS, f"{len(meant)} series can be read, name one: {named}")
        assert meant[0].series is not None
        return meant[0].series


def find_series(source: Path | Iterable[Path], tolerance: float = TOLERANCE) -> Findings:
    """Look for CT series in a folder and those below it, or among given files.

    Reads headers only, but finds files whose pixels end too early. Hidden files are left out.

    Args:
        source: A folder, or files in any order.
        tolerance: Share of a voxel that a slice may be out of its place in a regular stack.

    Raises:
        OSError: A file or folder is missing or cannot be opened.
    """
    paths = _files(source) if isinstance(source, Path) else list(source)
    slices, others, passed_over = _read_headers(paths)
    damaged = [one for one in passed_over if one.damaged]
    candidates = [candidate for group in _grouped(slices) for candidate in _candidates(group, damaged, tolerance)]
    candidates.sort(key=lambda one: -one.slices)
    candidates += [_not_ct(instances) for instances in _by_kind(others)]
    return Findings(tuple(_numbered(candidates)), tuple(passed_over))


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise FileNotFoundError(f"no such folder: {folder}")
    paths = [Path(root) / name for root, _, names in os.walk(folder) for name in names]
    return sorted(path for path in paths if path.is_file() and not path.name.startswith("."))


def _read_headers(paths: Sequence[Path]) -> tuple[list[Slice], list[Instance], list[PassedOver]]:
    """Planes of CT images; other DICOM objects; other files."""
    slices, others, passed_over = [], [], []
    for path in paths:
        if not is_dicom(path):
            was_one = path.suffix.lower() in SUFFIXES
            reason = "it is named like DICOM and is none" if was_one else "no DICOM"
            passed_over.append(PassedOver(path, reason, was_one))
            continue
        uid = ""
        try:
            header = read_header(path)
            instance = instance_of(path, header)
            uid = instance.series_uid
            if instance.sop_class in CT_CLASSES:
                slices += slices_of(instance, header)
            else:
                others.append(instance)
        except DamagedFileError as error:
            passed_over.append(PassedOver(path, str(error), damaged=True, series_uid=uid or error.series_uid))
    return slices, others, passed_over


def _grouped(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Stacks that may be: slices alike in all but their place along the normal."""
    groups: list[list[Slice]] = []
    # those without a place come last, and join slices of the same matrix under the same UID, which are then refused
    for one in sorted(slices, key=lambda one: not one.is_placed):
        group = next((group for group in groups if _alike(group[0], one)), None)
        groups.append([one]) if group is None else group.append(one)
    return groups


def _alike(one: Slice, other: Slice) -> bool:
    if _family(one) != _family(other):
        return False
    if not (one.is_placed and other.is_placed):
        return True
    measures = np.array([(*s.orientation, *s.pixel_spacing) for s in (one, other)])
    return bool(np.abs(measures[0] - measures[1]).max() <= ALIKE)


def _family(one: Slice) -> tuple[object, ...]:
    who = one.instance
    # without a series UID, what else the files of a series have in common
    series = who.series_uid or (who.study_uid, who.frame_of_reference, who.series_number, who.description)
    localizer = "LOCALIZER" in one.image_type
    return series, who.sop_class, who.modality, one.rows, one.columns, one.samples, one.stack, _quantity(one), localizer


def _quantity(one: Slice) -> str:
    return one.unit if one.unit in OTHER_QUANTITIES else "HU"


def _candidates(group: Sequence[Slice], damaged: Sequence[PassedOver], tolerance: float) -> Iterator[Candidate]:
    kept = list({(one.instance.sop_uid or one.instance.path, one.frame, one.position): one for one in group}.values())
    repairs = [f"{len(group) - len(kept)} slices left out, their SOP UID repeats"] if len(kept) < len(group) else []
    for part in _parted(kept):
        series = refusal = None
        try:
            series = _series(part, repairs, damaged, tolerance)
        except SeriesError as error:
            refusal = error
        instances = tuple({one.instance.path: one.instance for one in part}.values())
        yield Candidate(instances[0].series_uid, instances, len(part), series, refusal)


def _parted(group: Sequence[Slice]) -> list[Sequence[Slice]]:
    """Split a stack that passes over the same places again by what tells the passes apart, if something does."""
    passes = most_at_one_place(group) if all(one.is_placed for one in group) else 1
    for tag in range(len(group[0].moment)) if passes > 1 else ():
        parts: dict[str, list[Slice]] = {}
        for one in group:
            parts.setdefault(one.moment[tag], []).append(one)
        if len(parts) == passes and all(most_at_one_place(part) == 1 for part in parts.values()):
            return list(parts.values())
    return [group]


def _series(slices: Sequence[Slice], repairs: Sequence[str], damaged: Sequence[PassedOver], tolerance: float) -> Series:
    _check_kind(slices[0])
    _check_damage(slices[0].instance.series_uid, damaged)
    _check_values(slices)
    uids = Counter((one.instance.sop_uid, one.frame) for one in slices if one.instance.sop_uid)
    uid, count = uids.most_common(1)[0] if uids else (("", 0), 1)
    if count > 1:
        raise SeriesError(Code.DUPLICATE_UID, f"{count} different slices have SOP instance UID {uid[0]}")
    ordered, affine = stacked(slices, tolerance)
    return Series(ordered, affine, (*repairs, *_told_repairs(ordered)))


def _check_kind(one: Slice) -> None:
    who = one.instance
    if who.modality not in ("CT", ""):
        raise SeriesError(Code.NOT_CT, f"modality {who.modality}")
    if one.samples != 1:
        raise SeriesError(Code.NOT_CT, f"{one.samples} numbers per pixel: a picture in colour")
    if "LOCALIZER" in one.image_type:
        raise SeriesError(Code.LOCALIZER, f"image type {'/'.join(one.image_type)}")
    if one.unit in OTHER_QUANTITIES:
        raise SeriesError(Code.NOT_HU, f"its values are {one.unit}, not Hounsfield units")
    check_decoder(who.transfer_syntax)


def _check_damage(series_uid: str, damaged: Sequence[PassedOver]) -> None:
    own = [one for one in damaged if one.series_uid in ("", series_uid)]
    if own:
        raise SeriesError(Code.DAMAGED_FILE, f"{len(own)} files, the first {own[0].path.name}: {own[0].reason}")


def _check_values(slices: Sequence[Slice]) -> None:
    for one in slices:
        if one.rescale and (not all(map(math.isfinite, one.rescale)) or one.rescale[0] == 0):
            raise SeriesError(Code.BAD_RESCALE, f"slope and intercept are {one.rescale} in {one.instance.path.name}")


def _told_repairs(slices: Sequence[Slice]) -> Iterator[str]:
    instances = {one.instance.path: one.instance for one in slices}.values()
    counts = Counter(repair for one in instances for repair in one.repairs)
    yield from (f"{repair} ({count} of {len(instances)} files)" for repair, count in counts.items())
    if not slices[0].instance.series_uid:
        yield "empty SeriesInstanceUID: files that agree in study, frame of reference and number are taken as a series"
    if any(not one.modality for one in instances):
        yield "empty Modality, taken from the SOP class"
    plain = sum(one.rescale is None and not one.has_lut for one in slices)
    if plain:
        yield f"{plain} slices say no rescale: their numbers are taken as HU"
    if len(slices) == 1:
        yield f"1 slice: its thickness, {slices[0].thickness_mm:.4g} mm, is taken as the spacing"


def _not_ct(instances: Sequence[Instance]) -> Candidate:
    who = instances[0]
    refusal = SeriesError(Code.NOT_CT, f"modality {who.modality or 'unknown'}")
    return Candidate(who.series_uid, tuple(instances), 0, None, refusal)


def _by_kind(instances: Sequence[Instance]) -> Iterable[list[Instance]]:
    kinds: dict[tuple[str, str], list[Instance]] = {}
    for one in instances:
        kinds.setdefault((one.series_uid, one.sop_class), []).append(one)
    return kinds.values()


def _numbered(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    counts, seen = Counter(one.uid for one in candidates), Counter[str]()
    for one in candidates:
        seen[one.uid] += 1
        yield replace(one, name=f"{one.uid}#{seen[one.uid]}") if counts[one.uid] > 1 else one
