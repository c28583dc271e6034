"""`fredholm segment check`."""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from ...pipelines.check import CaseFacts, Check, check_dataset
from ...pipelines.classes import few
from ...pipelines.dataset import open_dataset
from ...pipelines.files import write_text
from ..console import bar, result, table


@dataclass
class CheckData:
    """Look for what is wrong with a data set before training on it.

    Every case is read as training reads it. An error is what makes training fail or learn something wrong: files that
    cannot be read, unlike grids, unnamed values, unknown orientation, the same scan under two names, nothing labelled.
    A warning is worth a look. With an error the exit code is 1.

    Example: fredholm segment check DATA --json check.json
    """

    data: tyro.conf.Positional[Path]
    """Folder of the data set."""

    json: Path | None = None
    """File for what each case is like and what was found."""

    def run(self) -> None:
        """Check and tell."""
        dataset = open_dataset(self.data)
        with bar("reading cases", len(dataset.labelled)) as reading:
            check = check_dataset(dataset, reading.tick)
        if self.json is not None:
            content = {"names": dataset.names, **check.as_dict()}
            write_text(self.json, json.dumps(content, indent=2, allow_nan=False) + "\n")
        result(_table(check))
        for finding in sorted(check.findings, key=lambda finding: not finding.fatal):
            place = f"{finding.case}: " if finding.case else ""
            result(f"{'error' if finding.fatal else 'warning'}: {place}{finding.words}")
        if check.fatal:
            cases = sorted({finding.case or self.data.name for finding in check.fatal})
            raise ValueError(f"training would fail or be wrong: see the errors of {few(cases)}")


def _table(check: Check) -> str:
    rows = [[name, *_cells(facts)] for name, facts in check.facts.items()]
    return table(["case", "voxels", "spacing (mm)", "axes", "values", "classes", "labelled"], rows)


def _cells(facts: CaseFacts) -> list[str]:
    labelled = sum(count for index, count in facts.voxels.items() if index)
    return [
        " x ".join(str(n) for n in facts.shape),
        " x ".join(f"{mm:.3g}" for mm in facts.spacing_mm),
        facts.axes,
        " to ".join(f"{value:g}" for value in facts.values),
        str(len(facts.voxels.keys() - {0})),
        f"{100 * labelled / sum(facts.voxels.values()):.2g} %",
    ]
