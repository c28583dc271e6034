"""CT series in DICOM files, read strictly: the right volume, or a refusal that says why.

    findings = find_series(Path("scan"))
    series = findings.only()
    volume = read_series(series)

Label maps go out on the slices of their series: `source` and `frames` bring them there, `segmentation` writes DICOM
SEG, which `segments` reads, and `structure_set` does RTSTRUCT. Needs the extra `scanner`.
"""

from .pixels import read_series
from .refusal import Code, SeriesError
from .series import Candidate, Findings, PassedOver, Series, find_series
from .slices import Instance, Slice

__all__ = [
    "Candidate",
    "Code",
    "Findings",
    "Instance",
    "PassedOver",
    "Series",
    "SeriesError",
    "Slice",
    "find_series",
    "read_series",
]
