"""CT series in DICOM files, read strictly: the right volume, or a refusal that says why.

    findings = find_series(Path("scan"))
    series = findings.only()
    volume = read_series(series)

Label maps on the slices of a series go out as `segmentation` (DICOM SEG) and `structure_set` (RTSTRUCT); `segments` reads
segmentations. Needs the extra `scanner`.
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
