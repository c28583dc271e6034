"""ITNet's integral as it is computed here, beside its literal definition and beside neuraloperator's: time and memory.

    literal   the sum over pairs as the paper writes it, a matrix for each pair, against the reordered exact sum
    peer      neuralop.layers.integral_transform.IntegralTransform, whose kernel is a diagonal of positions and f(y),
              with every point a neighbour, against the same kernel here, and against `DiagonalKernel` with all seven
              groups of the paper's inputs, which is more work
    memory    the exact sum at more and more points

Each side is timed in a process of its own, once it has given the result of float64. Memory is what the call adds to
the process at its peak. Times and memory are of the forward pass alone, or of it and all gradients.

    python tests/benchmarks/integral_transform_speed.py literal
    python tests/benchmarks/integral_transform_speed.py peer --points 1024
    python tests/benchmarks/integral_transform_speed.py memory --width 32 --plot memory.png
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from fredholm.backbones import DiagonalKernel, MLPKernel
from fredholm.kernels import MLPKappa, Points, integral_transform
from fredholm.kernels.integral_transform.reference import integral_transform_reference, itnet_reference
from torch import Tensor, nn

SIDES = {"literal": ("literal", "exact"), "peer": ("neuraloperator", "same kernel", "DiagonalKernel")}
TOLERANCE = 1e-5  # of the largest value, for float32 against float64
SIZES = (1024, 2048, 4096, 8192, 16384)
AXES = 3


def main() -> None:
    """Measure and print a table."""
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    if arguments.worker:
        print(json.dumps(work(arguments)))
        return
    print(f"# {platform.machine()}, {arguments.threads} threads, torch {torch.__version__}; {' '.join(sys.argv)}")
    print(f"# {arguments.dim} channels, width {arguments.width}")
    if arguments.what == "memory":
        memory(arguments)
    else:
        beside(arguments)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=(*SIDES, "memory"))
    parser.add_argument("--points", type=int, default=512)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--steps", nargs="+", choices=("forward", "gradients"), default=["forward", "gradients"])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="points of `memory`")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="calls, of which the best counts")
    parser.add_argument("--plot", type=Path, help="PNG of memory by points")
    parser.add_argument("--worker", nargs=3, metavar=("SIDE", "STEP", "POINTS"), help=argparse.SUPPRESS)
    return parser.parse_args()


def beside(arguments: argparse.Namespace) -> None:
    """Rows of both sides; ratios are the first side's over the others'."""
    print(f"# {arguments.points} points")
    print(f"{'step':11}{'side':16}{'seconds':>9}{'ratio':>8}{'MB':>9}{'ratio':>8}{'error':>9}")
    for step in arguments.steps:
        rows = {side: in_own_process(side, step, arguments.points) for side in SIDES[arguments.what]}
        first = rows[SIDES[arguments.what][0]]
        for side, row in rows.items():
            faster, leaner = first["seconds"] / row["seconds"], first["mb"] / row["mb"]
            print(f"{step:11}{side:16}{row['seconds']:9.3f}{faster:8.1f}{row['mb']:9.1f}{leaner:8.1f}", end="")
            print(f"{row['error']:9.0e}", flush=True)


def memory(arguments: argparse.Namespace) -> None:
    """Memory of the exact sum by points, and its slope from one size to the next: 1 where it grows as they do."""
    print(f"{'points':>8}" + "".join(f"{step + ' MB':>14}{'MB / 1000':>11}" for step in arguments.steps))
    found: dict[str, list[float]] = {step: [] for step in arguments.steps}
    for points in arguments.sizes:
        print(f"{points:8}", end="")
        for step in arguments.steps:
            mb = in_own_process("exact", step, points)["mb"]
            found[step].append(mb)
            print(f"{mb:14.1f}{1000 * mb / points:11.2f}", end="", flush=True)
        print(flush=True)
    if arguments.plot:
        draw(arguments.plot, arguments.sizes, found)


def draw(path: Path, sizes: Sequence[int], found: dict[str, list[float]]) -> None:
    """Memory by points, both on logarithmic axes, beside lines that grow as points and as pairs do."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="points", ylabel="MB that the call adds", xscale="log", yscale="log")
    for step, mb in found.items():
        axes.plot(sizes, mb, "o-", label=step)
    start = min(mb[0] for mb in found.values())
    for power, words in ((1, "as points"), (2, "as pairs")):
        axes.plot(sizes, [start * (n / sizes[0]) ** power for n in sizes], ":", color="gray", label=words)
    axes.legend()
    figure.savefig(path, dpi=150)


def in_own_process(side: str, step: str, points: int) -> dict[str, float]:
    """`work` in a new process."""
    command = [sys.executable, "-W", "ignore", *sys.argv, "--worker", side, step, str(points)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{side}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def work(arguments: argparse.Namespace) -> dict[str, float]:
    """One side's time, memory and error, from this process."""
    side, step, points = arguments.worker[0], arguments.worker[1], int(arguments.worker[2])
    torch.manual_seed(0)
    tensors = [torch.rand(1, points, AXES), torch.randn(1, points, arguments.dim)]
    model = MODELS[side](arguments.dim, arguments.width)

    def call() -> Tensor:
        if step == "forward":
            with torch.no_grad():
                return model(*tensors)
        y = model(*(each.requires_grad_() for each in tensors))
        torch.autograd.grad(y.sum(), [*tensors, *model.parameters()])
        return y.detach()

    model(*(each[:, :8] for each in tensors)).sum().backward()  # what a process loads once is not the call's
    model.zero_grad()
    first = resident()
    seconds = best(call, arguments.repeats if points == arguments.points else 0)
    mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - first
    error = wrong(model, tensors, call()) if points <= 1024 else float("nan")
    return {"seconds": seconds, "mb": mb, "error": error}


def best(call: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest call, after one that counts only if it is alone."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times[1:] or times)


def resident() -> float:
    """MB that the process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def wrong(model: nn.Module, tensors: list[Tensor], y: Tensor) -> float:
    """Largest error of a few targets against the literal sum in float64; stops where it is too large."""
    few = slice(0, 8)
    exact = model.double().literal(*(each.detach().double() for each in tensors), few)  # pyright: ignore[reportCallIssue]
    error = float((y[:, few] - exact).abs().max() / exact.abs().max())
    if not error < TOLERANCE:
        sys.exit(f"error {error:.1e} is above {TOLERANCE:.0e}")
    return error


class Exact(nn.Module):
    """`MLPKernel` or its diagonal form, as a layer has it."""

    def __init__(self, dim: int, width: int, kernel: type[MLPKernel] = MLPKernel) -> None:
        super().__init__()
        self.kernel = kernel(dim, AXES, width=width)

    def forward(self, p: Tensor, u: Tensor) -> Tensor:
        """The integral."""
        return self.kernel(u, p, torch.full(u.shape[:2], 1 / u.shape[1], dtype=u.dtype))

    def literal(self, p: Tensor, u: Tensor, targets: slice) -> Tensor:
        """The definition, at some targets."""
        kernel, y = self.kernel, Points(p, u)
        x = Points(p[:, targets], u[:, targets])
        first = kernel.hidden.weight, kernel.hidden.bias
        kappa = itnet_reference(x, y, kernel.frequencies, first, (kernel.weight, kernel.bias))
        return integral_transform_reference(kappa, u, torch.full_like(u[..., 0], 1 / u.shape[1]))


class Literal(Exact):
    """The definition at all targets."""

    def forward(self, p: Tensor, u: Tensor) -> Tensor:
        """The integral."""
        return self.literal(p, u, slice(None))


class Peer(nn.Module):
    """neuraloperator's layer, every point a neighbour of every one; it takes one cloud's positions without a batch."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        from neuralop.layers.integral_transform import IntegralTransform

        layers = [2 * AXES + dim, width, dim]
        self.layer = IntegralTransform(
            channel_mlp_layers=layers, transform_type="nonlinear", reduction="mean", use_torch_scatter=False
        )

    def forward(self, p: Tensor, u: Tensor) -> Tensor:
        """The integral."""
        n = p.shape[1]
        neighbours = {
            "neighbors_index": torch.arange(n).repeat(n),
            "neighbors_row_splits": torch.arange(0, n * n + 1, n),
        }
        return self.layer(p[0], neighbours, f_y=u[0])[None]

    def literal(self, p: Tensor, u: Tensor, targets: slice) -> Tensor:
        """The sum over pairs, at some targets."""
        x = p[:, targets, None]
        pairs = (1, x.shape[1], p.shape[1], -1)
        z = torch.cat([p[:, None].expand(pairs), x.expand(pairs), u[:, None].expand(pairs)], -1)
        return (self.layer.channel_mlp(z) * u[:, None]).mean(2)


class SameKernel(Peer):
    """The peer's kernel as a kappa: its first layer by point, its second one after the sum."""

    def forward(self, p: Tensor, u: Tensor) -> Tensor:
        """The integral."""
        first, second = self.layer.channel_mlp.fcs
        of_y, of_x, of_u = first.weight.split([AXES, AXES, u.shape[2]], 1)
        left, right = p @ of_x.T + first.bias, p @ of_y.T + u @ of_u.T
        return integral_transform(MLPKappa(left, right, second.weight, second.bias), u)


MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "literal": Literal,
    "exact": Exact,
    "neuraloperator": Peer,
    "same kernel": SameKernel,
    "DiagonalKernel": lambda dim, width: Exact(dim, width, DiagonalKernel),
}


if __name__ == "__main__":
    main()
