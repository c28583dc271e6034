"""What label values mean: names of classes, and values that are put together in one.

A JSON object says it either way round, `{"1": "spleen"}` or `{"spleen": 1}`; a list of values makes one class of them,
`{"lungs": [10, 11, 12, 13, 14]}`, and then values that are not listed anywhere are background.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .images import read_labels

TABLE = 65535  # label values up to here are looked up in a table


@dataclass(frozen=True)
class Classes:
    """Names by class index; class index by file value, if they differ; whether some value lists chose among values."""

    names: dict[int, str]
    merge: dict[int, int] | None
    chosen: bool = False

    @classmethod
    def read_file(cls, file: Path) -> "Classes":
        """From `names.json`, or from the labels of a `dataset.json`.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is not JSON, or names no classes.
        """
        content = read_json(file)
        return cls.read(content.get("labels", content), file)

    @classmethod
    def read(cls, labels: object, file: Path) -> "Classes":
        """From names and values as they stand in `file`; a ValueError if they are none."""
        if not isinstance(labels, Mapping) or not labels:
            raise ValueError(f'{file}: no names of classes, such as {{"1": "spleen"}} or {{"spleen": 1}}')
        entries = [_entry(key, value, file) for key, value in labels.items()]
        return cls.of(entries, str(file), any(isinstance(value, list) for value in labels.values()))

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
        kept = np.uint8 if len(self.names) <= 256 else np.int16
        indices = np.array([index_of.get(value, 0) for value in values.tolist()], kept)
        if values[0] < 0 or values[-1] > TABLE:
            return indices[np.searchsorted(values, labels)]
        table = np.zeros(int(values[-1]) + 1, kept)
        table[values] = indices
        return table[labels]


def _entry(key: str, value: object, file: Path) -> tuple[str, list[int]]:
    """Name and file values of one entry, written either way round."""
    name, given = (value, key) if isinstance(value, str) and not value.isdecimal() else (key, value)
    listed = given if isinstance(given, list) else [given]
    values = [int(item) for item in listed if type(item) is int or (isinstance(item, str) and item.isdecimal())]
    if not values or len(values) < len(listed):
        raise ValueError(f"{file}: {json.dumps({key: value})} is no name with a whole number or a list of them")
    if name == "ignore":
        raise ValueError(f"{file}: a class 'ignore' (voxels that nobody labelled) is not supported")
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
