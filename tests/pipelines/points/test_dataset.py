"""The layouts that people have are brought to one form; what is wrong in them is named."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from fredholm.pipelines.points.dataset import read_labelled, split_off
from helpers.points import NAMES, clouds, write_npz


def as_hdf5(root: Path) -> None:
    (root / "shape_names.txt").write_text("\n".join(NAMES))
    for side, count in (("train", 4), ("test", 2)):
        points, labels = clouds(count)
        with h5py.File(root / f"ply_data_{side}0.h5", "w") as file:
            file["data"], file["label"], file["normal"] = points, labels[:, None].astype(np.uint8), -points
        (root / f"{side}_files.txt").write_text(f"data/modelnet40_ply_hdf5_2048/ply_data_{side}0.h5\n")


def as_lists(root: Path) -> None:
    (root / "modelnet40_shape_names.txt").write_text("\n".join(NAMES))
    for side, count in (("train", 4), ("test", 2)):
        names = []
        for number, (points, label) in enumerate(zip(*clouds(count), strict=True)):
            names.append(f"{NAMES[label]}_{side}{number:04}")
            folder = root / NAMES[label]
            folder.mkdir(exist_ok=True)
            np.savetxt(folder / f"{names[-1]}.txt", np.concatenate([points, -points], 1), delimiter=",")
        (root / f"modelnet40_{side}.txt").write_text("\n".join(names) + "\n")


def as_folders(root: Path) -> None:
    for side, count in (("train", 4), ("test", 2)):
        for number, (points, label) in enumerate(zip(*clouds(count), strict=True)):
            folder = root / NAMES[label] / side
            folder.mkdir(parents=True, exist_ok=True)
            np.savetxt(folder / f"{NAMES[label]}_{number}.xyz", np.concatenate([points, -points], 1))


@pytest.mark.parametrize("write", [as_hdf5, as_lists, as_folders])
def test_each_layout_gives_the_clouds_of_the_side_that_is_asked_for(tmp_path, write) -> None:
    write(tmp_path)
    for side, count in (("train", 4), ("test", 2)):
        data = read_labelled(tmp_path, side)
        assert data.names == NAMES
        assert np.bincount(data.labels).tolist() == [count] * 3
        assert data.has_normals
        assert len({*data.ids}) == len(data)
        for cloud, label in zip(data.clouds, data.labels, strict=True):
            flat = np.ptp(cloud.positions[:, 2]) < 0.3
            thin = np.ptp(cloud.positions[:, 0]) < 0.5
            assert (flat, thin) == (label == 1, label == 2)


def test_an_npz_file_is_both_sides_since_it_has_none(tmp_path) -> None:
    path = write_npz(tmp_path / "x.npz", 3)
    assert len(read_labelled(path, "train")) == len(read_labelled(path, "test")) == 9


def test_real_clouds_are_read(data_folder: Path) -> None:
    data = read_labelled(data_folder / "points" / "modelnet10_test_small.npz", "test")
    assert np.bincount(data.labels).tolist() == [20] * 10
    assert data.ids[0] == "bathtub_0111"


def test_held_out_clouds_are_a_share_of_each_class_and_the_same_each_time(tmp_path) -> None:
    data = read_labelled(write_npz(tmp_path / "x.npz", 10), "train")
    rest, held = split_off(data, 0.2, seed=3)
    assert np.bincount(held.labels).tolist() == [2, 2, 2]
    assert sorted([*rest.ids, *held.ids]) == sorted(data.ids)
    assert split_off(data, 0.2, seed=3)[1].ids == held.ids
    assert split_off(data, 0.2, seed=4)[1].ids != held.ids
    assert len(split_off(data, 0.0, seed=3)[1]) == 0


def test_what_is_wrong_is_named(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="no data set at"):
        read_labelled(tmp_path / "nowhere", "train")
    with pytest.raises(ValueError, match="expected a folder for each class"):
        read_labelled(tmp_path, "train")
    np.savez(tmp_path / "bare.npz", points=np.zeros((2, 5, 3)))
    with pytest.raises(ValueError, match="lacks labels, class_names"):
        read_labelled(tmp_path / "bare.npz", "train")
    np.savez(tmp_path / "off.npz", points=np.zeros((2, 5, 3)), labels=[0, 7], class_names=NAMES)
    with pytest.raises(ValueError, match="labels run from 0 to 7, there are 3 class names"):
        read_labelled(tmp_path / "off.npz", "train")
    as_lists(tmp_path)
    (tmp_path / "modelnet40_train.txt").write_text("cone_0001\n")
    with pytest.raises(ValueError, match="cone_0001 is of no class"):
        read_labelled(tmp_path, "train")
    (tmp_path / "modelnet40_test.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"modelnet40_test\.txt is missing"):
        read_labelled(tmp_path, "test")
