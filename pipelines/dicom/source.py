"""The files of a series as data sets, for objects that refer to them (see `frames` for their slices)."""

from collections.abc import Sequence

from pydicom.dataset import FileDataset
from pydicom.uid import generate_uid

from .file import read_header
from .series import Series


def source_headers(series: Series) -> list[FileDataset]:
    """What the files of a series say, without pixels, in the order of its slices.

    UIDs that are empty are filled: those of instances as on reading, those of study and series, which no file knows,
    with UIDs made from the instances', the same each time.

    Args:
        series: As found by `find_series`.

    Returns:
        One data set per slice, or per multi-frame file.

    Raises:
        OSError: A file is gone or cannot be read.
        DamagedFileError: A file has changed since it was found.
    """
    datasets = [read_header(path).dataset for path in series.paths]
    for number, one in enumerate(datasets):
        _fill([one], "SOPInstanceUID", [str(number), str(series.slices[number].position)])
    instances = sorted(str(one.SOPInstanceUID) for one in datasets)
    _fill(datasets, "SeriesInstanceUID", instances)
    _fill(datasets, "StudyInstanceUID", instances)
    return datasets


def _fill(datasets: Sequence[FileDataset], name: str, known: Sequence[str]) -> None:
    for one in datasets:
        if not one.get(name):
            setattr(one, name, generate_uid(entropy_srcs=[name, *known]))
