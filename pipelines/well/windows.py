"""Windows of simulations for training, read by The Well's own `WellDataset`.

Values come as they are on disk: whoever trains normalises them with the statistics of the run, so that every split is
treated alike. A file is opened for each window by the process that reads it and closed again: no handle is inherited
by a worker, none piles up.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from the_well.data import WellDataset
from torch import Tensor
from torch.utils.data import Dataset

from .check import expect_alike
from .folder import Split, WellFolder

WALL, OPEN, PERIODIC = 0, 1, 2  # The Well's codes of boundaries


class Window(NamedTuple):
    """Frames that follow one another, float32.

    Args:
        history: `(steps, *grid, channels)`, the frames that are known.
        target: `(steps, *grid, channels)`, those that follow.
        constants: `(*grid, constant channels)`, fields that do not change.
        scalars: `(scalars,)`, parameters, those that change with time as in the last known frame.
        time_step: `()`, time from the last known frame to the next.
    """

    history: Tensor
    target: Tensor
    constants: Tensor
    scalars: Tensor
    time_step: Tensor

    @property
    def still(self) -> "Window":
        """The same without its frames: what stays as it is while they change."""
        return self._replace(history=self.history[:0], target=self.target[:0])


@dataclass(frozen=True)
class Contents:
    """What a data set holds, the same for all its files.

    Args:
        name: Its name.
        grid: Samples along each axis.
        boundary: The Well's code for both ends of each axis.
        channels: Names of the changing channels, a vector's component each.
        constant_channels: Names of those that do not change.
        fields: Names of the changing fields, in the channels' order.
        constant_fields: Names of those that do not change.
        scalars: Names of the parameters.
    """

    name: str
    grid: tuple[int, ...]
    boundary: tuple[tuple[int, int], ...]
    channels: tuple[str, ...]
    constant_channels: tuple[str, ...]
    fields: tuple[str, ...]
    constant_fields: tuple[str, ...]
    scalars: tuple[str, ...]


class Windows(Dataset):
    """Every window of a split, trajectory by trajectory and in the order of time.

    Args:
        folder: The data set.
        split: train, valid or test.
        history: Frames that are known.
        steps: Frames that follow.

    Raises:
        FileNotFoundError: The split has no file.
        ValueError: A file is damaged or differs from the first, or a trajectory is shorter than a window.
    """

    def __init__(self, folder: WellFolder, split: Split, history: int = 1, steps: int = 1) -> None:
        expect_alike(folder.files(split))
        try:
            self.source = WellDataset(
                path=str(folder.root),
                well_split_name=split,
                n_steps_input=history,
                n_steps_output=steps,
                max_rollout_steps=steps,  # it would cut longer windows to 100 without a word
            )
        except AssertionError as error:
            raise ValueError(f"{folder.root}/data/{split}: {error}") from None
        self.split = split

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, number: int) -> Window:
        item = self.source[number]
        history, none = item["input_fields"].float(), torch.zeros(0)
        last = item["input_scalars"][-1] if "input_scalars" in item else none
        return Window(
            history,
            item["output_fields"].float(),
            item.get("constant_fields", history.new_zeros(*history.shape[1:-1], 0)).float(),
            torch.cat([last.float(), item.get("constant_scalars", none).float()]),
            (item["output_time_grid"][0] - item["input_time_grid"][-1]).float(),
        )

    @property
    def files(self) -> dict[Path, list[range]]:
        """The windows of each trajectory of each file; all of it, however long it is."""
        found, start = {}, 0
        source = self.source
        per_file = zip(source.n_trajectories_per_file, source.n_windows_per_trajectory, strict=True)
        for file, (trajectories, windows) in zip(source.files_paths, per_file, strict=True):
            stop = start + trajectories * windows
            found[Path(file)] = [range(first, first + windows) for first in range(start, stop, windows)]
            start = stop
        return found

    @property
    def trajectories(self) -> list[range]:
        """The same of all files together."""
        return [numbers for trajectories in self.files.values() for numbers in trajectories]

    @property
    def contents(self) -> Contents:
        """What the split holds."""
        source, metadata = self.source, self.source.metadata
        codes = source[0]["boundary_conditions"].int().tolist()
        return Contents(
            name=metadata.dataset_name,
            grid=tuple(metadata.spatial_resolution),
            boundary=tuple((low, high) for low, high in codes),
            channels=_flat(metadata.field_names),
            constant_channels=_flat(metadata.constant_field_names),
            fields=tuple(source.core_field_names),
            constant_fields=tuple(source.core_constant_field_names),
            scalars=(*metadata.scalar_names, *metadata.constant_scalar_names),
        )


def _flat(names: dict[int, list[str]]) -> tuple[str, ...]:
    return tuple(name for order in sorted(names) for name in names[order])
