"""The gateway under load: how fast it takes a series beside DCMTK's storescp, many series at once, and its memory.

The same program, DCMTK's storescu, sends the same files to both, which write to the same disk, in turn; the gateway
flushes each to the disk before it says Success, storescp does not. While memory is watched the gateway is the command,
with a small network of random weights; before that a threshold stands in its place (tests/helpers/serving.py). Usage::

    python tests/benchmarks/scanner_load.py --repeats 5 --json scanner.json
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import yaml
from fredholm.pipelines.run import Run
from pydicom import dcmread

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers import serving
from helpers.gateway import ct, on_disk, uid
from helpers.pacs import free_port
from helpers.scanner import call, program, send, until, with_meta
from helpers.segment import PLAN
from helpers.serving import environment

RECEIVED, SIDE = 300, 512
MEMORY_SIDE = 32
SUCCESS = 0


class Server:
    """A process that takes objects: ours or theirs."""

    def __init__(self, folder: Path, port: int, command: list[str]) -> None:
        self.folder, self.port = folder, port
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())

    def stored(self) -> int:
        """How many objects are there."""
        if (self.folder / "spool").is_dir():
            return len(on_disk(self.folder / "spool"))
        return sum(1 for path in self.folder.iterdir() if path.name.startswith("CT."))

    def memory_mb(self) -> float:
        """What it holds now."""
        words = Path(f"/proc/{self.process.pid}/status").read_text().split()
        return int(words[words.index("VmRSS:") + 1]) / 1024


@contextmanager
def served(command: Callable[[Path, int], list[str]], folder: Path) -> Iterator[Server]:
    """A server in a fresh folder, as soon as it answers."""
    folder.mkdir()
    port = free_port()
    server = Server(folder, port, command(folder, port))
    echo = [program("echoscu"), "-aet", "CT1", "-aec", "FREDHOLM", "127.0.0.1", str(port)]
    until(lambda: subprocess.run(echo, capture_output=True).returncode == 0, "it answers", 300)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait(60)


def theirs(folder: Path, port: int) -> list[str]:
    """DCMTK's receiver."""
    return [program("storescp"), "-aet", "FREDHOLM", "-od", str(folder), str(port)]


def ours(quiet_s: float, archive: Server | None = None, run: Path | None = None) -> Callable[[Path, int], list[str]]:
    """The gateway, sending results to an archive; with a run the command itself, else a threshold labels."""

    def command(folder: Path, port: int) -> list[str]:
        store = {"name": "pacs", "ae_title": "FREDHOLM", "host": "127.0.0.1"}
        content = {
            "folder": str(folder / "spool"),
            "run": str(run or "RUN"),
            "listen": {"calling": ["CT1"], "port": port},
            "c_store": [{**store, "port": archive.port}] if archive else [],
            "quiet_s": quiet_s,
            "page_port": 0,
            "view": True,
            "device": "cpu",
        }
        (folder / "gateway.yaml").write_text(yaml.safe_dump(content))
        command = ["-m", "fredholm.apps.cli", "scanner", "serve", "--config"] if run else [serving.__file__]
        return [sys.executable, *command, str(folder / "gateway.yaml")]

    return command


def receive(files: Path, folder: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds for the whole series, each side, in turn."""
    seconds: dict[str, list[float]] = {"gateway": [], "storescp": []}
    for turn in range(repeats):
        for side, command in (("storescp", theirs), ("gateway", ours(600.0))):
            with served(command, folder / f"{side}{turn}") as server:
                called = [program("storescu"), "-aet", "CT1", "-aec", "FREDHOLM", "127.0.0.1", str(server.port)]
                begun = time.perf_counter()
                subprocess.run([*called, "+sd", str(files)], check=True)
                seconds[side].append(time.perf_counter() - begun)
                if server.stored() != RECEIVED:
                    sys.exit(f"{side} has {server.stored()} of {RECEIVED} objects")
            shutil.rmtree(server.folder)
            os.sync()  # what one side left to the system to write is not the other's burden
    return seconds


def send_interleaved(port: int, series: list[int], slices: int, side: int) -> None:
    """One association that brings some series, slice by slice of all of them."""
    association = call(port)
    for number in range(slices):
        if send(association, [ct(one, number, side) for one in series]) != [SUCCESS] * len(series):
            sys.exit("an object was not taken")
    association.release()


def labelled(archive: Server) -> list[str]:
    """The series of which the archive has a segmentation, one for each."""
    found = [path for path in archive.folder.iterdir() if path.name.startswith("SG")]
    return sorted(dcmread(path).ReferencedSeriesSequence[0].SeriesInstanceUID for path in found)


def many_at_once(folder: Path) -> float:
    """Seconds until ten series from four associations all ended with their one segmentation at the archive."""
    with served(theirs, folder / "archive") as archive, served(ours(0.5, archive), folder / "gateway") as gateway:
        begun = time.perf_counter()
        shares = [[series for series in range(1, 11) if series % 4 == share] for share in range(4)]
        threads = [threading.Thread(target=send_interleaved, args=(gateway.port, share, 20, 128)) for share in shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = sorted(uid(series) for series in range(1, 11))
        until(lambda: len(labelled(archive)) >= 10, "ten segmentations are there", 120)
        time.sleep(2.0)  # for one too many
        if labelled(archive) != expected:
            sys.exit(f"the archive has segmentations of {labelled(archive)}")
        return time.perf_counter() - begun - 2.0


def memory(folder: Path, series: int) -> list[float]:
    """Megabytes that the gateway holds after each series went all the way."""
    held, run = [], write_run(folder / "run")
    with served(theirs, folder / "archive") as archive, served(ours(0.1, archive, run), folder / "gateway") as gateway:
        for one in range(1, series + 1):
            send_interleaved(gateway.port, [one], 20, MEMORY_SIDE)
            until(lambda one=one: len(labelled(archive)) == one, "its segmentation is there", 600)
            held.append(gateway.memory_mb())
    return held


def write_run(folder: Path) -> Path:
    """A network that was never trained."""
    torch.manual_seed(1)
    run = Run.create(folder, PLAN)
    run.save_weights(PLAN.network.build(len(PLAN.names)).state_dict())
    return folder


def write_series(folder: Path) -> None:
    """A series as large as a scanner's, with noise in it."""
    noise = np.random.default_rng(0)
    folder.mkdir()
    for number in range(RECEIVED):
        image = ct(1, number, SIDE)
        image.PixelData = noise.integers(-1000, 1000, (SIDE, SIDE), np.int16).tobytes()
        with_meta(image).save_as(folder / f"{number}.dcm", enforce_file_format=True)


def main() -> None:
    """Print the figures as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="rounds of receiving, of which the median counts (5)")
    parser.add_argument("--series", type=int, default=50, help="series over which memory is watched (50)")
    parser.add_argument("--folder", type=Path, help="where to write, on the disk that is to be measured")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    # DCMTK as it comes waits 40 ms for each object, on either end: no measure of anybody. TCP_NODELAY=0 shows that.
    os.environ.setdefault("TCP_NODELAY", "1")
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        folder = Path(place)
        write_series(folder / "files")
        seconds = receive(folder / "files", folder, options.repeats)
        medians = {side: statistics.median(each) for side, each in seconds.items()}
        ratio = medians["gateway"] / medians["storescp"]
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores")
        print(f"{RECEIVED} instances of {SIDE}x{SIDE}: gateway {medians['gateway']:.2f} s,", end=" ")
        print(f"storescp {medians['storescp']:.2f} s, ratio {ratio:.2f}", flush=True)
        (folder / "many").mkdir()
        many_s = many_at_once(folder / "many")
        print(f"ten series from four associations: all right after {many_s:.1f} s", flush=True)
        (folder / "memory").mkdir()
        held = memory(folder / "memory", options.series)
        print(
            f"memory after series 1, 10, {len(held)}: ", ", ".join(f"{held[i]:.0f}" for i in (0, 9, -1)), "MB", end=", "
        )
        print(f"{np.polyfit(range(len(held) - 10), held[10:], 1)[0]:+.2f} MB a series since the tenth")
        if options.json:
            options.json.write_text(json.dumps({"seconds": seconds, "many_s": many_s, "memory_mb": held}, indent=1))


if __name__ == "__main__":
    main()
