"""`fredholm points predict`."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from ...pipelines.files import check_target, write_text
from ..console import bar, note, result, table
from .classifier import Weights, load_classifier

SHOWN = 3  # classes of a cloud in the table


@dataclass
class PredictPoints:
    """Say what clouds or meshes show: the class, and how probable each is.

    A file that cannot be read is one line, and the others go on; the exit code is then 1.

    Example: fredholm points predict -i chair.off --run RUN
    """

    input: Annotated[Path, tyro.conf.arg(aliases=("-i",))]
    """OFF, PLY, OBJ, STL, PCD, XYZ, TXT, NPY or NPZ file of one cloud or mesh, or a folder of them."""

    run_folder: Annotated[Path, tyro.conf.arg(name="run")]
    """Folder of the run."""

    output: Annotated[Path | None, tyro.conf.arg(aliases=("-o",))] = None
    """CSV or JSON file for all probabilities."""

    weights: Weights = "last"
    """Those after the last step, or those of the best validation."""

    votes: int = 1
    """Choices of points whose probabilities are averaged."""

    device: str = "auto"
    """auto, cpu, cuda."""

    def run(self) -> None:
        """Classify and tell."""
        if self.output is not None:
            check_target(self.output, (".csv", ".json"))
        classifier = load_classifier(self.run_folder, self.weights, self.votes, self.device)
        from ...pipelines.points.cloud import Cloud, unit
        from ...pipelines.points.files import READERS, read_cloud

        files = _files(self.input, READERS)
        clouds: dict[str, Cloud] = {}
        with bar("reading", len(files)) as progress:
            for file in files:
                try:
                    clouds[str(file)] = unit(_fit(read_cloud(file), classifier.plan.normals, file), file.name)
                except (OSError, ValueError) as error:
                    if len(files) == 1:
                        raise
                    note(f"fredholm: {error}")
                progress.tick(file.name)
        with bar("classifying") as progress:
            found = classifier.probabilities([*clouds.values()], progress.tick)
        names = classifier.plan.names
        if self.output is not None:
            write_text(self.output, _as_text(self.output.suffix, [*clouds], found, names))
        result(_ranking([Path(name).name for name in clouds], found, names))
        if len(clouds) < len(files):
            raise ValueError(f"{len(files) - len(clouds)} of {len(files)} files could not be read")


def _files(path: Path, suffixes) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"no such file or folder: {path}")
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in suffixes)
    if not found:
        raise ValueError(f"{path} has no clouds or meshes; known are {', '.join(suffixes)}")
    return found


def _fit(cloud, normals: bool, file: Path):
    if normals and cloud.normals is None:
        raise ValueError(f"{file} has no normals, and the run's network looks at them")
    return cloud


def _ranking(clouds: Sequence[str], found: np.ndarray, names: Sequence[str]) -> str:
    places = min(SHOWN, len(names))
    rows = []
    for name, row in zip(clouds, found, strict=True):
        best = np.argsort(-row)[:places]
        rows.append([name, *(cell for index in best for cell in (names[index], float(row[index])))])
    titles = [title for place in range(places) for title in ("class" if place == 0 else "then", "p")]
    return table(["cloud", *titles], rows)


def _as_text(suffix: str, clouds: Sequence[str], found: np.ndarray, names: Sequence[str]) -> str:
    if suffix.lower() == ".json":
        content = [
            {
                "file": name,
                "class": names[int(row.argmax())],
                "probabilities": dict(zip(names, row.tolist(), strict=True)),
            }
            for name, row in zip(clouds, found, strict=True)
        ]
        return json.dumps(content, indent=2) + "\n"
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["file", "class", *names])
    for name, row in zip(clouds, found, strict=True):
        writer.writerow([name, names[int(row.argmax())], *(f"{value:.6f}" for value in row)])
    return buffer.getvalue()
