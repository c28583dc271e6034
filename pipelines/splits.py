"""Which cases train and which are held out: by names alone, so that the order of files and the machine do not matter.

A split can be stated in a JSON or YAML file: `{"training": [...], "validation": [...]}`, a run's `plan.yaml`, or a list
of several, as nnU-Net's `splits_final.json` with `train` and `val`. Without one, patients are dealt out to folds in the
order of their names. A patient is never on both sides, as far as names tell who a patient is.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from .classes import few

HELD_OUT_FROM = 5  # patients; with fewer all of them train, unless something else is asked for
SIDES = (("training", "validation"), ("train", "val"))  # ours and nnU-Net's
# The name of an examination follows the patient's: sub-01_ses-2, patient007_frame01, 12_visit3, BraTS-GLI-00005-100.
EXAMINATION = re.compile(
    r"(?:(?<=^BraTS-\w{3}-\d{5})-\d{3}"
    r"|[_-](?:ses|session|visit|scan|exam|study|series|frame|phase|tp|timepoint|week|month|day)[_-]?\d+"
    r"|[_-](?:baseline|follow-?up)).*$",
    re.IGNORECASE,
)
SUBJECT = re.compile(r"sub-[a-z0-9]+", re.IGNORECASE)  # as in BIDS


@dataclass(frozen=True)
class Split:
    """Names of the cases that train, and of those held out.

    Args:
        training: At least one.
        validation: None of those that train, and of none of their patients.

    Raises:
        ValueError: That is not so; the names are in the message.
    """

    training: tuple[str, ...]
    validation: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.training:
            raise ValueError("every case is held out for validation, none is left to train on")
        names = [*self.training, *self.validation]
        if len(set(names)) < len(names):
            raise ValueError(f"cases stand twice in the split: {few(sorted({n for n in names if names.count(n) > 1}))}")
        patients = {patient(name) for name in self.training}
        if both := [name for name in self.validation if patient(name) in patients]:
            raise ValueError(f"held out cases whose patients are trained on too, by their names: {few(both)}")

    @classmethod
    def holding_out(cls, names: Iterable[str], validation: Sequence[str]) -> "Split":
        """All but these train.

        Raises:
            ValueError: One of them is no case, or none is left to train on.
        """
        names = list(names)
        if unknown := [name for name in validation if name not in names]:
            raise ValueError(f"no case {unknown[0]!r}; the cases are {', '.join(sorted(names))}")
        return cls(tuple(name for name in names if name not in validation), tuple(validation))

    @classmethod
    def of_fold(cls, names: Iterable[str], fold: "Fold") -> "Split":
        """The split in which one fold is held out: of the patients in the order of their names, every so many.

        Raises:
            ValueError: There are fewer patients than folds.
        """
        names = sorted(names)
        patients = sorted({patient(name) for name in names})
        if len(patients) < fold.of:
            raise ValueError(f"{len(patients)} patients cannot be dealt out to {fold.of} folds")
        held_out = set(patients[fold.number - 1 :: fold.of])
        return cls.holding_out(names, [name for name in names if patient(name) in held_out])

    @classmethod
    def usual(cls, names: Iterable[str]) -> "Split":
        """Every fifth patient is held out, if there are five or more."""
        names = list(names)
        if len({patient(name) for name in names}) < HELD_OUT_FROM:
            return cls.holding_out(names, ())
        return cls.of_fold(names, Fold(1, HELD_OUT_FROM))


@dataclass(frozen=True)
class Fold:
    """One of several folds, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Fold":
        """From `k/n`; a ValueError if it is not."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        number, of = (int(part) for part in found.groups()) if found else (0, 0)
        if of < 2 or not 1 <= number <= of:
            raise ValueError(f"a fold is k/n, from 1/n to n/n with n of 2 or more, not {text!r}")
        return cls(number, of)


def read_split(file: Path, names: Iterable[str], fold: Fold | None = None) -> Split:
    """Read a split from a file.

    Args:
        file: JSON or YAML.
        names: The cases that there are.
        fold: Which of several splits; the file then has as many.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no split, names what is no case, or has several and none was chosen.
    """
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8-sig"))  # JSON is YAML
    except FileNotFoundError:
        raise FileNotFoundError(f"no such file: {file}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    try:
        split = _split(_chosen(content, fold))
        known = set(names)
        if unknown := [name for name in (*split.training, *split.validation) if name not in known]:
            raise ValueError(f"names that are no case: {few(unknown)}; cases are {few(sorted(known))}")
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    return split


def patient(name: str) -> str:
    """The part of a case's name that tells the patient; the whole name if it does not tell examinations apart."""
    subject = SUBJECT.match(name)
    part = subject[0] if subject else EXAMINATION.sub("", name)
    return part if any(letter.isdigit() for letter in part) or subject else name


def _chosen(content: object, fold: Fold | None) -> object:
    splits = content if isinstance(content, list) else [content]
    if fold is None and len(splits) != 1:
        raise ValueError(f"there are {len(splits)} splits: choose one with --fold 1/{len(splits)} and so on")
    if fold is not None and len(splits) != fold.of:
        raise ValueError(f"there are {len(splits)} splits, not {fold.of}")
    return splits[fold.number - 1 if fold else 0]


def _split(content: object) -> Split:
    if isinstance(content, Mapping) and isinstance(content.get("data"), Mapping):
        content = content["data"]  # a run's plan
    for sides in SIDES:
        if isinstance(content, Mapping) and set(sides) <= content.keys():
            lists = [content[side] for side in sides]
            if all(isinstance(one, list) and all(isinstance(name, str) for name in one) for one in lists):
                return Split(tuple(lists[0]), tuple(lists[1]))
    raise ValueError('a split is {"training": [NAME, ...], "validation": [NAME, ...]}, or a list of them')
