"""What is wrong with a data set, found before hours of training: one case at a time, each read as training reads it."""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from nibabel.orientations import aff2axcodes

from .classes import few
from .dataset import DataSet, read_case
from .layouts import Case
from .structures import stem_and_side
from .volume import Volume, canonical

UNLIKE_OTHERS = 3.0  # times the median spacing, or its part, from which on a spacing looks like a fault


@dataclass(frozen=True)
class Finding:
    """Something wrong with a case, or, without one, with the whole.

    Args:
        case: Its name, or "".
        words: What is wrong.
        fatal: Whether training would fail or learn something wrong; otherwise it is worth a look.
    """

    case: str
    words: str
    fatal: bool


@dataclass(frozen=True)
class CaseFacts:
    """What a case is like.

    Args:
        shape: Voxels along the axes of its file.
        spacing_mm: Along the same.
        axes: Where they run to, such as LPS.
        values: The lowest and the highest value of the image, in its first channel.
        voxels: Class index to voxels; classes that the case lacks are left out.
        digest: The same for two images of the same voxels, whatever their axis order.
    """

    shape: tuple[int, int, int]
    spacing_mm: tuple[float, float, float]
    axes: str
    values: tuple[float, float]
    voxels: Mapping[int, int]
    digest: str


@dataclass(frozen=True)
class Check:
    """All that was found.

    Args:
        facts: By case; a case that could not be read has none.
        findings: What is wrong.
    """

    facts: dict[str, CaseFacts] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def fatal(self) -> list[Finding]:
        """Those for which training should not begin."""
        return [finding for finding in self.findings if finding.fatal]

    def as_dict(self) -> dict[str, object]:
        """For JSON: facts of each case, and the findings."""
        cases = {
            name: {**vars(facts), "voxels": {str(index): count for index, count in facts.voxels.items()}}
            for name, facts in self.facts.items()
        }
        return {"cases": cases, "findings": [vars(finding) for finding in self.findings]}


def check_dataset(dataset: DataSet, tick: Callable[[str], None] = lambda name: None) -> Check:
    """Read every labelled case, one in memory at a time, and say what is wrong.

    Args:
        dataset: With label maps.
        tick: Is told the name of each case that was read.

    Raises:
        ValueError: There are no labels at all.
    """
    check = Check()
    for case in dataset.labelled:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                facts, findings = _case(dataset, case)
                check.facts[case.name] = facts
            except (OSError, ValueError) as error:
                findings = [Finding(case.name, str(error).removeprefix(f"case {case.name}: "), fatal=True)]
        check.findings.extend(findings)
        check.findings.extend(Finding(case.name, str(one.message), fatal=False) for one in told)
        tick(case.name)
    check.findings.extend([*_twins(check.facts), *_odd_spacings(check.facts), *_classes(dataset, check.facts)])
    return check


def _case(dataset: DataSet, case: Case) -> tuple[CaseFacts, list[Finding]]:
    volume, labels = read_case(dataset, case)
    assert labels is not None
    extremes = [(float(channel.min()), float(channel.max())) for channel in volume.channels]
    counts = np.bincount(labels.ravel())
    voxels = {index: count for index, count in enumerate(counts.tolist()) if count and index in dataset.names}
    facts = CaseFacts(
        volume.shape,
        volume.spacing_mm,
        "".join(aff2axcodes(volume.affine)),
        extremes[0],
        voxels,
        _digest(volume),
    )
    findings = []
    for channel, (low, high) in zip(dataset.channels, extremes, strict=True):
        where = f" of {channel}" if len(extremes) > 1 else ""
        if low == high:
            findings.append(Finding(case.name, f"every voxel{where} is {low:g}", fatal=True))
        elif low >= 0 and channel.upper() == "CT":
            words = f"no value{where} is below 0 ({low:g} to {high:g}): Hounsfield units?"
            findings.append(Finding(case.name, words, fatal=False))
    if not voxels.keys() - {0}:
        findings.append(Finding(case.name, "no voxel is labelled", fatal=False))
    if words := _exchanged_sides(volume, labels, dataset.names):
        findings.append(Finding(case.name, words, fatal=False))
    return facts, findings


def _exchanged_sides(volume: Volume, labels: np.ndarray, names: Mapping[int, str]) -> str:
    """Words on pairs whose left one lies to the right of the right one, if most do; a body may be mirrored in truth."""
    pairs: dict[str, dict[str, int]] = {}
    for index, name in names.items():
        stem, side = stem_and_side(name)
        if side:
            pairs.setdefault(stem, {})[side] = index
    own = canonical(Volume(labels, volume.affine)).array
    counts = np.array([np.bincount(plane.ravel(), minlength=len(names))[: len(names)] for plane in own])
    there = [
        pair for pair in pairs.values() if len(pair) == 2 and all(counts[:, index].any() for index in pair.values())
    ]
    to_the_right = {i: np.average(range(len(own)), weights=counts[:, i]) for pair in there for i in pair.values()}
    wrong = [pair for pair in there if to_the_right[pair["left"]] > to_the_right[pair["right"]]]
    if 2 * len(wrong) <= len(there):
        return ""
    return f"left and right are exchanged in {len(wrong)} of {len(there)} pairs, {names[wrong[0]['left']]} for one"


def _digest(volume: Volume) -> str:
    own = canonical(volume)
    digest = hashlib.sha256(repr(own.shape).encode())
    for channel in own.channels:
        digest.update(np.ascontiguousarray(channel).data)
    return digest.hexdigest()


def _twins(facts: Mapping[str, CaseFacts]) -> Iterable[Finding]:
    """The same scan under two names would be trained on twice, or trained on and held out."""
    first: dict[str, str] = {}
    for name, one in facts.items():
        if (twin := first.setdefault(one.digest, name)) != name:
            yield Finding(name, f"the image has the same voxels as that of case {twin}", fatal=True)


def _odd_spacings(facts: Mapping[str, CaseFacts]) -> Iterable[Finding]:
    if not facts:
        return
    median = float(np.median([_middle(one.spacing_mm) for one in facts.values()]))
    for name, one in facts.items():
        ratio = _middle(one.spacing_mm) / median
        if not 1 / UNLIKE_OTHERS < ratio < UNLIKE_OTHERS:
            spacing = " x ".join(f"{mm:.3g}" for mm in one.spacing_mm)
            yield Finding(name, f"spacing {spacing} mm, {ratio:.2g} times that of the others", fatal=False)


def _middle(spacing_mm: Sequence[float]) -> float:
    return float(np.cbrt(np.prod(spacing_mm)))


def _classes(dataset: DataSet, facts: Mapping[str, CaseFacts]) -> Iterable[Finding]:
    there = {index for one in facts.values() for index in one.voxels} - {0}
    missing = [name for index, name in dataset.names.items() if index and index not in there]
    if facts and not there:
        yield Finding("", "no voxel of the data set is labelled", fatal=True)
    elif facts and missing:
        yield Finding("", f"classes that no case has: {few(missing)}", fatal=False)
