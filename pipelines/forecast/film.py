"""A rollout beside the truth, as far as pictures need it: a plane of some steps, and their spectra."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..well.windows import Windows
from .scores import spectrum
from .stepping import slide
from .surrogate import Surrogate

SHOWN = 33  # steps at most


@dataclass(frozen=True)
class Film:
    """Frames of one trajectory, evenly spread over its steps, first and last among them.

    Args:
        steps: Which steps, 0 the first predicted one.
        truth: `(frames, *plane, channels)`; a plane of a box is the one in the middle of its last axis.
        prediction: The same.
        spectra: Energy by waves along the box of truth and prediction, `(2, frames, waves, channels)`.
    """

    steps: list[int]
    truth: np.ndarray
    prediction: np.ndarray
    spectra: np.ndarray


def film(surrogate: Surrogate, windows: Windows, numbers: range) -> Film:
    """Run a surrogate along one trajectory.

    Args:
        surrogate: Which.
        windows: Of the data.
        numbers: Those of the trajectory, as far as is wanted.
    """
    steps = sorted({round(place) for place in np.linspace(0, len(numbers) - 1, SHOWN)})
    first = windows[numbers[0]]
    history, around = first.history[None], surrogate.surroundings([first.still])
    planes: list[list[Tensor]] = [[], []]
    spectra: list[list[Tensor]] = [[], []]
    for step in range(len(numbers)):
        following = surrogate(history, around)
        if step in steps:
            for kind, frame in enumerate((windows[numbers[step]].target[:1], following)):
                planes[kind].append(_plane(frame[0]))
                spectra[kind].append(spectrum(frame)[0])
        history = slide(history, following)
    truth, prediction = (torch.stack(frames).numpy() for frames in planes)
    return Film(steps, truth, prediction, torch.stack([torch.stack(frames) for frames in spectra]).numpy())


def _plane(frame: Tensor) -> Tensor:
    return frame[:, :, frame.shape[2] // 2] if frame.ndim == 4 else frame
