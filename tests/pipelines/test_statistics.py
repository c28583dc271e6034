"""What is measured of a structure is what can be counted by hand, whatever the axis order; tables lose no case."""

import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.statistics import Measured, StatisticsTable, measure
from fredholm.pipelines.volume import Volume
from helpers.orders import ORDERS, in_order

AFFINE = np.array([[2.0, 0, 0, 5], [0, 0.5, 0, -3], [0, 0, 3, 7], [0, 0, 0, 1]])
NAMES = {0: "background", 1: "spleen", 2: "liver", 3: "pancreas"}


def case() -> tuple[Volume, np.ndarray]:
    labels = np.zeros((5, 6, 7), np.uint8)
    labels[1:3, 2:4, 3:5] = 1
    labels[4, 2, 2] = labels[3, 2, 2] = 2
    image = np.arange(labels.size, dtype=np.float32).reshape(labels.shape) - 100
    return Volume(image, AFFINE), labels


def test_a_structure_has_its_voxels_volume_and_their_mean() -> None:
    scan, labels = case()
    found = measure(scan, labels)
    assert set(found) == {1, 2}
    assert [one.volume_ml for one in found.values()] == pytest.approx([8 * 0.003, 2 * 0.003])
    assert [one.mean_hu for one in found.values()] == [scan.array[labels == label].mean() for label in (1, 2)]
    assert [one.touches_border for one in found.values()] == [False, True]


@pytest.mark.parametrize("voxel", [(0, 2, 2), (4, 2, 2), (2, 0, 2), (2, 5, 2), (2, 2, 0), (2, 2, 6)])
def test_each_of_the_six_faces_is_border_and_the_volume_is_true_there(voxel: tuple[int, int, int]) -> None:  # C13
    labels = np.zeros((5, 6, 7), np.uint8)
    labels[voxel] = 1
    labels[2, 2, 2] = 2
    found = measure(case()[0], labels)
    assert [found[label].touches_border for label in (1, 2)] == [True, False]
    assert found[1].volume_ml == pytest.approx(0.003)


@pytest.mark.parametrize("order", ORDERS[::7])
def test_axis_order_changes_nothing(order) -> None:
    scan, labels = case()
    turned, turned_labels = in_order(scan, order), in_order(replace(scan, array=labels), order).array
    for array in (np.asfortranarray(turned.array), np.ascontiguousarray(turned.array)):
        found = measure(replace(turned, array=array), turned_labels)
        assert {label: one.mean_hu for label, one in found.items()} == {1: -16.0, 2: 63.0}
        assert [one.touches_border for one in found.values()] == [False, True]


def test_means_are_exact_sums_where_float32_would_lose_digits() -> None:
    image = np.full((256, 256, 16), 1000.1, np.float32)
    found = measure(Volume(image, AFFINE), np.ones(image.shape, np.uint8))
    assert found[1].mean_hu == pytest.approx(float(image[0, 0, 0]), rel=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_is_that_of_a_slab(order) -> None:
    image = np.zeros((64, 96, 96), np.float32, order=order)
    scan, labels = Volume(image, AFFINE), np.ones(image.shape, np.uint8, order=order)
    tracemalloc.start()
    measure(scan, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 96 * 96  # a few numbers of eight bytes for each voxel of a slab; the scan has 64 slabs


def test_labels_of_another_shape_are_refused() -> None:
    scan, labels = case()
    with pytest.raises(ValueError, match=r"\(5, 6, 6\) do not fit a scan of shape \(5, 6, 7\)"):
        measure(scan, labels[..., 1:])


def test_a_table_has_a_row_for_each_named_structure_of_each_case(tmp_path: Path) -> None:
    table = StatisticsTable(tmp_path / "statistics", NAMES)
    table.add("a, b", {1: Measured(volume_ml=12.345678, mean_hu=51.25, touches_border=True)})
    assert (tmp_path / "statistics.csv").read_text() == (
        "case,structure,label,volume_ml,mean_hu,touches_border\n"
        '"a, b",spleen,1,12.3457,51.25,true\n'
        '"a, b",liver,2,0,,false\n'
        '"a, b",pancreas,3,0,,false\n'
    )
    content = json.loads((tmp_path / "statistics.json").read_text())
    assert content["a, b"]["spleen"] == {"label": 1, "volume_ml": 12.345678, "mean_hu": 51.25, "touches_border": True}
    assert content["a, b"]["liver"] == {"label": 2, "volume_ml": 0.0, "mean_hu": None, "touches_border": False}


def test_a_table_that_is_there_grows_and_a_case_measured_again_is_replaced(tmp_path: Path) -> None:
    for case, volume in (("a", 1.0), ("b", 2.0), ("a", 3.0)):
        StatisticsTable(tmp_path / "s", NAMES).add(case, {1: Measured(volume_ml=volume, mean_hu=0.0)})
    content = json.loads((tmp_path / "s.json").read_text())
    assert {case: row["spleen"]["volume_ml"] for case, row in content.items()} == {"a": 3.0, "b": 2.0}
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 1 + 2 * 3


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a": {"liver": {"ml": 3}}}', '{"1": "spleen"}', "no JSON"])
def test_a_file_that_is_no_table_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(ValueError, match=r"s\.json"):
        StatisticsTable(tmp_path / "s", NAMES)
    assert (tmp_path / "s.json").read_text() == text


def test_nothing_measured_is_nothing() -> None:
    assert math.isnan(Measured().mean_hu)
    assert measure(case()[0], np.zeros((5, 6, 7), np.uint8)) == {}
