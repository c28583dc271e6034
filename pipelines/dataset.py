"""Folders of images and label maps, whoever laid them out.

`open_dataset` recognises by itself:

- a `dataset.json` with a list `training`, as the Medical Segmentation Decathlon has it;
- a `dataset.json` without one, as nnU-Net has it: `imagesTr/NAME_0000.nii.gz` and `labelsTr/NAME.nii.gz`;
- `images/` and `labels/`, or `imagesTr/` and `labelsTr/`, with the same names in both;
- `ct.nii.gz` and `labels.nii.gz`, in the folder itself or in each of its sub-folders;
- `NAME.nii.gz` beside `NAME_label.nii.gz`, `NAME_labels.nii.gz`, `NAME_seg.nii.gz` or `NAME.seg.nrrd`.

Every format that `images` reads serves as well as `.nii.gz`. Names come from `dataset.json`, or from `names.json` or
`label_names.json`, as `{"1": "spleen"}` or `{"spleen": 1}`; without any, they are "class 1" and so on, by the values
found in the label maps. A list of values, `{"lungs": [10, 11]}`, makes one class of them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .classes import Classes, few, read_json
from .images import SUFFIXES, images_in, read_labels, read_volume, stem
from .volume import Volume, reordered, same_grid

LABEL_ENDINGS = ("_labels", "_label", "_seg", ".seg")
CHANNEL = "_0000"  # nnU-Net's mark of the first channel


@dataclass(frozen=True)
class Case:
    """One image, and its label map if there is one."""

    name: str
    image: Path
    label: Path | None = None


@dataclass(frozen=True)
class DataSet:
    """What a folder holds.

    Args:
        root: The folder.
        cases: What to train and to score on; either all have labels, or none has.
        names: Class index to name, 0 (background) to K without a gap.
        merge: Value in the label files to class index; None if they are the same.
        unnamed_is_background: Whether a value without a name is background. True if the data set names some class by a
            list of values, and so means to choose; otherwise such a value is an error at reading.
        test: Images kept apart, without labels.
    """

    root: Path
    cases: tuple[Case, ...]
    names: dict[int, str]
    merge: dict[int, int] | None = None
    unnamed_is_background: bool = False
    test: tuple[Case, ...] = ()

    @property
    def labelled(self) -> list[Case]:
        """The cases with labels; a ValueError if there is none."""
        labelled = [case for case in self.cases if case.label]
        if not labelled:
            raise ValueError(f"{self.root} has images ({len(self.cases)}) but no label maps")
        return labelled

    @property
    def unlabelled(self) -> list[Case]:
        """The cases without labels: all of them in a folder without any, and those kept apart for testing."""
        return [case for case in (*self.cases, *self.test) if case.label is None]


def open_dataset(folder: Path | str) -> DataSet:
    """Recognise the layout of a folder and list its cases; image files are not opened.

    Label files are, all of them, if nothing names their classes.

    Raises:
        FileNotFoundError: The folder, or a file that its `dataset.json` lists, is missing.
        ValueError: No image is found, only some of the images have labels, a name occurs twice, there is more than one
            channel, or a JSON file is broken; the message names the file and the place in it.
    """
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"no such folder: {root}")
    description, named = root / "dataset.json", [root / "names.json", root / "label_names.json"]
    if description.is_file():
        content = read_json(description)
        _check_one_channel(content, description)
        layout = _listed if "training" in content else _nnunet
        cases, test = layout(root, content, description)
        classes = Classes.read(content.get("labels"), description)
    else:
        cases, test = _recognised(root), []
        file = next((file for file in named if file.is_file()), None)
        classes = (
            Classes.read(read_json(file), file) if file else Classes.found(case.label for case in cases if case.label)
        )
    _check_cases(cases, root)
    return DataSet(root, tuple(cases), classes.names, classes.merge, classes.chosen, tuple(test))


def read_case(dataset: DataSet, case: Case, *, assume: str | None = None) -> tuple[Volume, np.ndarray | None]:
    """Read an image and its label map.

    Args:
        dataset: Names and merges the label values.
        case: One of its cases.
        assume: Orientation of files that state none, see `read_volume`.

    Returns:
        The image, and the class index of each of its voxels, uint8 (int16 above 255 classes), in its shape and axis
        order; None without a label file. A label map on the image's grid but with axes in another order is accepted.

    Raises:
        ValueError: The label map is not on the image's grid, or holds a value without a name; the message has the case,
            the values and the known ones. Or a file cannot be read, see `read_volume`.
    """
    image = read_volume(case.image, assume=assume)
    if case.label is None:
        return image, None
    labels = reordered(read_labels(case.label, assume=assume), like=image)
    try:
        same_grid(image, labels)
        return image, Classes(dataset.names, dataset.merge, dataset.unnamed_is_background).indices(labels.array)
    except ValueError as error:
        raise ValueError(f"case {case.name}: {error}") from error


def _listed(root: Path, content: Mapping, file: Path) -> tuple[list[Case], list[Case]]:
    """Cases of a `dataset.json` that lists its files."""
    cases = []
    for entry in content["training"]:
        image, label = (entry.get("image"), entry.get("label")) if isinstance(entry, Mapping) else (None, None)
        if not isinstance(image, str) or not isinstance(label, str | None):
            raise ValueError(f'{file}: a case is {{"image": "FILE", "label": "FILE"}}, not {json.dumps(entry)}')
        cases.append(Case(stem(Path(image)), _image_file(root / image), root / label if label else None))
    missing = [path for case in cases for path in (case.image, case.label) if path and not path.is_file()]
    if missing:
        raise FileNotFoundError(f"{file} lists files that are missing: {few(missing)}")
    test = [root / (entry["image"] if isinstance(entry, Mapping) else entry) for entry in content.get("test", [])]
    return cases, [Case(stem(path), _image_file(path)) for path in test]


def _image_file(path: Path) -> Path:
    """The file itself, or its first channel where nnU-Net's older `dataset.json` leaves the mark of the channel out."""
    marked = path.with_name(f"{stem(path)}{CHANNEL}{path.name.removeprefix(stem(path))}")
    return marked if marked.is_file() and not path.is_file() else path


def _nnunet(root: Path, content: Mapping, file: Path) -> tuple[list[Case], list[Case]]:
    if (ending := content.get("file_ending", SUFFIXES[0])) not in SUFFIXES:
        raise ValueError(f"{file}: files that end in {ending}; expected one of {', '.join(SUFFIXES)}")
    test = [Case(stem.removesuffix(CHANNEL), path) for stem, path in _volumes(root / "imagesTs").items()]
    return _paired(root / "imagesTr", root / "labelsTr"), test


def _recognised(root: Path) -> list[Case]:
    """Cases of a folder that says nothing of itself."""
    for images, labels in (("images", "labels"), ("imagesTr", "labelsTr")):
        if (root / images).is_dir():
            return _paired(root / images, root / labels)
    folders = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
    files = {folder: _volumes(folder) for folder in folders}
    for choice in ([root], folders[1:]):
        if any("ct" in files[folder] for folder in choice):
            named = [(folder.resolve().name, files[folder]) for folder in choice if "ct" in files[folder]]
            return [Case(name, volumes["ct"], volumes.get("labels")) for name, volumes in named]
    return _beside(files[root], root)


def _paired(images: Path, labels: Path) -> list[Case]:
    label_files = _volumes(labels)
    cases = []
    for file, image in _volumes(images).items():
        name = file if file in label_files else file.removesuffix(CHANNEL)
        cases.append(Case(name, image, label_files.get(name)))
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
    return [Case(name, path, labels.get(name)) for name, path in files.items() if path not in taken]


def _volumes(folder: Path) -> dict[str, Path]:
    """Image files of a folder by their names without ending, sorted; none if there is no folder."""
    found: dict[str, Path] = {}
    for path in images_in(folder) if folder.is_dir() else []:
        if found.setdefault(stem(path), path) != path:
            raise ValueError(f"duplicate names: {found[stem(path)]} and {path}")
    return found


def _check_no_stray(stray: Iterable[str], folder: Path) -> None:
    if names := sorted(stray):
        raise ValueError(f"{folder}: label maps without an image: {few(names)}")


def _check_one_channel(content: Mapping, file: Path) -> None:
    channels = content.get("channel_names", content.get("modality", {}))
    if len(channels) > 1:
        raise ValueError(f"{file}: {len(channels)} channels, {json.dumps(channels)}; only one is supported")


def _check_cases(cases: list[Case], root: Path) -> None:
    if not cases:
        raise ValueError(f"no images in {root}: expected dataset.json, images/ and labels/, ct.nii.gz, or NAME.nii.gz")
    names = [case.name for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{root}: duplicate names of cases: {few(twice)}")
    bare = [case.name for case in cases if case.label is None]
    if 0 < len(bare) < len(cases):
        raise ValueError(f"{root}: images without a label map: {few(bare)}")
