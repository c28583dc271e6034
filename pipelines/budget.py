"""A plan that fits into so much memory.

Choices are weighed by what the network's step would take, counted without taking it; what was chosen is then tried in
a process of its own, for gaps between the pieces of memory and what libraries use inside are seen only there.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from .devices import arithmetic
from .memory import counted_peak, gigabytes
from .plan import Plan
from .planning import FLOAT, SIDE, Planned
from .segmenting import Segmenting

SMALLER = "Batch, window and feature size, in this order, are smaller than wished, so that training fits into {}."
USUAL_SIDE, USUAL_FEATURES = 64, 24  # above these a plan gives way first


@dataclass(frozen=True)
class Trial:
    """What a few real steps of a plan took.

    Args:
        seconds: Of a step.
        grown_bytes: By how much the process grew beyond its imports; what it took of the GPU if it ran there.
    """

    seconds: float
    grown_bytes: int


def fit(planned: Planned, memory: int | None, device: torch.device, libraries: int) -> tuple[Planned, Trial, int]:
    """Make a plan smaller until it fits, and try it.

    Args:
        planned: The plan as wished.
        memory: Bytes that training may take, of the GPU's if it runs there; None for as many as it takes.
        device: Where it will run.
        libraries: Bytes of a process that has imported what training needs.

    Returns:
        The plan that fits with its reasons, what its trial took, and the bytes that training will take at most.

    Raises:
        ValueError: None fits, or the trial failed.
    """
    trial, peak, plan, on_host = None, 0, planned.plan, device.type == "cpu"

    def measured(plan: Plan) -> int:
        nonlocal trial, peak
        trial = tried(plan, device)
        peak = peak_of(replace(planned, plan=plan), trial, libraries) if on_host else trial.grown_bytes
        return peak

    if memory is not None:
        plan = fitted(plan, memory - on_host * (libraries + planned.prepared_bytes), counted_step)
    plan = fitted(plan, memory or sys.maxsize, measured)
    assert trial is not None
    smaller = {} if plan == planned.plan else {"recipe": SMALLER.format(gigabytes(memory or 0))}
    return replace(planned, plan=plan, reasons={**planned.reasons, **smaller}), trial, peak


def fitted(plan: Plan, most: int, peak: Callable[[Plan], int]) -> Plan:
    """The first of a plan and its smaller ones that takes no more than `most` bytes.

    Raises:
        ValueError: Even the smallest takes more.
    """
    while (needed := peak(plan)) > most:
        less = _smaller(plan)
        if less is None:
            raise ValueError(
                f"even a window of 32 x 32 x 32 with feature size {plan.network.feature_size} takes "
                f"{gigabytes(needed)}, and {gigabytes(most)} are left for it: give more --memory, or fewer cases"
            )
        plan = less
    return plan


def counted_step(plan: Plan) -> int:
    """Bytes that weights, their gradients, the optimiser, the running mean and one step's tensors take at once."""
    assert plan.recipe is not None
    recipe, task, device = plan.recipe, Segmenting(plan, ()), torch.device("cpu")
    model = task.build()

    def step(model: nn.Module) -> None:
        def forward(x: Tensor) -> Tensor:
            with arithmetic(device, recipe.precision):
                return model(x)

        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        mean = [weight.detach().clone() for weight in model.parameters()] if recipe.ema else []
        image = torch.zeros(recipe.batch, plan.network.channels, *recipe.window)
        labels = torch.zeros(recipe.batch, *recipe.window, dtype=torch.uint8)
        for _ in range(2):  # the first makes the optimiser's state
            task.loss(forward, (image, labels)).backward()  # pyright: ignore[reportArgumentType]
            optimizer.step()
            optimizer.zero_grad()
        del mean

    return _weight_bytes(model) + counted_peak(model, step)


def tried(plan: Plan, device: torch.device) -> Trial:
    """Take a few steps of a plan, on noise, in a process of its own.

    Raises:
        ValueError: They failed; the message has the reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.yaml"
        plan.write(file)
        command = [sys.executable, "-m", "fredholm.pipelines.trial", str(file), str(device)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"signal {-done.returncode}"])[-1]
        raise ValueError(f"three steps of the plan were tried and failed: {reason}")
    return Trial(**json.loads(done.stdout.splitlines()[-1]))


def peak_of(planned: Planned, trial: Trial, libraries: int) -> int:
    """Bytes of host memory that training will take at most: while cases are prepared, in steps, or in validation."""
    plan, model = planned.plan, planned.plan.network.build(len(planned.plan.names))
    assert plan.recipe is not None
    static = (5 if plan.recipe.ema else 4) * _weight_bytes(model)  # with the optimiser's two and what validation keeps
    sums = (len(plan.names) + 1) * plan.window[0] * FLOAT
    slices = (math.prod(map(max, grid[1:], plan.window[1:])) for grid in planned.held_out_grids)
    validating = static + sums * max(slices, default=0)
    return libraries + planned.prepared_bytes + max(2 * planned.read_bytes, trial.grown_bytes, validating)


def _smaller(plan: Plan) -> Plan | None:
    """The next smaller plan: fewer patches, a smaller window, fewer channels; None if there is none."""
    assert plan.recipe is not None
    window, features = plan.recipe.window, plan.network.feature_size
    if plan.recipe.batch > 1:
        return replace(plan, recipe=replace(plan.recipe, batch=plan.recipe.batch // 2))
    if max(window) > USUAL_SIDE or (max(window) > SIDE and features <= USUAL_FEATURES):
        largest = window.index(max(window))
        i, j, k = (n - SIDE if axis == largest else n for axis, n in enumerate(window))
        return replace(plan, recipe=replace(plan.recipe, window=(i, j, k)), window=(i, j, k))
    if features > 12:
        return replace(plan, network=replace(plan.network, feature_size=features - 12))
    return None


def _weight_bytes(model: nn.Module) -> int:
    return sum(weight.nbytes for weight in model.parameters())
