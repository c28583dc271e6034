"""A surrogate and its data as the commands open them."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...pipelines.devices import Precision, pick_device
from ...pipelines.run import Run
from ...pipelines.well.folder import SPLITS, SUFFIXES, Split, WellFolder
from ..extras import extra

if TYPE_CHECKING:
    from ...pipelines.forecast.surrogate import Surrogate
    from ...pipelines.well.windows import Windows

Weights = Literal["best", "last"]


def load_surrogate(folder: Path, weights: Weights | None, device: str, precision: Precision) -> "Surrogate":
    """The surrogate of a run.

    Args:
        folder: The run's.
        weights: Which; None takes the best if there are such.
        device: auto, cpu or cuda.
        precision: Of the arithmetic.

    Raises:
        FileNotFoundError: There is no such run, or it has no such weights.
        ValueError: It is damaged, or there is no such device.
    """
    with extra("pde"):
        from ...pipelines.forecast.plan import SurrogatePlan
        from ...pipelines.forecast.surrogate import Surrogate

    run = Run.open(folder, SurrogatePlan.read)
    best = run.best_file.is_file() if weights is None else weights == "best"
    return Surrogate(run, run.best_file if best else run.weights_file, pick_device(device), precision)


def open_data(data: Path, split: Split, surrogate: "Surrogate") -> tuple["Windows", dict[Path, list[range]]]:
    """Data that a surrogate can run on: the windows of a part, and those of each trajectory of the files asked for.

    Args:
        data: Folder of a data set, or one of its files.
        split: Which part, if it is a folder.
        surrogate: What runs on them.

    Raises:
        FileNotFoundError: There is no such folder, or the part has no file.
        ValueError: It is a file outside a data set, or the data do not fit the surrogate.
    """
    with extra("pde"):
        from ...pipelines.forecast.planning import check_fits
        from ...pipelines.well.windows import Windows

    folder, split, chosen = _place(data) if data.is_file() else (WellFolder.open(data), split, None)
    windows = Windows(folder, split, surrogate.run.plan.history)
    check_fits(surrogate.run.plan.simulation, windows, str(data))
    return windows, {file: found for file, found in windows.files.items() if chosen in (None, file.name)}


def _place(file: Path) -> tuple[WellFolder, Split, str]:
    for split in SPLITS:
        if split == file.parent.name and file.suffix in SUFFIXES:
            return WellFolder.open(file.absolute().parents[2]), split, file.name
    raise ValueError(f"{file}: expected an HDF5 file in data/{', data/'.join(SPLITS)} of a data set")


def expect_counts(**counts: int | None) -> None:
    """Refuse options that are to be 1 or more, or not given, and are not."""
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ValueError(f"--{name} is 1 or more, not {value}")
