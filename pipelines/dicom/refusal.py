"""Why a series is not read: a name that programs can act on, and a sentence with the number that shows it."""

from enum import StrEnum


class Code(StrEnum):
    """The reasons, by name."""

    NOT_CT = "NOT_CT"  # another modality, a report, a screenshot
    LOCALIZER = "LOCALIZER"  # a projection to plan the scan by, not a plane of it
    NOT_HU = "NOT_HU"  # the values are another quantity, such as an atomic number
    BAD_RESCALE = "BAD_RESCALE"  # slope or intercept is there and is no number, or the slope is 0
    NO_GEOMETRY = "NO_GEOMETRY"  # position, orientation or pixel size is missing or no number
    TOO_FEW_SLICES = "TOO_FEW_SLICES"  # one slice, and nothing says how thick
    DUPLICATE_POSITION = "DUPLICATE_POSITION"  # two slices at one place
    DUPLICATE_UID = "DUPLICATE_UID"  # two different slices with one SOP instance UID
    MISSING_SLICES = "MISSING_SLICES"  # a gap that is a multiple of the usual one
    UNEVEN_SPACING = "UNEVEN_SPACING"  # gaps that differ otherwise
    SHIFTED_SLICES = "SHIFTED_SLICES"  # slices moved within their planes, not along one straight line
    DAMAGED_FILE = "DAMAGED_FILE"  # truncated or not decodable
    NO_DECODER = "NO_DECODER"  # compressed in a way that nothing installed here knows
    NO_SERIES = "NO_SERIES"  # nothing to read
    AMBIGUOUS = "AMBIGUOUS"  # several that could be meant


class SeriesError(ValueError):
    """A series that would be read wrongly, or not at all.

    Args:
        code: The reason by name.
        reason: What is wrong, with the number that shows it. It names no patient: files, UIDs and numbers only.
    """

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason
