"""The log of a training as curves in TensorBoard; needs the extra `tensorboard`."""

from collections.abc import Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """A curve for each column of the log.

    Args:
        folder: Where TensorBoard's files are; made with the first line.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.writer = folder, None

    def __call__(self, row: Mapping[str, float]) -> None:
        """Take a line of the log, with its `step`; on disk at once."""
        step = int(row["step"])
        # what an earlier training drew from here on is drawn again, so it is hidden
        self.writer = self.writer or SummaryWriter(str(self.folder), purge_step=step)
        for name, value in row.items():
            if name != "step":
                self.writer.add_scalar(name, value, step)
        self.writer.flush()
