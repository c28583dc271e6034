"""Distances between the surfaces of two masks, in mm.

A surface is made of small patches, one in the middle of each cube of 2 x 2 x 2 neighbouring voxels that is neither
all inside nor all outside; beyond the array is outside, so that a mask at the border has its whole surface there too.
The area of a patch is that of the marching-cubes triangles in its cube, at the spacing of the voxels (the table is
MONAI's). Areas, not numbers of voxels, are the weight of everything here: thick slices would otherwise count their
flat tops many times more than their sides.

With d(P, R) the distance of each patch of P from the nearest patch of R::

    hausdorff_mm(q)     the larger of the two q-th percentiles of d(P, R) and d(R, P); 100 is the greatest distance
    surface_dice(t)     area of P with d(P, R) <= t plus area of R with d(R, P) <= t, over the area of both

Source: Nikolov et al. 2018, Deep learning to achieve clinically applicable segmentation of head and neck anatomy,
arXiv:1809.04430.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

ROUNDING_MM = 1e-4  # files keep spacings in float32: two voxels of 0.7 mm shall be within 1.4 mm
ROUNDING = 1e-6  # areas are float32 too: a share of just 95 % shall be that in any axis order


@dataclass(frozen=True, eq=False)
class Distances:
    """How far the surfaces of a prediction and of a reference are from one another.

    Args:
        to_reference_mm: Distance of each patch of the prediction from the reference.
        prediction_mm2: Area of each of these patches.
        to_prediction_mm: Distance of each patch of the reference from the prediction.
        reference_mm2: Area of each of these.
    """

    to_reference_mm: np.ndarray
    prediction_mm2: np.ndarray
    to_prediction_mm: np.ndarray
    reference_mm2: np.ndarray

    def hausdorff_mm(self, percentile: float = 100) -> float:
        """The distance that `percentile` % of each surface does not exceed.

        Raises:
            ValueError: The percentile is not from 0 to 100.
        """
        if not 0 <= percentile <= 100:
            raise ValueError(f"a percentile is a number from 0 to 100, not {percentile}")
        return max(
            _percentile(self.to_reference_mm, self.prediction_mm2, percentile),
            _percentile(self.to_prediction_mm, self.reference_mm2, percentile),
        )

    def surface_dice(self, tolerance_mm: float) -> float:
        """The share of both surfaces that is within the tolerance of the other one, from 0 to 1.

        Raises:
            ValueError: The tolerance is negative.
        """
        if not tolerance_mm >= 0:
            raise ValueError(f"a tolerance is 0 mm or more, not {tolerance_mm}")
        near = [distances <= tolerance_mm + ROUNDING_MM for distances in (self.to_reference_mm, self.to_prediction_mm)]
        areas = [self.prediction_mm2, self.reference_mm2]
        within = sum(float(area[close].sum()) for area, close in zip(areas, near, strict=True))
        return within / float(sum(area.sum() for area in areas))


def surface_distances(prediction: np.ndarray, reference: np.ndarray, axes_mm: np.ndarray) -> Distances:
    """Measure how far two surfaces are from one another.

    Args:
        prediction: Booleans `(i, j, k)`, some of them true.
        reference: The same shape.
        axes_mm: `(3, 3)`, the step from a voxel to the next along each axis as a column, mm: the upper left part of
            an affine. Distances are right for slanted axes too; areas take them to be at right angles.

    Raises:
        ValueError: The shapes differ, or a mask is empty: an empty mask has no surface.
    """
    if prediction.shape != reference.shape:
        raise ValueError(f"prediction has shape {prediction.shape}, reference {reference.shape}")
    if not prediction.any() or not reference.any():
        raise ValueError("an empty mask has no surface")
    box = _box(prediction | reference)
    spacing_mm = np.linalg.norm(axes_mm, axis=0).tolist()
    places, areas = zip(*(_patches(mask[box], spacing_mm) for mask in (prediction, reference)), strict=True)
    points = [place @ np.asarray(axes_mm).T for place in places]
    return Distances(_nearest(points[0], points[1]), areas[0], _nearest(points[1], points[0]), areas[1])


def _box(mask: np.ndarray) -> tuple[slice, ...]:
    """The smallest box that holds all that is true."""
    shadows = (mask.any(axis=tuple(other for other in range(3) if other != axis)) for axis in range(3))
    ends = (np.flatnonzero(shadow)[[0, -1]] for shadow in shadows)
    return tuple(slice(first, last + 1) for first, last in ends)


def _patches(mask: np.ndarray, spacing_mm: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Place of each patch `(n, 3)`, in voxels, and its area `(n,)`, mm2."""
    from monai.metrics.utils import create_table_neighbour_code_to_surface_area

    areas, bits = create_table_neighbour_code_to_surface_area(spacing_mm)
    padded = np.pad(mask, 1).view(np.uint8)
    codes = np.zeros([n + 1 for n in mask.shape], np.uint8)
    for corner, bit in zip(itertools.product((0, 1), repeat=3), bits.flatten().tolist(), strict=True):
        codes += padded[tuple(slice(c, c + n + 1) for c, n in zip(corner, mask.shape, strict=True))] * np.uint8(bit)
    places = np.argwhere((codes > 0) & (codes < 255))
    return places, areas.double().numpy()[codes[tuple(places.T)]]


def _nearest(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Distance of each point from the nearest of the others."""
    # Points of a grid: the tree that splits space evenly is faster to build, and no slower to ask.
    return KDTree(others, balanced_tree=False).query(points)[0]


def _percentile(distances: np.ndarray, areas: np.ndarray, percentile: float) -> float:
    """The smallest distance within which `percentile` % of the area lies."""
    if percentile == 100:
        return float(distances.max())
    order = np.argsort(distances)
    share = np.cumsum(areas[order])
    return float(distances[order[np.searchsorted(share, (percentile / 100 - ROUNDING) * share[-1])]])
