"""Trainings that are given the same time of the processor, for networks that are compared."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from fredholm.pipelines.schedule import learning_rate
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

PARTS = 1000  # of the time, by which the learning rate goes; it rises over the first fiftieth
MEAN = 0.99  # decay of the running mean of the weights


def train(
    model: nn.Module, batches: Iterable[Any], loss: Callable[[nn.Module, Any], Tensor], *, rate: float, minutes: float
) -> tuple[nn.Module, int, float]:
    """Train until the processor has worked for so long, data included; the learning rate follows the share used up.

    Args:
        model: Trained in place.
        batches: More than there is time for.
        loss: Of the model and a batch.
        rate: The highest learning rate.
        minutes: Of `time.process_time`.

    Returns:
        The running mean of the weights, how many steps there were, and the minutes that they took.
    """
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=1e-2, fused=True)
    mean = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(MEAN), use_buffers=True)
    start, steps, share = time.process_time(), 0, 0.0
    for batch in batches:
        now = learning_rate(int(PARTS * share), peak=rate, warm_up=PARTS // 50, steps=PARTS)
        optimizer.param_groups[0]["lr"] = now
        loss(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        mean.update_parameters(model)
        steps, share = steps + 1, (time.process_time() - start) / (60 * minutes)
        if share >= 1:
            break
    return mean.module.eval(), steps, minutes * share
