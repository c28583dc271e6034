"""A look holds what a plan needs to know of a case, whatever the order of its axes."""

from dataclasses import replace

import numpy as np
from fredholm.pipelines.survey import SAMPLED, look
from fredholm.pipelines.volume import Volume
from helpers.orders import ORDERS, in_order
from nibabel.orientations import apply_orientation

SHAPE = (5, 6, 4)


def scan(shape=SHAPE) -> Volume:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return Volume(values, np.diag((0.5, 1.0, 2.0, 1.0)), others=(-values,))


def labels(shape=SHAPE) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, shape).astype(np.uint8)


def test_it_counts_the_voxels_of_each_class_and_takes_the_values_of_the_labelled_ones() -> None:
    found = look(scan(), labels(), classes=3)
    assert found.voxels.tolist() == [int((labels() == index).sum()) for index in range(3)]
    labelled = scan().array[(labels() > 0) & (labels() < 3)]
    assert np.array_equal(found.values, np.stack([labelled, -labelled]))
    assert (found.shape, found.spacing_mm, found.voxel_ml) == (SHAPE, (0.5, 1.0, 2.0), 0.001)
    assert (found.read_bytes, found.label_bytes) == (5 * 6 * 4 * (4 + 4 + 1), 1)


def test_it_is_the_same_in_all_48_axis_orders() -> None:
    alone = replace(scan(), others=())
    expected = look(alone, labels(), classes=3)
    for order in ORDERS:
        found = look(in_order(alone, order), apply_orientation(labels(), order), classes=3)
        for name, value in vars(expected).items():
            assert np.array_equal(getattr(found, name), value), name


def test_of_many_labelled_voxels_it_keeps_some() -> None:
    shape = (60, 60, 60)
    found = look(scan(shape), np.ones(shape, np.uint8), classes=2)
    assert SAMPLED <= found.values.shape[1] < 2 * SAMPLED
    assert abs(np.median(found.values[0]) - np.median(scan(shape).array)) < 10
