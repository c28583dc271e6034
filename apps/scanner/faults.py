"""What a log may hear of an error: never words that come out of a data set."""

import logging
import os
import traceback
import warnings
from pathlib import Path

from ...pipelines.dicom import SeriesError


class PeerError(ValueError):
    """Another side did not do what it was asked for; the words are fit for a log."""


class StoppedError(Exception):
    """Work was given up because the gateway stops."""


def words(error: BaseException) -> str:
    """One line: all that a refusal says, the system's words for its errors, of any other only its kind and place."""
    if isinstance(error, SeriesError):
        return " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno is not None:
        return f"{type(error).__name__}: {os.strerror(error.errno)}"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


def silence_libraries() -> None:
    """Whatever other packages remark may hold what stands in a data set, or whence it came."""
    warnings.simplefilter("ignore")
    for name in ("pynetdicom", "pydicom", "highdicom", "dicomweb_client", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
