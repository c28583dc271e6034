"""Our `fftconv` and nvsubquadratic's side by side: time and accuracy, in one run on one machine.

Nothing is timed before both sides agree with a float64 result, and so with each other. Each time is taken in a process
of its own, since what the C library does with freed memory makes up to two thirds of some times and depends on what
the process did before; with `--keep-memory` both sides keep it (`reuse_host_memory`). README.md here says how to make
an environment that holds both. Usage::

    python tests/benchmarks/fftconv_speed.py --threads 2 --repeats 7 --json fftconv.json
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from fredholm.kernels import fftconv, reuse_host_memory, spectrum
from torch import Tensor

SIZES = [(48, 48), (96, 24), (192, 12)]  # channels, side of the grid: the three finest stages of a UNETR at 96^3
TOLERANCE = {"forward": 1e-5, "gradients": 1e-4}  # of the largest value, for float32 against float64
HEADINGS = ("channels", "grid", "boundary", "what", "ours ms", "peer ms", "ratio", "ours error", "peer error")

Function = Callable[..., Tensor]


def load_peer() -> dict[str, Function]:
    """The peer's convolution for each boundary."""
    try:
        from nvsubquadratic.ops.circular_fftconv import circular_fftconv3d_fp32_bhl
        from nvsubquadratic.ops.fftconv import fftconv3d_fp32_bhl
    except ImportError as error:
        sys.exit(f"fftconv_speed: needs nvsubquadratic beside fredholm, see README.md in this folder ({error})")
    return {"zero": fftconv3d_fp32_bhl, "periodic": circular_fftconv3d_fp32_bhl}


def exact(boundary: str) -> Function:
    """The same convolution in float64, one plain FFT of the padded box, a few channels at a time."""

    def some_channels(x: Tensor, kernel: Tensor, shortcut: Tensor) -> Tensor:
        dims, grid, taps = (2, 3, 4), x.shape[2:], kernel.shape[2:]
        box = [n if boundary == "periodic" else n + t - 1 for n, t in zip(grid, taps, strict=True)]
        y = torch.fft.irfftn(torch.fft.rfftn(x, box) * torch.fft.rfftn(kernel, box), box)
        y = y.roll([-(t // 2) for t in taps], dims)[..., : grid[0], : grid[1], : grid[2]]
        return y + shortcut[:, None, None, None] * x

    def function(x: Tensor, kernel: Tensor, shortcut: Tensor) -> Tensor:
        parts = zip(x.double().split(8, 1), kernel.double().split(8, 1), shortcut.double().split(8), strict=True)
        return torch.cat([some_channels(*part) for part in parts], 1)

    return function


def results(function: Function, tensors: list[Tensor], dy: Tensor) -> dict[str, list[Tensor]]:
    """The output, and the gradients by x, kernel and shortcut."""
    leaves = [each.detach().requires_grad_() for each in tensors]
    y = function(*leaves)
    return {"forward": [y.detach()], "gradients": list(torch.autograd.grad(y, leaves, dy.to(y.dtype)))}


def errors(found: dict[str, list[Tensor]], truth: dict[str, list[Tensor]]) -> dict[str, float]:
    """The largest error of each part, relative to the largest true value."""
    return {
        part: max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found[part], truth[part], strict=True))
        for part in truth
    }


def check(sides: dict[str, Function], tensors: list[Tensor], dy: Tensor, boundary: str) -> dict[str, dict[str, float]]:
    """Each side's errors; stops where one is above the tolerance."""
    truth = results(exact(boundary), tensors, dy)
    found = {side: errors(results(function, tensors, dy), truth) for side, function in sides.items()}
    for side, parts in found.items():
        for part, error in parts.items():
            if not error < TOLERANCE[part]:
                sys.exit(f"fftconv_speed: {side}, {part}: error {error:.1e} is above {TOLERANCE[part]:.0e}; not timed")
    return found


def problem(channels: int, n: int, boundary: str) -> tuple[list[Tensor], Tensor]:
    """x, kernel and shortcut, and the gradient of the output."""
    torch.manual_seed(0)
    taps = 2 * n - 1 if boundary == "zero" else n - 1
    x, dy, shortcut = torch.randn(1, channels, n, n, n), torch.randn(1, channels, n, n, n), torch.randn(channels)
    return [x, torch.randn(1, channels, taps, taps, taps) / taps**1.5, shortcut], dy


def ours(boundary: str) -> Function:
    """Our convolution."""
    return lambda x, kernel, shortcut: fftconv(x, kernel, boundary=boundary, shortcut=shortcut)


def best_time(call: Callable[[], object], repeats: int) -> float:
    """The shortest time of a call in milliseconds, after one that does not count."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def work(side: str, channels: int, n: int, boundary: str, repeats: int) -> dict[str, float]:
    """One side's times, in this process."""
    tensors, dy = problem(channels, n, boundary)
    function = ours(boundary) if side == "ours" else load_peer()[boundary]
    times = {}
    with torch.no_grad():
        if side == "ours":
            x, kernel, shortcut = tensors
            kept = spectrum(kernel, x.shape[2:], boundary)
            times["kept spectrum"] = best_time(lambda: fftconv(x, kept, boundary=boundary, shortcut=shortcut), repeats)
        times["spectrum in call"] = best_time(lambda: function(*tensors), repeats)
    times["and backward"] = best_time(lambda: results(function, tensors, dy), repeats)
    return times


def in_own_process(side: str, *case: object) -> dict[str, float]:
    """`work` in a new process."""
    command = [sys.executable, "-W", "ignore", *sys.argv, "--worker", side, *map(str, case)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{side}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(channels: int, n: int, boundary: str, peer: Function) -> Iterator[dict[str, object]]:
    """One row for each way of use."""
    found = check({"ours": ours(boundary), "peer": peer}, *problem(channels, n, boundary), boundary)
    mine, theirs = (in_own_process(side, channels, n, boundary) for side in ("ours", "peer"))
    for what, our_ms in mine.items():
        part = "gradients" if what == "and backward" else "forward"
        peer_ms = theirs.get(what, theirs["spectrum in call"])
        side_errors = (found["ours"][part], found["peer"][part])
        values = (channels, f"{n}^3", boundary, what, our_ms, peer_ms, peer_ms / our_ms, *side_errors)
        yield dict(zip(HEADINGS, values, strict=True))


def machine() -> dict[str, object]:
    """What the numbers depend on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = models[0] if models else platform.processor() or platform.machine()
    command = "python tests/benchmarks/fftconv_speed.py " + " ".join(sys.argv[1:])
    return {"cpu": cpu, "threads": torch.get_num_threads(), "torch": torch.__version__, "command": command.strip()}


def line(row: dict[str, object]) -> str:
    """A row of the table."""
    *names, ours, peer, ratio, our_error, peer_error = row.values()
    left = "{:>8}  {:>5}  {:<8}  {:<16}".format(*names)
    return f"{left}  {ours:>8.2f}  {peer:>8.2f}  {ratio:>6.2f}  {our_error:>10.1e}  {peer_error:>10.1e}"


def main() -> None:
    """Print the table, row by row as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="threads of both sides (2)")
    parser.add_argument("--repeats", type=int, default=7, help="rounds, of which the best counts (7)")
    parser.add_argument("--json", type=Path, help="also write the rows and the machine to this file")
    parser.add_argument("--keep-memory", action="store_true", help="let both sides keep freed memory")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.keep_memory:
        reuse_host_memory()
    if options.worker:
        side, channels, n, boundary = options.worker
        print(json.dumps(work(side, int(channels), int(n), boundary, options.repeats)))
        return
    peers, about = load_peer(), machine()
    print(*(f"{name}: {value}" for name, value in about.items()), sep="\n")
    print("\n{:>8}  {:>5}  {:<8}  {:<16}  {:>8}  {:>8}  {:>6}  {:>10}  {:>10}".format(*HEADINGS))
    rows = []
    for boundary, peer in peers.items():
        for channels, n in SIZES:
            for row in compare(channels, n, boundary, peer):
                rows.append(row)
                print(line(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
