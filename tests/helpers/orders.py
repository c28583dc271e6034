"""The 48 ways in which a file may store the same body."""

import itertools

import numpy as np
from fredholm.pipelines.volume import Volume
from nibabel.orientations import apply_orientation, inv_ornt_aff

ORDERS = [
    np.array(list(zip(order, signs, strict=True)), float)
    for order in itertools.permutations(range(3))
    for signs in itertools.product((1, -1), repeat=3)
]


def in_order(volume: Volume, order: np.ndarray) -> Volume:
    return Volume(apply_orientation(volume.array, order), volume.affine @ inv_ornt_aff(order, volume.shape))
