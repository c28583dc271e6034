"""PointITNet, PointNet and DGCNN given the same clouds, points, augmentation, loss, schedule and processor time.

Each network trains in a process of its own with one thread, all at the same time, so that they share the machine's
ups and downs; what is equal is the time that the processor works for each (`time.process_time`), data included. The
learning rate follows the share of it that is used up; each has the one that its authors give, ours its default. The
running mean of the weights is what is judged, after the last step, once: on the held-out tenth of the training clouds
that `fredholm points train` would hold out, and on the test clouds, without votes. Clouds per second of that time are
the network's alone, 32 at once.

    python tests/benchmarks/points_classifiers.py modelnet10_train.npz modelnet10_test_small.npz --minutes 20
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from equal_time import train
from fredholm.backbones import PointITNet
from fredholm.kernels import reuse_host_memory
from fredholm.pipelines.points.classify import BATCH, as_tensors, probabilities, thin
from fredholm.pipelines.points.dataset import LabelledClouds, read_labelled, split_off
from fredholm.pipelines.points.plan import PointPlan, PointRecipe
from fredholm.pipelines.points.scores import Confusion
from fredholm.pipelines.points.task import Classifying
from point_networks import DGCNN, PointNet
from torch import Tensor, nn
from torch.utils.data import DataLoader


@dataclass(frozen=True)
class Side:
    """A network and what its authors train it with."""

    build: Callable[[int], nn.Module]
    learning_rate: float
    penalty: Callable[[nn.Module], Tensor | float] = lambda model: 0.0


SIDES = {
    "PointITNet": Side(PointITNet, 2e-3),
    "PointNet": Side(PointNet, 1e-3, lambda model: 1e-3 * model.penalty),
    "DGCNN": Side(DGCNN, 1e-3),
}


def main() -> None:
    """Train all sides at once and print the table."""
    arguments = parse()
    if arguments.worker:
        print(json.dumps(work(arguments)))
        return
    print(
        f"# {arguments.points} points, {arguments.minutes:g} processor minutes each, one thread; {' '.join(sys.argv)}"
    )
    started = {side: subprocess.Popen([sys.executable, *sys.argv, "--worker", side], stdout=-1) for side in SIDES}
    print(f"{'network':12}{'test':>8}{'mean of classes':>17}{'held out':>10}{'weights':>11}{'steps':>7}", end="")
    print(f"{'minutes':>9}{'clouds/s':>10}")
    for side, process in started.items():
        row = json.loads(process.communicate()[0])
        print(
            f"{side:12}{row['test']:8.3f}{row['mean_class']:17.3f}{row['held_out']:10.3f}{row['weights']:11,}", end=""
        )
        print(f"{row['steps']:7}{row['minutes']:9.1f}{row['clouds_per_s']:10.1f}", flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--points", type=int, default=256)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def work(arguments: argparse.Namespace) -> dict[str, float]:
    """One side's row, from this process."""
    torch.set_num_threads(1)
    reuse_host_memory()
    torch.manual_seed(0)
    clouds, side = read_labelled(arguments.train, "train"), SIDES[arguments.worker]
    plan = PointPlan(names=clouds.names, points=arguments.points, recipe=PointRecipe(batch=BATCH))
    task = Classifying(plan, *split_off(clouds, 0.1, plan.recipe.seed))
    model = side.build(len(plan.names))
    batches = DataLoader(task.examples(1 << 24), plan.recipe.batch)
    model, steps, minutes = train(
        model,
        batches,
        lambda model, batch: task.loss(model, batch) + side.penalty(model),
        rate=side.learning_rate,
        minutes=arguments.minutes,
    )
    test, held_out = (score(plan, model, each) for each in (read_labelled(arguments.test, "test"), task.validation))
    weights = sum(weight.numel() for weight in model.parameters())
    row = {"test": test.overall, "mean_class": test.mean_class, "held_out": held_out.overall, "weights": weights}
    return row | {"steps": steps, "minutes": minutes, "clouds_per_s": speed(plan, model, task.validation)}


def score(plan: PointPlan, model: nn.Module, clouds: LabelledClouds) -> Confusion:
    """Right and wrong, one choice of points each."""
    return Confusion.of(clouds.labels, probabilities(plan, model, clouds.clouds).argmax(1), clouds.names)


def speed(plan: PointPlan, model: nn.Module, clouds: LabelledClouds) -> float:
    """Clouds per second of the network alone, the best of some batches."""
    seen = [thin(cloud, plan.points) for cloud in clouds.clouds[:BATCH]]
    batch = [torch.stack(each) for each in zip(*(as_tensors(plan, one) for one in seen), strict=True)]
    times = []
    with torch.inference_mode():
        for _ in range(5):
            start = time.process_time()
            model(*batch)
            times.append(time.process_time() - start)
    return len(seen) / min(times)


if __name__ == "__main__":
    main()
