"""How people lay out images and label maps in folders, and which cases such a folder holds; no image is opened.

Each layout gives the cases to train on, those kept apart for testing, and those that the data set itself names for
validation.
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .classes import few
from .images import SUFFIXES, images_in, stem

LABEL_ENDINGS = ("_labels", "_label", "_seg", ".seg")
CHANNEL = "_0000"  # nnU-Net's mark of the first channel
MASKS = "segmentations"  # a case's folder of one file for each class
META = "meta.csv"  # TotalSegmentator's table of cases: which are for training, validation and test


@dataclass(frozen=True)
class Case:
    """One image, and what is known of its labels.

    Args:
        name: Of the case.
        images: A file for each channel.
        label: Its label map.
        masks: In place of a label map, a file for each class, named as the class.
    """

    name: str
    images: tuple[Path, ...]
    label: Path | None = None
    masks: tuple[Path, ...] = ()

    @property
    def image(self) -> Path:
        """The file of the first channel."""
        return self.images[0]

    @property
    def labelled(self) -> bool:
        """Whether there are labels of either kind."""
        return self.label is not None or bool(self.masks)


@dataclass(frozen=True)
class Layout:
    """Cases of a folder.

    Args:
        cases: To train and to score on.
        test: Kept apart.
        validation: Names of the cases that the data set holds out for validation; None if it says nothing of that.
    """

    cases: list[Case]
    test: list[Case]
    validation: tuple[str, ...] | None = None


def listed(root: Path, content: Mapping, file: Path, channels: int) -> Layout:
    """Cases of a `dataset.json` that lists its files, those of several channels without the channel's mark.

    Raises:
        ValueError: An entry is of another form.
        FileNotFoundError: A listed file is missing; it is named.
    """
    cases = []
    for entry in content["training"]:
        image, label = (entry.get("image"), entry.get("label")) if isinstance(entry, Mapping) else (None, None)
        if not isinstance(image, str) or not isinstance(label, str | None):
            raise ValueError(f'{file}: a case is {{"image": "FILE", "label": "FILE"}}, not {json.dumps(entry)}')
        cases.append(Case(stem(Path(image)), _image_files(root / image, channels), root / label if label else None))
    missing = [path for case in cases for path in (*case.images, case.label) if path and not path.is_file()]
    if missing:
        form = f"; {channels} channels are {channels} files, NAME_0000 and so on" if channels > 1 else ""
        raise FileNotFoundError(f"{file} lists files that are missing: {few(missing)}{form}")
    test = [root / (entry["image"] if isinstance(entry, Mapping) else entry) for entry in content.get("test", [])]
    return Layout(cases, [Case(stem(path), _image_files(path, channels)) for path in test])


def nnunet(root: Path, content: Mapping, file: Path, channels: int) -> Layout:
    """Cases of nnU-Net's `dataset.json`, which lists none; files that do not end as it says are none of them.

    Raises:
        ValueError: Its `file_ending` is of no known format, a case lacks a channel, or there are labels without an
            image.
    """
    ending = content.get("file_ending", "")
    if ending and ending not in SUFFIXES:
        raise ValueError(f"{file}: files that end in {ending}; expected one of {', '.join(SUFFIXES)}")
    test = [Case(name, images) for name, images in grouped(_volumes(root / "imagesTs", ending), channels).items()]
    return Layout(_paired(root / "imagesTr", root / "labelsTr", channels, ending), test)


def grouped(files: Mapping[str, Path], channels: int) -> dict[str, tuple[Path, ...]]:
    """The files of each case, one for each channel, from those of a folder by their names without ending.

    A single channel may do without nnU-Net's mark: `NAME` or `NAME_0000`; several are `NAME_0000`, `NAME_0001` and so
    on.

    Raises:
        ValueError: A case has too many channels or lacks one.
    """
    if channels == 1:
        return {name.removesuffix(CHANNEL): (path,) for name, path in files.items()}
    found: dict[str, dict[str, Path]] = {}
    for name, path in files.items():
        marked = re.fullmatch(r"(.+)(_\d{4})", name)
        case, mark = marked.groups() if marked else (name, "")
        found.setdefault(case, {})[mark] = path
    marks = [f"_{number:04d}" for number in range(channels)]
    for case, own in found.items():
        if sorted(own) != marks:
            there = few(path.name for path in own.values())
            raise ValueError(f"case {case}: expected {channels} channels, {marks[0]} to {marks[-1]}, found {there}")
    return {case: tuple(own[mark] for mark in marks) for case, own in found.items()}


def channels_of(path: Path, channels: int) -> tuple[Path, ...]:
    """The files of an image whose first is given, with or without the mark of its channel."""
    if channels == 1:
        return (path,)
    name = stem(path)
    case, ending = name.removesuffix(CHANNEL), path.name.removeprefix(name)
    return tuple(path.with_name(f"{case}_{number:04d}{ending}") for number in range(channels))


def recognised(root: Path) -> Layout:
    """Cases of a folder that says nothing of itself; none where nothing is recognised.

    Raises:
        ValueError: Labels without an image, two label maps or two images of one name, or a table of the split that
            cannot be read.
    """
    for images, labels in (("images", "labels"), ("imagesTr", "labelsTr")):
        if (root / images).is_dir():
            return Layout(_paired(root / images, root / labels), [])
    if (root / "ImageTr").is_dir():  # PanTS
        cases, test = (_in_folders(root / f"Image{part}", root / f"Label{part}") for part in ("Tr", "Te"))
        return Layout(cases, test)
    alone = _in_folder(root.resolve().name, root, root)
    cases = [alone] if alone else _in_folders(root, root)
    if not cases:
        return Layout(_beside(_volumes(root), root), [])
    return _split_by_table(cases, root / META) if (root / META).is_file() else Layout(cases, [])


def advice(root: Path) -> str:
    """Which folder may have been meant, above or below this one; words to add to an error, or none."""
    above = [folder for folder in root.resolve().parents[:2] if _is_marked(folder)]
    below = [folder for folder in _folders(root) if _is_marked(folder) or _in_folders(folder, folder)]
    found = few(above or below, 3)
    return f"; did you mean {found}?" if found else ""


def _is_marked(folder: Path) -> bool:
    """Whether a folder's own entries say that it is a data set."""
    marks = ("dataset.json", "imagesTr", "images", "ImageTr", META)
    return any((folder / mark).exists() for mark in marks) or "ct" in _volumes(folder)


def _image_files(path: Path, channels: int) -> tuple[Path, ...]:
    """The file of each channel; nnU-Net's older `dataset.json` leaves the mark of the channel out."""
    marked = path.with_name(f"{stem(path)}{CHANNEL}{path.name.removeprefix(stem(path))}")
    return channels_of(marked if channels == 1 and marked.is_file() and not path.is_file() else path, channels)


def _in_folders(images: Path, labels: Path) -> list[Case]:
    """Cases with a folder each, of the same name in both places."""
    cases = (_in_folder(folder.name, folder, labels / folder.name) for folder in _folders(images))
    return [case for case in cases if case]


def _in_folder(name: str, image: Path, labels: Path) -> Case | None:
    """The case whose `ct` lies in one folder, and whose labels or masks lie in another."""
    if (ct := _volumes(image).get("ct")) is None:
        return None
    label = _volumes(labels).get("labels")
    return Case(name, (ct,), label, () if label else tuple(_volumes(labels / MASKS).values()))


def _split_by_table(cases: list[Case], file: Path) -> Layout:
    """Sort the cases by the columns `image_id` and `split`; a case that the table passes over is for training."""
    with file.open(newline="", encoding="utf-8-sig") as lines:
        rows = list(csv.DictReader(lines, delimiter=";"))
    if rows and not {"image_id", "split"} <= rows[0].keys():
        raise ValueError(f"{file}: expected the columns image_id and split with ; between them")
    split = {row["image_id"]: row["split"] for row in rows}
    if unknown := sorted(set(split.values()) - {"train", "val", "test"}):
        raise ValueError(f"{file}: a split is train, val or test, not {few(unknown)}")
    kept = [case for case in cases if split.get(case.name) != "test"]
    validation = tuple(case.name for case in cases if split.get(case.name) == "val")
    return Layout(kept, [case for case in cases if case not in kept], validation or None)


def _paired(images: Path, labels: Path, channels: int = 1, ending: str = "") -> list[Case]:
    label_files, files = _volumes(labels, ending), _volumes(images, ending)
    alike = {name: (path,) for name, path in files.items() if channels == 1 and name in label_files}
    marked = grouped({name: path for name, path in files.items() if name not in alike}, channels)
    cases = [Case(name, paths, label_files.get(name)) for name, paths in sorted([*alike.items(), *marked.items()])]
    _check_no_stray(label_files.keys() - {case.name for case in cases}, labels)
    return cases


def _beside(files: dict[str, Path], root: Path) -> list[Case]:
    labels: dict[str, Path] = {}
    stray = set()
    for file, path in files.items():
        ending = next((ending for ending in LABEL_ENDINGS if file.endswith(ending)), None)
        name = file.removesuffix(ending or "")
        if ending and name not in files:
            stray.add(file)
        elif ending and labels.setdefault(name, path) != path:
            raise ValueError(f"{root}: {name} has two label maps, {labels[name].name} and {path.name}")
    _check_no_stray(stray, root)
    taken = set(labels.values())
    return [Case(name, (path,), labels.get(name)) for name, path in files.items() if path not in taken]


def _volumes(folder: Path, ending: str = "") -> dict[str, Path]:
    """Image files of a folder by their names without ending, sorted; none if there is no folder."""
    found: dict[str, Path] = {}
    for path in images_in(folder) if folder.is_dir() else []:
        if not path.name.endswith(ending):
            continue
        if found.setdefault(stem(path), path) != path:
            raise ValueError(f"duplicate names: {found[stem(path)]} and {path}")
    return found


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _check_no_stray(stray: Iterable[str], folder: Path) -> None:
    if names := sorted(stray):
        raise ValueError(f"{folder}: label maps without an image: {few(names)}")
