"""Segmenters given the same scans, patches, augmentation, loss, schedule and processor time.

    HHAA, AAAA   our `MixerUNETR`
    MONAI HHAA   `monai.networks.nets.HyenaNDUNETR`; it needs nvsubquadratic (README.md beside this file)
    U-net        `monai.networks.nets.DynUNet` as nnU-Net plans it: two 3^3 convolutions with instance norm a level

Each case that is held out makes a fold of its own; the others train. Each network trains in a process of its own with
one thread; what is equal is the time that the processor works for each (`time.process_time`), data included. The
running mean of the weights is judged, once, by the Dice of the whole held-out scan at the plan's spacing. Peak memory
is the process's own (ru_maxrss), data and interpreter included.

    python tests/benchmarks/segment_peers.py DATA --minutes 10
    python tests/benchmarks/segment_peers.py DATA --minutes 10 --hold-out sts_019 --window 64 64 32 --spacing 4 4 4
"""

import argparse
import json
import math
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from equal_time import train
from fredholm.backbones import MixerUNETR
from fredholm.kernels import reuse_host_memory
from fredholm.pipelines.dataset import open_dataset
from fredholm.pipelines.plan import Network, Recipe
from fredholm.pipelines.planning import Wishes, plan_dataset, prepare_cases
from fredholm.pipelines.segmenting import Segmenting
from fredholm.pipelines.splits import Split
from torch import nn
from torch.utils.data import DataLoader

RATE = 1e-3  # highest learning rate, of all sides
WIDEST = 320  # channels of nnU-Net's coarsest levels


def main() -> None:
    """Train all sides of all folds and print the table."""
    arguments = parse()
    if arguments.worker:
        print(json.dumps(work(arguments)))
        return
    cases = arguments.hold_out or [case.name for case in open_dataset(arguments.data).labelled]
    print(f"# {arguments.minutes:g} processor minutes each, one thread; {' '.join(sys.argv)}")
    print(f"# feature size {arguments.feature_size}, window {tuple(arguments.window)}, batch {arguments.batch}")
    print(f"{'network':12}{'mean Dice':>10}{'weights':>13}{'steps':>7}{'peak GB':>9}  Dice by held-out case")
    with ThreadPoolExecutor(arguments.processes) as pool:
        rows = {(side, case): pool.submit(in_own_process, side, case) for side in arguments.sides for case in cases}
        for side in arguments.sides:
            found = [rows[side, case].result() for case in cases]
            dice, each = np.mean([row["dice"] for row in found]), "  ".join(f"{row['dice']:.3f}" for row in found)
            steps, peak = np.mean([row["steps"] for row in found]), max(row["peak"] for row in found)
            print(f"{side:12}{dice:10.3f}{found[0]['weights']:13,}{steps:7.0f}{peak:9.2f}  {each}", flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a data set, as `segment train` takes it")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--hold-out", nargs="+", metavar="CASE", help="cases held out, one a fold; all without")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--feature-size", type=int, default=24)
    parser.add_argument("--window", type=int, nargs=3, default=(64, 64, 64), help="voxels; MONAI takes no 32 32 32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--spacing", type=float, nargs=3, help="mm; the data's median without")
    parser.add_argument("--processes", type=int, default=2, help="trainings at once")
    parser.add_argument("--worker", nargs=2, metavar=("SIDE", "CASE"), help=argparse.SUPPRESS)
    return parser.parse_args()


def in_own_process(side: str, case: str) -> dict[str, float]:
    """One side's row of one fold."""
    command = [sys.executable, "-W", "ignore", *sys.argv, "--worker", side, case]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{side}, {case}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def work(arguments: argparse.Namespace) -> dict[str, float]:
    """One row, from this process."""
    torch.set_num_threads(1)
    reuse_host_memory()
    side, case = arguments.worker
    task = prepared(arguments, case)
    torch.manual_seed(0)
    model = SIDES[side](task.plan.window, len(task.plan.names), arguments.feature_size)
    batches = DataLoader(task.examples(1 << 24), arguments.batch)
    mean, steps, minutes = train(model, batches, task.loss, rate=RATE, minutes=arguments.minutes)
    with torch.inference_mode():
        dice = task.table({case: task.score(mean, 0)}).pooled
    weights = sum(weight.numel() for weight in model.parameters())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return {"dice": dice, "weights": weights, "steps": steps, "minutes": minutes, "peak": peak}


def prepared(arguments: argparse.Namespace, case: str) -> Segmenting:
    """The task that holds this case out, planned and prepared as the command does it."""
    dataset = open_dataset(arguments.data)
    wishes = Wishes(
        network=Network(feature_size=arguments.feature_size),
        recipe=Recipe(window=tuple(arguments.window), batch=arguments.batch),
        split=Split.holding_out([each.name for each in dataset.labelled], [case]),
        spacing_mm=None if arguments.spacing is None else tuple(arguments.spacing),
    )
    cases = prepare_cases(dataset, plan_dataset(dataset, wishes).plan)
    return Segmenting(cases.plan, cases.training, cases.validation)


def mixer(stages: str) -> Callable[[Sequence[int], int, int], nn.Module]:
    """Our network with these stages."""
    return lambda window, classes, features: MixerUNETR(1, classes, stages, features)


def monai_hyena(window: Sequence[int], classes: int, features: int) -> nn.Module:
    """MONAI's network of the same stages."""
    from monai.networks.nets import HyenaNDUNETR

    return HyenaNDUNETR.get_variant("HHAA", in_channels=1, out_channels=classes, feature_size=features)


def plain_unet(window: Sequence[int], classes: int, features: int) -> nn.Module:
    """NnU-Net's plain network: halved along an axis until 4 voxels are left, channels doubled up to 320."""
    from monai.networks.nets import DynUNet

    halvings = [int(math.log2(side / 4)) for side in window]
    strides = [[1, 1, 1], *([1 + (level < halving) for halving in halvings] for level in range(max(halvings)))]
    return DynUNet(
        spatial_dims=3,
        in_channels=1,
        out_channels=classes,
        kernel_size=[3] * len(strides),
        strides=strides,
        upsample_kernel_size=strides[1:],
        filters=[min(WIDEST, features * 2**level) for level in range(len(strides))],
    )


SIDES = {"HHAA": mixer("HHAA"), "AAAA": mixer("AAAA"), "MONAI HHAA": monai_hyena, "U-net": plain_unet}


if __name__ == "__main__":
    main()
