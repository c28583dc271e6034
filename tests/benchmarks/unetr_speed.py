"""MixerUNETR against MONAI's HyenaNDUNETR: time of a window, time and peak memory of a training step.

Each side runs in a process of its own, as its users would run it: MONAI's as shipped in float32; ours with the same
weights and layers, and as `segment train` builds it (zeros outside, kernels twice as long, the paper's gates), with
freed memory kept as our commands do (`reuse_host_memory`). Peak memory is the process's own (ru_maxrss), interpreter
and libraries included. A compiled network has paid for itself after (its first seconds) / (seconds saved a window).

Needs fredholm, monai and nvsubquadratic in one environment (see README.md beside this file).

    python tests/benchmarks/unetr_speed.py window [--ct FILE]
    python tests/benchmarks/unetr_speed.py step
    python tests/benchmarks/unetr_speed.py step --size 64 --feature-size 24
"""

import argparse
import contextlib
import copy
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

CLASSES = 29
SIDES = {
    "window": [
        *("monai float32", "ours float32", "ours bfloat16", "ours bfloat16, compiled"),
        "ours bfloat16, zero boundary",
    ],
    "step": [
        "monai float32",
        "ours float32",
        "ours bfloat16",
        "ours float32, zero boundary",
        "ours bfloat16, zero boundary",
    ],
}


def main() -> None:
    """Measure every side and print the table."""
    arguments = parse()
    if arguments.worker:
        print(json.dumps(work(arguments)))
        return
    print(f"# {arguments.what}, {arguments.size}^3, feature size {arguments.feature_size}, {CLASSES} classes, HHAA")
    print(f"# {cpu_name()}, {arguments.threads} threads, torch {torch.__version__}")
    print(f"# {' '.join(sys.argv)}")
    print(f"{'side':32}{'seconds':>9}{'ratio':>8}{'peak GB':>9}{'ratio':>8}   notes")
    rows = [in_own_process(side) for side in SIDES[arguments.what]]
    for side, row in zip(SIDES[arguments.what], rows, strict=True):
        faster, leaner = rows[0]["seconds"] / row["seconds"], row["peak"] / rows[0]["peak"]
        print(f"{side:32}{row['seconds']:9.2f}{faster:8.2f}{row['peak']:9.2f}{leaner:8.2f}   {row['notes']}")
    if arguments.json:
        arguments.json.write_text(json.dumps(dict(zip(SIDES[arguments.what], rows, strict=True)), indent=2) + "\n")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=SIDES)
    parser.add_argument("--size", type=int, default=96, help="side of the window in voxels")
    parser.add_argument("--feature-size", type=int, default=48)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ct", type=Path, help="a NIfTI scan whose middle is the window; noise without one")
    parser.add_argument(
        "--run", type=Path, help="a fredholm run whose trained network is taken for the share of labels"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def in_own_process(side: str) -> dict:
    """One side's row."""
    command = [sys.executable, "-W", "ignore", *sys.argv, "--worker", side]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{side}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def work(arguments: argparse.Namespace) -> dict:
    """Measure one side in this process."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    measure = window if arguments.what == "window" else step
    seconds, notes = measure(arguments, arguments.worker)
    return {"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, "notes": notes}


def network(arguments: argparse.Namespace, side: str) -> nn.Module:
    """The side's network; ours has MONAI's weights."""
    from monai.networks.nets import HyenaNDUNETR

    theirs = HyenaNDUNETR.get_variant("HHAA", in_channels=1, out_channels=CLASSES, feature_size=arguments.feature_size)
    if side.startswith("monai"):
        return theirs
    from fredholm.backbones import MixerUNETR, from_monai
    from fredholm.kernels import reuse_host_memory

    reuse_host_memory()
    if "zero" in side:
        return MixerUNETR(1, CLASSES, "HHAA", arguments.feature_size)
    return from_monai(theirs.state_dict())


def arithmetic(side: str) -> contextlib.AbstractContextManager:
    """Autocast for bfloat16."""
    return torch.autocast("cpu", torch.bfloat16, enabled="bfloat16" in side)


def window(arguments: argparse.Namespace, side: str) -> tuple[float, str]:
    """Seconds of one window's inference after the first, and what the labels are worth."""
    model, x = network(arguments, side).eval(), scan(arguments)
    exact = copy.deepcopy(model)
    if "bfloat16" in side:  # as `segment predict` does it
        from fredholm.backbones import round_weights

        round_weights(model, torch.bfloat16)
    if "compiled" in side:
        model = torch.compile(model)

    def run() -> Tensor:
        with torch.inference_mode(), arithmetic(side):
            return model(x)

    first, seconds = best(run, arguments.repeats)
    notes = f"first {first:.2f} s"
    if side == "ours bfloat16":
        with torch.inference_mode():
            share = float((run().argmax(1) != exact(x).argmax(1)).float().mean())
            notes += f", {100 * share:.3f} % labels unlike float32"
        if arguments.run:
            notes += f", {100 * trained_difference(arguments, x):.3f} % with the trained network"
    return seconds, notes


def trained_difference(arguments: argparse.Namespace, x: Tensor) -> float:
    """Share of a window's voxels that a trained network labels otherwise in bfloat16."""
    from fredholm.backbones import round_weights
    from fredholm.pipelines.run import Run

    model = Run.open(arguments.run).load_model()
    with torch.inference_mode():
        exact = model(x).argmax(1)
        round_weights(model, torch.bfloat16)
        with torch.autocast("cpu", torch.bfloat16):
            return float((model(x).argmax(1) != exact).float().mean())


def step(arguments: argparse.Namespace, side: str) -> tuple[float, str]:
    """Seconds of one training step after the first; each side with the loss its users have."""
    model = network(arguments, side).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    side_length = (arguments.size,) * 3
    x, y = torch.randn(1, 1, *side_length), torch.randint(0, CLASSES, (1, *side_length))
    loss = loss_of(side)

    def run() -> Tensor:
        with arithmetic(side):
            logits = model(x)
        value = loss(logits, y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value

    first, seconds = best(run, max(2, arguments.repeats - 2))
    return seconds, f"first {first:.2f} s"


def loss_of(side: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Dice and cross entropy."""
    if side.startswith("monai"):
        from monai.losses import DiceCELoss

        theirs = DiceCELoss(to_onehot_y=True, softmax=True)
        return lambda logits, y: theirs(logits, y[:, None])
    from fredholm.pipelines.losses import dice_cross_entropy

    return dice_cross_entropy


def best(run: Callable[[], Tensor], repeats: int) -> tuple[float, float]:
    """Seconds of the first call and of the fastest later one."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times[0], min(times[1:])


def scan(arguments: argparse.Namespace) -> Tensor:
    """The window: the middle of a scan, soft tissue from -1 to 1, or noise."""
    side = arguments.size
    if arguments.ct is None:
        return torch.randn(1, 1, side, side, side)
    from fredholm.pipelines.nifti import read_volume
    from fredholm.pipelines.volume import canonical

    hu = torch.from_numpy(canonical(read_volume(arguments.ct)).array.copy())
    middle = [slice(max(0, (n - side) // 2), max(0, (n - side) // 2) + side) for n in hu.shape]
    return ((hu[tuple(middle)].clamp(-1000, 1000)) / 1000)[None, None]


def cpu_name() -> str:
    """The processor's name."""
    return str(torch.cpu.get_capabilities().get("cpu_name") or platform.machine())


if __name__ == "__main__":
    main()
