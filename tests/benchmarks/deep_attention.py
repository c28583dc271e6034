"""Does universal interpolation keep a deep narrow transformer alive? One residual after another, on small digits.

Thirty-two blocks of attention on 2 x 2 patches learn scikit-learn's digits of 8 x 8 pixels with each kind of residual
and the same batches: the plain sum; interpolation towards sixteen shared anchors, from the sum and, as the paper has
it, in its place; and the sum with LayerScale. For each: share of 360 unseen digits that are right, and the mean
entropy of attention in bits, of at most 4, by quarter of depth, before training and after. Mean and standard deviation
over seeds.

Sources: the project's account of universal interpolation; LayerScale: Touvron et al. 2021, arXiv:2103.17239.

    pip install scikit-learn
    python tests/benchmarks/deep_attention.py --threads 2 --json deep_attention.json
"""

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from fredholm.backbones import (
    Anchors,
    AxialRotary,
    GlobalAttention,
    MixerStack,
    ResidualBlock,
    UniversalInterpolation,
    linear_depth,
    without_branch,
)
from fredholm.pipelines.schedule import learning_rate
from sklearn.datasets import load_digits
from torch import Tensor, nn

DIM, HEADS, PATCH, CLASSES = 32, 4, 2, 10
BATCH, PEAK, WARM_UP, UNSEEN = 64, 1e-3, 30, 360
Residual = Callable[[Tensor, Tensor], Tensor]


class LayerScale(nn.Module):
    """A branch times a learned number for each channel, small at the start."""

    def __init__(self, start: float = 1e-4) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((DIM,), start))

    def forward(self, branch: Tensor) -> Tensor:
        """The branch, scaled."""
        return self.scale * branch


def plain(depth: int) -> list[nn.Module]:
    """Blocks with sums."""
    return [block(torch.add) for _ in range(depth)]


def interpolated(depth: int, base: Residual) -> list[nn.Module]:
    """Blocks that move features towards shared anchors."""
    anchors, layers = Anchors(DIM), range(1, depth + 1)
    return [block(UniversalInterpolation(anchors, linear_depth(layer, depth), base=base)) for layer in layers]


def scaled(depth: int) -> list[nn.Module]:
    """Blocks with sums of branches that LayerScale makes small."""
    blocks = plain(depth)
    for one in blocks:
        one.mixer = nn.Sequential(one.mixer, LayerScale())
        one.mlp = nn.Sequential(one.mlp, LayerScale())
    return blocks


def block(residual: Residual) -> ResidualBlock:
    """One block of attention with positions."""
    mixer = GlobalAttention(DIM, HEADS, positions=AxialRotary(DIM // HEADS, 2))
    return ResidualBlock(DIM, mixer, mlp_ratio=2.0, residual=residual)


KINDS: dict[str, Callable[[int], list[nn.Module]]] = {
    "plain sum": plain,
    "interpolation of the sum": partial(interpolated, base=torch.add),
    "interpolation, the paper's": partial(interpolated, base=without_branch),
    "sum with LayerScale": scaled,
}


def digits(seed: int) -> tuple[Tensor, Tensor]:
    """Patches `(digits, 4, 4, pixels)` and classes, in an order of chance."""
    x, y = load_digits(return_X_y=True)
    images = torch.from_numpy(x).float().view(-1, 4, PATCH, 4, PATCH) / 8 - 1
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    return images.permute(0, 1, 3, 2, 4).flatten(3)[order], torch.from_numpy(y)[order]


def entropies(model: MixerStack, x: Tensor) -> list[float]:
    """Mean entropy in bits of each layer's attention."""
    found: list[float] = []

    def look(attention: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        (tokens,) = inputs
        q, k, _ = attention.project(tokens.flatten(1, -2)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q, k = (attention.positions(one, tokens.shape[1:-1]) for one in (q, k))
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        found.append(float(-torch.xlogy(weights, weights).sum(-1).mean() / math.log(2)))

    layers = [part for part in model.modules() if isinstance(part, GlobalAttention)]
    hooks = [layer.register_forward_pre_hook(look) for layer in layers]
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return found


def quarters(values: list[float]) -> list[float]:
    """The mean of each quarter."""
    return [float(part.mean()) for part in torch.tensor(values).chunk(4)]


def learn(kind: str, depth: int, steps: int, seed: int) -> dict[str, object]:
    """Train one network and look at it."""
    torch.manual_seed(seed)
    model = MixerStack(PATCH**2, CLASSES, DIM, KINDS[kind](depth))
    x, y = digits(seed)
    unseen, before = (x[:UNSEEN], y[:UNSEEN]), quarters(entropies(model, x[:UNSEEN]))
    x, y = x[UNSEEN:], y[UNSEEN:]
    chance = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    start, losses = time.process_time(), []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = learning_rate(step, peak=PEAK, warm_up=WARM_UP, steps=steps)
        some = torch.randint(len(x), (BATCH,), generator=chance)
        loss = F.cross_entropy(model(x[some]).mean((1, 2)), y[some])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    with torch.no_grad():
        right = model(unseen[0]).mean((1, 2)).argmax(-1) == unseen[1]
    return {
        "kind": kind,
        "seed": seed,
        "accuracy": float(right.float().mean()),
        "loss": sum(losses[-20:]) / 20,
        "entropy before": before,
        "entropy": quarters(entropies(model, unseen[0])),
        "cpu seconds": time.process_time() - start,
    }


def spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    numbers = torch.tensor(values)
    return f"{float(numbers.mean()):.3f} +- {float(numbers.std(correction=len(values) > 1)):.3f}"


def main() -> None:
    """Train every kind with every seed and print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"# {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}; {' '.join(sys.argv)}")
    print(f"{'residual':28}{'accuracy':>18}{'loss':>18}  entropy by quarter of depth, before -> after", flush=True)
    rows = []
    for kind in options.kinds:
        mine = [learn(kind, options.depth, options.steps, seed) for seed in range(options.seeds)]
        rows += mine
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n")
        means = [torch.tensor([row[name] for row in mine]).mean(0) for name in ("entropy before", "entropy")]
        bits = " -> ".join(" ".join(f"{value:.2f}" for value in one) for one in means)
        numbers = "".join(f"{spread([row[name] for row in mine]):>18}" for name in ("accuracy", "loss"))
        print(f"{kind:28}{numbers}  {bits}", flush=True)


if __name__ == "__main__":
    main()
