"""What label values mean: names of classes, and values that are put together in one.

A JSON object says it either way round, `{"1": "spleen"}` or `{"spleen": 1}`; a list of values makes one class of them,
`{"lungs": [10, 11, 12, 13, 14]}`, and then values that are not listed anywhere are background.

Voxels of an entry `ignore` are those that nobody labelled: losses and scores leave them out.

Regions that lie within one another, `{"tumour": [1, 2, 3], "core": [2, 3], "enhancing": 3}` with
`"regions_class_order": [1, 2, 3]`, are learned as the classes that they cut one another into: a voxel's class is the
last region in that order that holds it. Scores are those of the whole regions.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from .images import read_labels

IGNORE = "ignore"
TABLE = 65535  # label values up to here are looked up in a table


@dataclass(frozen=True)
class Classes:
    """What the values of label files mean.

    Args:
        names: By class index, 0 (background) to K without a gap.
        merge: Class index by file value; None if they are the same. Voxels to be ignored have index K + 1.
        chosen: Whether a value without a name is background, as value lists chose among the values; otherwise it is an
            error.
        regions: Classes that a region is made of, by its index, where there are others than itself.
    """

    names: dict[int, str]
    merge: dict[int, int] | None
    chosen: bool = False
    regions: dict[int, list[int]] = field(default_factory=dict)

    @property
    def ignored(self) -> int:
        """The index of voxels that nobody labelled: of none of the classes."""
        return len(self.names)

    @classmethod
    def read_file(cls, file: Path) -> "Classes":
        """From `names.json`, or from the labels of a `dataset.json`.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is not JSON, or names no classes.
        """
        content = read_json(file)
        return cls.described(content, file) if "labels" in content else cls.read(content, file)

    @classmethod
    def described(cls, content: Mapping, file: Path) -> "Classes":
        """From the content of a `dataset.json`; a ValueError if it names no classes."""
        order = content.get("regions_class_order")
        classes = cls.read if order is None else partial(cls.of_regions, order=order)
        return classes(content.get("labels"), file)

    @classmethod
    def read(cls, labels: object, file: Path) -> "Classes":
        """From names and values as they stand in `file`; a ValueError if they are none."""
        entries = _entries(labels, file)
        assert isinstance(labels, Mapping)
        return cls.of(entries, str(file), any(isinstance(value, list) for value in labels.values()))

    @classmethod
    def of_regions(cls, labels: object, file: Path, order: object) -> "Classes":
        """From regions that may share values, and nnU-Net's order in which each covers those before it.

        Raises:
            ValueError: The order is not one number for each region, or covers what cannot be told any more.
        """
        regions = [entry for entry in _entries(labels, file) if 0 not in entry[1]]
        ignored = [value for name, values in regions if name == IGNORE for value in values]
        regions = [entry for entry in regions if entry[0] != IGNORE]
        if not isinstance(order, list) or len({*order}) != len(regions) or not all(type(one) is int for one in order):
            raise ValueError(f"{file}: regions_class_order has {order!r} for {len(regions)} regions")
        index = {number: rank for rank, number in enumerate(sorted(order), 1)}
        names = {0: "background", **{index[number]: name for number, (name, _) in zip(order, regions, strict=True)}}
        merge = {0: 0}
        for number, (_, values) in zip(order, regions, strict=True):
            merge.update(dict.fromkeys(values, index[number]))
        parts = {index[number]: _parts(region, merge, file) for number, region in zip(order, regions, strict=True)}
        merge.update(dict.fromkeys(ignored, len(names)))
        return cls(dict(sorted(names.items())), merge, regions={i: part for i, part in parts.items() if part != [i]})

    @classmethod
    def found(cls, files: Iterable[Path]) -> "Classes":
        """From the values of label files that nothing names: "class 1" and so on."""
        # where a voxel lies does not matter here, so a file of unknown orientation may pass
        maps = (read_labels(file, assume="RAS").array for file in files)
        values = {value for labels in maps for value in np.unique(labels).tolist()}
        return cls.of([(f"class {value}", [value]) for value in values - {0}], "label maps", chosen=False)

    @classmethod
    def of(cls, entries: list[tuple[str, list[int]]], origin: str, chosen: bool) -> "Classes":
        """From pairs of a name and its values; a ValueError if a name or a value stands twice."""
        ignored = [value for name, values in entries if name == IGNORE for value in values]
        entries = [entry for entry in entries if entry[0] != IGNORE]
        if not any(0 in values for _, values in entries):
            entries = [("background", [0]), *entries]
        # class indices follow the file where lists choose, and the values otherwise; background is first in both
        entries = sorted(entries, key=lambda entry: (0 not in entry[1], *([] if chosen else entry[1])))
        names: dict[int, str] = {}
        merge: dict[int, int] = {}
        for index, (name, values) in enumerate(entries):
            if name in names.values():
                raise ValueError(f"{origin}: the name {name!r} stands twice")
            names[index] = name
            for value in values:
                if merge.setdefault(value, index) != index:
                    raise ValueError(f"{origin}: value {value} is in {names[merge[value]]!r} and in {name!r}")
        for value in ignored:
            if value in merge:
                raise ValueError(f"{origin}: value {value} is in {names[merge[value]]!r} and in {IGNORE!r}")
        if ignored:
            return cls(names, {**merge, **dict.fromkeys(ignored, len(names))}, chosen)
        return cls(names, None if all(value == index for value, index in merge.items()) else merge, chosen)

    def indices(self, labels: np.ndarray) -> np.ndarray:
        """From file values to class indices, uint8 (int16 above 255 classes).

        Raises:
            ValueError: A value has no name; the message has the values and the known ones.
        """
        index_of = self.merge or {value: value for value in self.names}
        values = np.unique(labels)
        unknown = [value for value in values.tolist() if value not in index_of]
        if unknown and not self.chosen:
            raise ValueError(f"label values {few(unknown)} have no name; known are {few(sorted(index_of), 20)}")
        kept = np.uint8 if max(index_of.values()) < 256 else np.int16
        indices = np.array([index_of.get(value, 0) for value in values.tolist()], kept)
        if values[0] < 0 or values[-1] > TABLE:
            return indices[np.searchsorted(values, labels)]
        table = np.zeros(int(values[-1]) + 1, kept)
        table[values] = indices
        return table[labels]


def _entries(labels: object, file: Path) -> list[tuple[str, list[int]]]:
    if not isinstance(labels, Mapping) or not labels:
        raise ValueError(f'{file}: no names of classes, such as {{"1": "spleen"}} or {{"spleen": 1}}')
    return [_entry(key, value, file) for key, value in labels.items()]


def _parts(region: tuple[str, list[int]], merge: Mapping[int, int], file: Path) -> list[int]:
    """The classes that a region is made of."""
    name, values = region
    parts = sorted({merge[value] for value in values})
    others = [value for value, index in merge.items() if index in parts and value not in values]
    if others:
        raise ValueError(f"{file}: values {few(others)} cover a part of region {name!r} and do not belong to it")
    return parts


def _entry(key: str, value: object, file: Path) -> tuple[str, list[int]]:
    """Name and file values of one entry, written either way round."""
    name, given = (value, key) if isinstance(value, str) and not value.isdecimal() else (key, value)
    listed = given if isinstance(given, list) else [given]
    values = [int(item) for item in listed if type(item) is int or (isinstance(item, str) and item.isdecimal())]
    if not values or len(values) < len(listed):
        raise ValueError(f"{file}: {json.dumps({key: value})} is no name with a whole number or a list of them")
    return str(name), values


def read_json(file: Path) -> Mapping:
    """A JSON object; a ValueError that names file and place if it is broken."""
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"), object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"{file}: broken JSON at line {error.lineno}, column {error.colno}: {error.msg}") from error
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    if not isinstance(content, Mapping):
        raise ValueError(f"{file}: expected an object in braces")
    return content


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"duplicate names: {few(sorted({key for key in keys if keys.count(key) > 1}))}")
    return content


def few(items: Iterable[object], most: int = 5) -> str:
    """The items in words, the first of them if there are many."""
    words = [str(item) for item in items]
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")
