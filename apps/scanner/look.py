"""`fredholm scanner look`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from ..console import grid, result
from ..extras import extra

if TYPE_CHECKING:
    from ...pipelines.dicom import Candidate, Findings

COLUMNS = ("series", "grid", "taken")
LEVEL = 0.05  # degrees; what is less is not shown


@dataclass
class Look:
    """Show the series among DICOM files: what each is, which would be labelled, and why the others not.

    Headers only are read, and what a person typed into them (names, dates, descriptions) is not shown. The exit code
    is 0 if a series would be labelled, else 1.

    Example: fredholm scanner look FOLDER
    """

    folder: tyro.conf.Positional[Path]
    """Folder with DICOM files, in it or below it."""

    json: bool = False
    """As JSON."""

    def run(self) -> None:
        """Look and tell."""
        with extra("scanner"):
            from ...pipelines.dicom import find_series
        findings = find_series(self.folder)
        if self.json:
            result(json.dumps(as_dict(findings, self.folder), indent=2, allow_nan=False))
        else:
            grid(COLUMNS, [_cells(one) for one in findings.candidates])
            for one in findings.passed_over:
                result(f"no DICOM object: {one.path.relative_to(self.folder)}: {one.reason}")
        if not any(one.series for one in findings.candidates):
            raise ValueError(f"no series in {self.folder} would be labelled")


def as_dict(findings: "Findings", folder: Path) -> dict[str, object]:
    """What was found, for programs; paths are relative to the folder."""
    others = [
        {"file": str(one.path.relative_to(folder)), "reason": one.reason, "damaged": one.damaged}
        for one in findings.passed_over
    ]
    return {"series": [_facts(one) for one in findings.candidates], "other_files": others}


def _facts(one: "Candidate") -> dict[str, object]:
    facts: dict[str, object] = {
        "name": one.name,
        "uid": one.uid,
        "number": one.instances[0].series_number,
        "what": one.what,
        "modality": one.instances[0].modality,
        "files": len(one.instances),
        "slices": one.slices,
        "taken": one.series is not None,
    }
    if one.refusal is not None:
        facts |= {"code": one.refusal.code.value, "reason": one.refusal.reason}
    if one.series is not None:
        facts |= {
            "shape": one.series.shape,
            "spacing_mm": [round(mm, 6) for mm in one.series.spacing_mm],
            "tilt_degrees": round(one.series.tilt_degrees, 3),
            "affine": one.series.affine.tolist(),
            "repairs": one.series.repairs,
        }
    return facts


def _cells(one: "Candidate") -> list[str]:
    number, files = one.instances[0].series_number, len(one.instances)
    cells = [f"{one.name or '(no UID)'}\n{one.what}, number {number or '(none)'}, {files} files"]
    if one.series is None:
        return [*cells, f"{one.slices} slices", f"no: {one.refusal}"]
    shape, spacing = " x ".join(map(str, one.series.shape)), " x ".join(f"{mm:.4g}" for mm in one.series.spacing_mm)
    tilt = f"\ntilted by {one.series.tilt_degrees:.1f} degrees" if one.series.tilt_degrees >= LEVEL else ""
    return [*cells, f"{shape}\n{spacing} mm{tilt}", "\n".join(["yes", *one.series.repairs])]
