"""Folders of images and label maps, whoever laid them out.

`open_dataset` recognises by itself:

- a `dataset.json` with a list `training`, as the Medical Segmentation Decathlon has it;
- a `dataset.json` without one, as nnU-Net has it: `imagesTr/NAME_0000.nii.gz`, `NAME_0001` and so on for each of its
  `channel_names`, and `labelsTr/NAME.nii.gz`; only files with its `file_ending` count;
- `images/` and `labels/`, or `imagesTr/` and `labelsTr/`, with the same names in both;
- `ct.nii.gz` and `labels.nii.gz`, in the folder itself or in each of its sub-folders;
- `ct.nii.gz` and `segmentations/CLASS.nii.gz`, the same way, as TotalSegmentator's data set has it; its `meta.csv`
  says which cases are for validation and test;
- `ImageTr/CASE/ct.nii.gz` and `LabelTr/CASE/segmentations/CLASS.nii.gz`, as PanTS has it, with `ImageTe` for test;
- `NAME.nii.gz` beside `NAME_label.nii.gz`, `NAME_labels.nii.gz`, `NAME_seg.nii.gz` or `NAME.seg.nrrd`.

Every format that `images` reads serves as well as `.nii.gz`. Names come from `dataset.json`, or from `names.json` or
`label_names.json`, as `{"1": "spleen"}` or `{"spleen": 1}`; without any, they are "class 1" and so on, by the values
found in the label maps. A list of values, `{"lungs": [10, 11]}`, makes one class of them. Where each class has a file,
the files' names are the classes, in the order of the alphabet; a `names.json` chooses some of them and their order.
nnU-Net's regions and voxels to ignore are read as `classes` says.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .classes import Classes, few, read_json
from .images import read_channels, read_labels, stem
from .layouts import Case, advice, listed, nnunet, recognised
from .masks import merge_masks
from .volume import Volume, reordered, same_grid


@dataclass(frozen=True)
class DataSet:
    """What a folder holds.

    Args:
        root: The folder.
        cases: What to train and to score on; either all have labels, or none has.
        classes: What the values in the label files mean.
        test: Images kept apart, most often without labels.
        validation: Names of the cases that the data set itself holds out for validation; None if it names none.
        channels: Of each image, by name.
    """

    root: Path
    cases: tuple[Case, ...]
    classes: Classes
    test: tuple[Case, ...] = ()
    validation: tuple[str, ...] | None = None
    channels: tuple[str, ...] = ("CT",)

    @property
    def names(self) -> dict[int, str]:
        """Class names by index, background at 0."""
        return self.classes.names

    @property
    def labelled(self) -> list[Case]:
        """The cases with labels; a ValueError if there is none."""
        labelled = [case for case in self.cases if case.labelled]
        if not labelled:
            raise ValueError(f"{self.root} has images ({len(self.cases)}) but no label maps{advice(self.root)}")
        return labelled

    @property
    def unlabelled(self) -> list[Case]:
        """The cases without labels: all of them in a folder without any, and those kept apart for testing."""
        return [case for case in (*self.cases, *self.test) if not case.labelled]


def open_dataset(folder: Path | str) -> DataSet:
    """Recognise the layout of a folder and list its cases; image files are not opened.

    Label files are, all of them, if nothing names their classes.

    Raises:
        FileNotFoundError: The folder, or a file that its `dataset.json` lists, is missing.
        ValueError: No image is found, only some of the images have labels, a name occurs twice, a case lacks a channel,
            or a JSON file is broken; the message names the file and the place in it.
    """
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"no such folder: {root}")
    description, channels = root / "dataset.json", DataSet.channels
    if description.is_file():
        content = read_json(description)
        channels = _channels(content, description)
        layout = (listed if "training" in content else nnunet)(root, content, description, len(channels))
        classes = Classes.described(content, description)
    else:
        layout = recognised(root)
        classes = _named(root, layout.cases)
    _check_cases(layout.cases, root)
    _check_masks(layout.cases, classes.names, root)
    return DataSet(root, tuple(layout.cases), classes, tuple(layout.test), layout.validation, channels)


def read_case(dataset: DataSet, case: Case, *, assume: str | None = None) -> tuple[Volume, np.ndarray | None]:
    """Read an image, all its channels, and its label map.

    Args:
        dataset: Names and merges the label values.
        case: One of its cases.
        assume: Orientation of files that state none, see `read_volume`.

    Returns:
        The image, and the class index of each of its voxels, uint8 (int16 above 255 classes), in its shape and axis
        order; one past the last class where voxels are to be ignored. None without a label file. A label map on the
        image's grid but with axes in another order is accepted.

    Raises:
        ValueError: The label map is not on the image's grid, or holds a value without a name; the message has the case,
            the values and the known ones. Or a file cannot be read, see `read_volume`.
    """
    try:
        image = read_channels(case.images, assume=assume)
        if not case.labelled:
            return image, None
        if case.label is None:
            return image, merge_masks(_masks(case, dataset.names), image, assume=assume)
        labels = reordered(read_labels(case.label, assume=assume), like=image)
        same_grid(image, labels)
        return image, dataset.classes.indices(labels.array)
    except ValueError as error:
        raise ValueError(f"case {case.name}: {error}") from error


def _named(root: Path, cases: Sequence[Case]) -> Classes:
    """Classes of a folder without a `dataset.json`."""
    files = [file for file in (root / "names.json", root / "label_names.json") if file.is_file()]
    if files:
        return Classes.read(read_json(files[0]), files[0])
    masks = {stem(file) for case in cases for file in case.masks}
    if masks:
        return Classes(dict(enumerate(["background", *sorted(masks)])), None)
    return Classes.found(case.label for case in cases if case.label)


def _masks(case: Case, names: Mapping[int, str]) -> dict[int, Path]:
    """Class index to mask; masks of classes that are not asked for are left out."""
    files = {stem(file): file for file in case.masks}
    return {index: files[name] for index, name in names.items() if index and name in files}


def _channels(content: Mapping, file: Path) -> tuple[str, ...]:
    """Names of the channels, in their order."""
    given = content.get("channel_names", content.get("modality")) or {"0": DataSet.channels[0]}
    numbers = [str(number) for number in range(len(given))]
    if not isinstance(given, Mapping) or sorted(given) != sorted(numbers):
        raise ValueError(f'{file}: channel_names are {{"0": "CT", "1": "PET"}} and so on, not {json.dumps(given)}')
    return tuple(str(given[number]) for number in numbers)


def _check_cases(cases: list[Case], root: Path) -> None:
    if not cases:
        expected = "expected dataset.json, images/ and labels/, ct.nii.gz, or NAME.nii.gz"
        raise ValueError(f"no images in {root}: {expected}{advice(root)}")
    names = [case.name for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{root}: duplicate names of cases: {few(twice)}")
    bare = [case.name for case in cases if not case.labelled]
    if 0 < len(bare) < len(cases):
        raise ValueError(f"{root}: images without a label map: {few(bare)}")


def _check_masks(cases: Sequence[Case], names: Mapping[int, str], root: Path) -> None:
    """Where each class has a file, a case without one would teach that the class is not there."""
    mixed = [case.name for case in cases if case.label] if any(case.masks for case in cases) else []
    if mixed:
        raise ValueError(f"{root}: some cases have one label map, {few(mixed)}, and others a file for each class")
    wanted = set(list(names.values())[1:])
    for case in cases:
        if case.masks and (missing := sorted(wanted - {stem(file) for file in case.masks})):
            raise ValueError(
                f"{root}: case {case.name} has no mask of {few(missing)}; every case has a file for each class, "
                "an empty one for what it lacks, or names.json chooses the classes that all cases have"
            )
