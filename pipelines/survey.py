"""What a plan is made from: a few facts of each case, so that no two scans need be in memory at once."""

from dataclasses import dataclass

import numpy as np

from .volume import Volume, canonical

SAMPLED = 50_000  # labelled voxels of a case that are looked at, about


@dataclass(frozen=True, eq=False)
class Look:
    """What a case is like; axes run towards the patient's right, front and head.

    Args:
        shape: Voxels along each axis.
        spacing_mm: Distance between them.
        voxel_ml: Volume of one.
        values: Every so many of the labelled voxels `(channels, voxels)`, in HU or what else the channels measure.
        voxels: Of each class, by its index.
        read_bytes: Of scan and label map as they are read.
        label_bytes: Of a voxel in the label map.
    """

    shape: tuple[int, int, int]
    spacing_mm: tuple[float, float, float]
    voxel_ml: float
    values: np.ndarray
    voxels: np.ndarray
    read_bytes: int
    label_bytes: int


def look(volume: Volume, labels: np.ndarray, classes: int) -> Look:
    """Look at a case.

    The sampled voxels are counted in the body's axes, so that the file's order does not matter.

    Args:
        volume: In any axis order.
        labels: Class index of each voxel.
        classes: How many there are; voxels with a higher index are not labelled.
    """
    own, index = canonical(volume), canonical(Volume(labels, volume.affine)).array
    labelled = (index > 0) & (index < classes)
    values = np.stack([channel[labelled] for channel in own.channels])
    return Look(
        shape=own.shape,
        spacing_mm=own.spacing_mm,
        voxel_ml=own.voxel_ml,
        values=values[:, :: max(1, values.shape[1] // SAMPLED)],
        voxels=np.bincount(labels.ravel(), minlength=classes)[:classes],
        read_bytes=sum(one.nbytes for one in (*volume.channels, labels)),
        label_bytes=labels.itemsize,
    )
