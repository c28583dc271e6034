"""A gateway in a process of its own, to be killed: `python serving.py CONFIG`, or `process(config, log)`.

Everything is real but the network, in whose place stands a threshold; it waits as long as there is a file `slow` in the
gateway's folder.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache, partial
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from unittest.mock import patch

from fredholm.apps.scanner.config import Config
from fredholm.apps.scanner.faults import silence_libraries
from fredholm.apps.scanner.gateway import Gateway
from fredholm.pipelines.dicom import find_series, read_series
from fredholm.pipelines.dicom.derived import Algorithm
from fredholm.pipelines.dicom.frames import to_frames
from fredholm.pipelines.dicom.segmentation import write_segmentation
from fredholm.pipelines.dicom.source import source_headers

LIMIT_HU = 2.5


class Threshold:
    """Finds what is denser than a limit, and says so to a file `begun`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check(self, folder: Path) -> None:
        find_series(folder).only()

    def __call__(self, folder: Path, out: Path) -> Sequence[Path]:
        series = find_series(folder).only()
        labels = (read_series(series).array > LIMIT_HU).astype("uint8")
        with (self.folder / "begun").open("a") as begun:
            begun.write(series.uid + "\n")
        while (self.folder / "slow").exists():
            time.sleep(0.02)
        source = source_headers(series)
        write_segmentation(
            out / "seg.dcm", source, to_frames(labels, series, source), {1: "liver"}, Algorithm("threshold", "1")
        )
        return [out / "seg.dcm"]


def environment() -> dict[str, str]:
    """For a gateway's process: loopback is no matter for a proxy."""
    return {**os.environ, "NO_PROXY": "127.0.0.1,localhost", "OMP_NUM_THREADS": "1"}


def process(config: Path, log: Path) -> ForkServerProcess:
    """The process, not started yet; forked from one that has imported everything, which takes a second or two."""
    return _forking().Process(target=_logged, args=(config, log))


@cache
def _forking() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with patch.dict(os.environ, {**environment(), "PYTHONPATH": os.pathsep.join(sys.path)}):
        forkserver.ensure_running()
    return context


def _logged(config: Path, log: Path) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    main(config)


def main(path: Path) -> None:
    config = Config.read(path)
    silence_libraries()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command `fredholm` does
    label, told = Threshold(config.spool_folder), partial(print, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        Gateway(config, label.check, label, stop=threading.Event(), told=told).serve()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
