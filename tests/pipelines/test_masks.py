"""Masks become one label map: the smallest keeps every voxel it has, and nothing depends on the order of files."""

from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.images import write_labels
from fredholm.pipelines.masks import merge_masks
from fredholm.pipelines.volume import Volume, reordered
from helpers.orders import ORDERS, in_order

LIKE = Volume(np.zeros((4, 5, 6), np.float32), np.diag((-1.0, -1.0, 2.0, 1.0)))


def block(*size: int, value: int = 1) -> np.ndarray:
    array = np.zeros(LIKE.shape, np.uint8)
    array[tuple(slice(n) for n in size)] = value
    return array


def put(folder: Path, *masks: np.ndarray, like: Volume = LIKE) -> dict[int, Path]:
    files = {index: folder / f"{index}.nii.gz" for index in range(1, len(masks) + 1)}
    for file, mask in zip(files.values(), masks, strict=True):
        write_labels(file, mask, like=like)
    return files


def test_masks_that_do_not_touch_are_all_kept(tmp_path: Path) -> None:
    masks = [block(1, 5, 6), np.flip(block(2, 2, 2))]
    merged = merge_masks(put(tmp_path, *masks), LIKE)
    np.testing.assert_array_equal(merged, masks[0] + 2 * masks[1])
    assert merged.dtype == np.uint8


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_part_and_a_lesion_stay_whole_within_their_organ_in_any_order(tmp_path: Path, order) -> None:
    organ, part, lesion = block(4, 5, 6), block(3, 4, 5), block(2, 2, 2)
    masks = [organ, part, lesion]
    merged = merge_masks(put(tmp_path, *(masks[number] for number in order)), LIKE)
    index = {number: place for place, number in enumerate(order, 1)}
    expected = np.where(lesion, index[2], np.where(part, index[1], index[0]))
    np.testing.assert_array_equal(merged, expected)


def test_of_two_equal_masks_the_later_stays(tmp_path: Path) -> None:
    assert np.unique(merge_masks(put(tmp_path, block(2, 2, 2), block(2, 2, 2)), LIKE)).tolist() == [0, 2]


def test_an_empty_mask_and_any_value_but_0_will_do(tmp_path: Path) -> None:
    merged = merge_masks(put(tmp_path, block(0), block(2, 2, 2, value=255)), LIKE)
    np.testing.assert_array_equal(merged, 2 * block(2, 2, 2))


def test_more_than_255_classes_are_kept_in_two_bytes(tmp_path: Path) -> None:
    merged = merge_masks({300: put(tmp_path, block(1, 1, 1))[1]}, LIKE)
    assert (merged.dtype, merged.max()) == (np.int16, 300)


@pytest.mark.parametrize("order", ORDERS[::7])
def test_masks_may_have_their_axes_in_another_order(tmp_path: Path, order) -> None:
    mask = block(2, 3, 4)
    turned = in_order(Volume(mask, LIKE.affine), order)
    np.testing.assert_array_equal(merge_masks(put(tmp_path, turned.array, like=turned), LIKE), mask)
    np.testing.assert_array_equal(reordered(turned, like=LIKE).array, mask)


def test_a_mask_on_another_grid_is_refused_by_its_file(tmp_path: Path) -> None:
    files = put(tmp_path, block(1, 1, 1), like=Volume(LIKE.array, np.diag((-1.0, -1.0, 2.5, 1.0))))
    with pytest.raises(ValueError, match=r"not on one grid: .*1\.nii\.gz"):
        merge_masks(files, LIKE)


def test_a_label_map_is_no_mask(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"1\.nii\.gz is no mask of one class: it holds the values \[1, 2\] beside 0"):
        merge_masks(put(tmp_path, block(4, 4, 4) + block(2, 2, 2)), LIKE)
