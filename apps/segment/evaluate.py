"""`fredholm segment evaluate`."""

import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro

from ...pipelines.classes import Classes
from ...pipelines.files import write_text
from ...pipelines.images import images_in, read_labels, stem
from ...pipelines.scores import DiceTable, evaluate_pair
from ..console import result
from .tables import dice_table


@dataclass
class Evaluate:
    """Compare label maps with a reference: Dice of each class.

    Both are files, or folders whose files have the same names. A class that neither has is not scored; one that only
    one of them has scores 0.

    Example: fredholm segment evaluate predictions/ labelsTs/ --names dataset.json --json scores.json
    """

    prediction: tyro.conf.Positional[Path]
    """Label map, or folder of them."""

    reference: tyro.conf.Positional[Path]
    """Label map to compare with, or folder of them."""

    names: Path | None = None
    """JSON file {"1": "spleen", ...} or dataset.json. A list of values there is one class of the reference."""

    json: Path | None = None
    """File for the scores."""

    def run(self) -> None:
        """Score and tell."""
        pairs = _pairs(self.prediction, self.reference)
        classes = self._classes(pairs)
        rows = {}
        for name, prediction, reference in pairs:
            truth = read_labels(reference)
            try:
                merged = replace(truth, array=classes.indices(truth.array))
                rows[name] = evaluate_pair(read_labels(prediction), merged, classes.names)
            except ValueError as error:
                raise ValueError(f"{reference}: {error}") from None
        scores = DiceTable(rows, classes.names)
        if self.json is not None:
            write_text(self.json, json.dumps(scores.as_dict(), indent=2) + "\n")
        result(dice_table(scores))

    def _classes(self, pairs: list[tuple[str, Path, Path]]) -> Classes:
        if self.names is not None:
            return Classes.read_file(self.names)
        maps = (path for _, *both in pairs for path in both)
        values = sorted({int(value) for path in maps for value in np.unique(read_labels(path).array) if value})
        return Classes({0: "background", **{value: f"class {value}" for value in values}}, None)


def _pairs(prediction: Path, reference: Path) -> list[tuple[str, Path, Path]]:
    for path in (prediction, reference):
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
    if prediction.is_dir() != reference.is_dir():
        raise ValueError("prediction and reference must both be files or both be folders")
    if prediction.is_file():
        return [(stem(prediction), prediction, reference)]
    theirs, ours = ({stem(path): path for path in images_in(folder)} for folder in (reference, prediction))
    shared = sorted(theirs.keys() & ours.keys())
    if not shared:
        raise ValueError(f"no file of {prediction} has the name of one in {reference}")
    missing = sorted(theirs.keys() - ours.keys())
    if missing:
        warnings.warn(
            f"{len(missing)} references have no prediction and are not scored, first {missing[0]}", stacklevel=2
        )
    return [(name, ours[name], theirs[name]) for name in shared]
