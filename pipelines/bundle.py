"""A run packed as a MONAI bundle: one folder that tells others all they need, and that can be checked for damage.

configs/metadata.json    what the network is, takes and gives, what it learned from and how well it does
configs/inference.json   the whole inference in MONAI's parts, for `python -m monai.bundle run`
models/model.pt          the weights: tensors and nothing else
plan.yaml                the run's plan, as `segment predict` reads it
docs/README.md           how to use it, and where MONAI's labels are ours
docs/license.txt         of code, weights and data
docs/scores.json         of an evaluation, if one was given
SHA256SUMS               of every other file, as `sha256sum -c` reads it

A bundle takes a run's place wherever one is asked for (`open_run`). Names of cases stay out of it: they may be those of
patients.

Source: MONAI Bundle Specification, docs.monai.io, mb_specification.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .bundle_configs import inference, metadata, readme
from .files import replacing_folder, sha256
from .plan import Plan
from .run import Run
from .scores import METRICS
from .tensors import disk_errors, first_line

SUMS = "SHA256SUMS"
PUBLIC = ("casewise", "casewise_interval", "pooled", "mean_per_class", "interval_per_class")  # no case by its name


@dataclass(frozen=True, kw_only=True)
class Imprint:
    """What the files of a run do not say of it.

    Args:
        authors: Who trained it.
        license: Of the weights.
        data_license: Of what they learned from.
        scores: As `segment evaluate --json` writes them; names of cases are left out.
    """

    authors: str = "not stated"
    license: str = "not stated"
    data_license: str = "not stated"
    scores: Mapping[str, Any] = field(default_factory=dict)


class Bundle(Run[Plan]):
    """A bundle as a run; it has one set of weights."""

    @property
    def weights_file(self) -> Path:
        """Where the network's weights are."""
        return self.folder / "models" / "model.pt"

    def read_weights(self, file: Path) -> Mapping[str, Tensor]:
        """The tensors in a file of torch.save; never runs code that a file brings along."""
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # unpickling has no error of its own
            raise ValueError(f"{file} is damaged: {first_line(error)}") from None


def open_run(folder: Path) -> Run[Plan]:
    """Open a run, or a bundle whose files are as they were packed.

    Raises:
        FileNotFoundError: There is neither.
        ValueError: A file of the bundle is missing or another than was packed; or as `Plan.read`.
    """
    if not (folder / SUMS).is_file():
        return Run.open(folder)
    for line in (folder / SUMS).read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is damaged: {name} is missing, which {SUMS} lists")
        if sha256(folder / name) != digest:
            raise ValueError(f"{folder} is damaged: {name} is not the file that was packed, its sha256 is another")
    return Bundle(folder, Plan.read(folder / "plan.yaml"))


def pack(run: Run[Plan], weights: Path, folder: Path, imprint: Imprint) -> None:
    """Write a bundle, whole or not at all; one that is there is replaced.

    Args:
        run: What to pack.
        weights: One of its files.
        folder: Of the bundle.
        imprint: What the run's files do not say.

    Raises:
        FileNotFoundError: The weights, or the folder for the folder, are missing.
        FileExistsError: Something else than a bundle is there.
        ValueError: The weights do not fit the plan, or it is for several channels.
    """
    if len(run.plan.channels) > 1:
        raise ValueError(f"{run.folder}: only a network of one channel is packed, this has {run.plan.channels}")
    if folder.exists() and not (folder / SUMS).is_file():
        raise FileExistsError(f"{folder} is there and is no bundle: give another -o")
    run.load_model(weights)  # or the reason why not, before anything is written
    plan = _public(run.plan, imprint)
    scores = _summary(imprint.scores)
    facts = metadata(plan, run.read_log(), scores) | {"authors": imprint.authors, "copyright": imprint.authors}
    with replacing_folder(folder) as beside:
        for name in ("configs", "models", "docs"):
            (beside / name).mkdir()
        packed = Bundle(beside, plan)
        with disk_errors(packed.weights_file):
            torch.save(dict(run.read_weights(weights)), packed.weights_file)
        plan.write(beside / "plan.yaml")
        _write_json(beside / "configs" / "metadata.json", facts)
        _write_json(beside / "configs" / "inference.json", inference(plan))
        _write_text(beside / "docs" / "README.md", readme(plan))
        _write_text(beside / "docs" / "license.txt", _licenses(imprint))
        if scores:
            _write_json(beside / "docs" / "scores.json", scores)
        files = sorted(path for path in beside.rglob("*") if path.is_file())
        sums = [f"{sha256(path)}  {path.relative_to(beside).as_posix()}\n" for path in files]
        _write_text(beside / SUMS, "".join(sums))


def _public(plan: Plan, imprint: Imprint) -> Plan:
    """The plan without names of cases and folders, and with what whoever predicts should be told."""
    data = {part: len(plan.data[part]) for part in ("training", "validation") if part in plan.data}
    return replace(plan, data=data, notes=(*plan.notes, f"licence of the weights: {imprint.license}"))


def _summary(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Of every metric what is said of all cases together."""
    try:
        tables = {metric: {key: scores[metric][key] for key in PUBLIC} for metric in METRICS if metric in scores}
        return tables | ({"tolerance_mm": scores["tolerance_mm"]} if scores else {})
    except (KeyError, TypeError) as error:
        raise ValueError(f"scores: expected what segment evaluate --json writes, {error} is missing") from None


def _licenses(imprint: Imprint) -> str:
    return (
        "Code (fredholm): Apache-2.0, https://www.apache.org/licenses/LICENSE-2.0\n"
        f"Weights (models/model.pt): {imprint.license}\n"
        f"Data that they were trained on: {imprint.data_license}\n"
    )


def _write_json(path: Path, content: Any) -> None:
    _write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
