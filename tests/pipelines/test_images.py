"""One door for every format: the ending chooses, and the rules are the same behind it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.images import check_target, images_in, read_labels, read_volume, stem, write_labels
from fredholm.pipelines.volume import Volume, canonical, same_grid
from helpers.orders import ORDERS, in_order

ENDINGS = (".nii", ".nii.gz", ".nrrd", ".mha", ".mhd")


def scan(skew: float = 0.0) -> Volume:
    """A small grid, oblique, with uneven spacing and an origin that float32 cannot hold."""
    affine = np.array([[0.6, -1.6, skew, -40.1], [0.8, 1.2, 0, 7.3], [0, 0, 2.9, 1234.567], [0, 0, 0, 1]])
    return Volume(np.random.default_rng(0).integers(0, 118, (4, 5, 6)), affine)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("skew", [0.0, 1e-3, 0.2])
def test_labels_go_out_and_come_back_in_their_place(tmp_path: Path, ending: str, skew: float) -> None:  # A5
    path = tmp_path / f"labels{ending}"
    write_labels(path, scan(skew).array, like=scan(skew))
    found = read_labels(path)
    np.testing.assert_array_equal(found.array, scan().array)
    assert found.array.dtype == np.uint8
    np.testing.assert_allclose(found.affine, scan(skew).affine, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(read_volume(path).array, scan().array.astype(np.float32))


@pytest.mark.parametrize("first", ENDINGS)
@pytest.mark.parametrize("second", ENDINGS)
def test_labels_of_one_format_lie_on_a_scan_of_another_in_all_axis_orders(
    tmp_path: Path, first: str, second: str
) -> None:  # A9, A10
    for number, order in enumerate(ORDERS[5::11]):
        turned = in_order(scan(), order)
        write_labels(tmp_path / f"{number}_scan{first}", turned.array, like=turned)
        read = read_volume(tmp_path / f"{number}_scan{first}")
        write_labels(tmp_path / f"{number}_labels{second}", turned.array, like=read)
        back = canonical(read_labels(tmp_path / f"{number}_labels{second}"))
        same_grid(back, canonical(scan()), tolerance_voxels=1e-4)
        np.testing.assert_array_equal(back.array, canonical(scan()).array)


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_labels_give_the_same_bytes(tmp_path: Path, ending: str) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_labels(tmp_path / folder / f"x{ending}", scan().array, like=scan())
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_smallest_type_is_chosen_in_every_format(tmp_path: Path, ending: str) -> None:  # A2
    path = tmp_path / f"x{ending}"
    for most in (255, 256, 32768):
        write_labels(path, np.full((2, 2, 2), most), like=Volume(np.zeros((2, 2, 2)), np.eye(4)))
        assert (read_labels(path).array == most).all()
    for bad, words in ((2**31, "do not fit int32"), (1.0, "labels are integers")):
        with pytest.raises(ValueError, match=words):
            write_labels(path, np.full((2, 2, 2), bad), like=Volume(np.zeros((2, 2, 2)), np.eye(4)))


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_array_of_another_shape_is_refused(tmp_path: Path, ending: str) -> None:
    with pytest.raises(ValueError, match=r"\(6, 5, 4\) is not on the grid of shape \(4, 5, 6\)"):
        write_labels(tmp_path / f"x{ending}", scan().array.T, like=scan())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("reader", [read_volume, read_labels])
def test_damage_absence_and_emptiness_are_told_in_one_line(tmp_path: Path, ending: str, reader) -> None:
    path = tmp_path / f"x{ending}"
    with pytest.raises(FileNotFoundError, match="x"):
        reader(path)
    path.touch()
    with pytest.raises(ValueError, match="is empty"):
        reader(path)
    path.write_bytes(b"hello\nworld")
    with pytest.raises(ValueError, match=r"is not a .* file") as caught:
        reader(path)
    assert "\n" not in str(caught.value)


def test_an_ending_of_no_format_is_refused_with_those_that_are(tmp_path: Path) -> None:
    for refused in (
        lambda path: read_volume(path),
        lambda path: read_labels(path),
        lambda path: write_labels(path, scan().array, like=scan()),
        lambda path: check_target(path),
    ):
        with pytest.raises(ValueError, match=r"x\.png.* \.nii\.gz, \.nii, \.nrrd, \.mha, \.mhd"):
            refused(tmp_path / "x.png")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        check_target(tmp_path / "absent/x.nrrd")


def test_a_folder_lists_its_images_in_every_format_by_name(tmp_path: Path) -> None:
    for name in ("b.NRRD", "a.nii.gz", "c.mhd", "c.zraw", "d.txt", "._a.nii.gz", "e.mha", "f.nii"):
        (tmp_path / name).touch()
    (tmp_path / "g.nii").mkdir()
    assert [path.name for path in images_in(tmp_path)] == ["a.nii.gz", "b.NRRD", "c.mhd", "e.mha", "f.nii"]
    assert [stem(path) for path in images_in(tmp_path)] == ["a", "b", "c", "e", "f"]
    assert stem(Path("scan.v1.nii.gz")) == "scan.v1"


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_volume_that_was_moved_is_written_where_it_is_now(tmp_path: Path, ending: str) -> None:
    write_labels(tmp_path / f"a{ending}", scan().array, like=scan())
    read = read_volume(tmp_path / f"a{ending}")
    moved = replace(read, affine=np.diag((-1.0, 2.0, 3.0, 1.0)))
    write_labels(tmp_path / f"b{ending}", scan().array, like=moved)
    np.testing.assert_allclose(read_labels(tmp_path / f"b{ending}").affine, moved.affine, atol=1e-6)
