"""Records in YAML that people write: every key is checked, so that a slip of the pen is named."""

import dataclasses
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import yaml

from .files import write_text

Record = TypeVar("Record")
Kind = type | Callable[[Mapping[str, Any]], type]  # a dataclass, or what picks it by the keys beside its own

COMMENT = 100  # characters of a line of comment


class Recorded:
    """A dataclass that is kept as a YAML file.

    Args:
        records: Key to dataclass, or to a function that picks it by the keys beside that one, for keys at any depth
            that hold a record, or a list of records.
    """

    records: ClassVar[Mapping[str, Kind]] = {}

    def write(self, path: Path, remarks: Mapping[str, str] | None = None) -> None:
        """Write the YAML file, all or nothing, see `write_record`."""
        write_record(self, path, remarks)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read one.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is not YAML, or a key is unknown, missing or of the wrong kind; the message names it.
        """
        return read_record(cls, path, cls.records)


def write_record(record: Any, path: Path, remarks: Mapping[str, str] | None = None) -> None:
    """Write a dataclass as a YAML file, all or nothing.

    Args:
        record: The dataclass.
        path: The file.
        remarks: Comments by the field that they stand above, such as `"recipe.window"`; that of "" stands at the top.
    """
    remarks = remarks or {}
    write_text(path, _comment(remarks.get("", "")) + _text(record, remarks))


def _text(record: Any, remarks: Mapping[str, str], above: str = "") -> str:
    """A record as YAML, field by field."""
    parts = []
    for one in dataclasses.fields(record):
        name, value = one.name, getattr(record, one.name)
        parts.append(_comment(remarks.get(above + name, "")))
        if dataclasses.is_dataclass(value):
            parts += [f"{name}:\n", textwrap.indent(_text(value, remarks, f"{above}{name}."), "  ")]
        else:
            parts.append(yaml.safe_dump({name: _plain(value)}, sort_keys=False, allow_unicode=True))
    return "".join(parts)


def _comment(words: str) -> str:
    lines = (line for paragraph in words.splitlines() for line in textwrap.wrap(paragraph, COMMENT))
    return "".join(f"# {line}\n" for line in lines)


def read_record(kind: type[Record], path: Path, records: Mapping[str, Kind]) -> Record:
    """Read a dataclass from a YAML file.

    Args:
        kind: The dataclass; it checks its own values.
        path: The file.
        records: Key to dataclass, or to a function that picks it by the keys beside that one, for keys at any depth
            that hold a record, or a list of records.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not YAML, or a key is unknown, missing or of the wrong kind; the message names it.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no YAML file: {' '.join(str(error).split())}") from None
    return _filled(kind, content, records, str(path))


def _filled(kind: type[Record], content: Any, records: Mapping[str, Kind], where: str) -> Record:
    if not isinstance(content, Mapping):
        raise ValueError(f"{where}: expected keys and values, got {type(content).__name__}")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType]
    unknown = [str(key) for key in content if key not in fields]
    needed = [
        name
        for name, one in fields.items()
        if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING and name not in content
    ]
    if unknown or needed:
        parts = [f"unknown key {name!r}" for name in unknown] + [f"missing key {name!r}" for name in needed]
        raise ValueError(f"{where}: {', '.join(parts)}; known are {', '.join(fields)}")
    values = {}
    for name, value in content.items():
        if name in records and value is not None:
            value = _nested(_picked(records[name], content, where), value, records, f"{where}: {name}")
        values[name] = tuple(value) if isinstance(value, list) else value
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def _picked(kind: Kind, content: Mapping[str, Any], where: str) -> type:
    try:
        return kind if isinstance(kind, type) else kind(content)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _nested(kind: type, value: Any, records: Mapping[str, Kind], where: str) -> Any:
    if isinstance(value, list):
        return [_filled(kind, item, records, f"{where}: {number}") for number, item in enumerate(value, 1)]
    return _filled(kind, value, records, where)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
