"""Files of clouds and meshes: what is in them comes out, what is wrong is one line that names the file."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines.points.files import read_cloud

PCD = "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS 2\n"

# A box of 2 by 1 by 1, its sides with areas of 2 and 1, in quads.
BOX = """OFF
8 6 0
0 0 0
2 0 0
2 1 0
0 1 0
0 0 1
2 0 1
2 1 1
0 1 1
4 0 1 2 3
4 4 5 6 7
4 0 1 5 4
4 2 3 7 6
4 1 2 6 5
4 0 3 7 4
"""


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_mesh_is_sampled_by_area(tmp_path) -> None:
    cloud = read_cloud(written(tmp_path / "box.off", BOX), samples=20_000)
    x, y, z = cloud.positions.T
    ends = np.isclose(x, 0) | np.isclose(x, 2)  # two of the ten units of area
    assert abs(ends.mean() - 0.2) < 0.02
    on_side = np.isclose(np.stack([x, x - 2, y, y - 1, z, z - 1]), 0).any(0)
    assert on_side.all()
    assert cloud.normals is not None
    assert np.allclose(np.linalg.norm(cloud.normals, axis=1), 1)
    assert np.allclose(abs(cloud.normals[ends & (y > 0.01) & (y < 0.99) & (z > 0.01) & (z < 0.99)]), [1, 0, 0])


def test_the_same_file_gives_the_same_points_and_another_seed_others(tmp_path) -> None:
    path = written(tmp_path / "box.off", BOX)
    assert np.array_equal(read_cloud(path).positions, read_cloud(path).positions)
    assert not np.array_equal(read_cloud(path).positions, read_cloud(path, seed=1).positions)


@pytest.mark.parametrize(
    "changed",
    [BOX.replace("OFF\n", "OFF"), BOX.replace("\n", "\r\n"), BOX.replace("OFF\n", "OFF\n# a box\n\n#\n")],
    ids=["glued header", "CRLF", "comments"],
)
def test_the_ways_that_off_files_are_written_are_all_the_same_mesh(tmp_path, changed) -> None:
    expected = read_cloud(written(tmp_path / "box.off", BOX)).positions
    assert np.array_equal(read_cloud(written(tmp_path / "x.off", changed)).positions, expected)


@pytest.mark.parametrize("blank", [" ", ",", ", ", "\t"])
@pytest.mark.parametrize("columns", [3, 6, 7])
def test_lines_of_numbers_are_points_and_normals(tmp_path, blank, columns) -> None:
    table = np.arange(5 * columns).reshape(5, columns) / 4
    lines = "\n".join(blank.join(map(str, row)) for row in table)
    cloud = read_cloud(written(tmp_path / "x.txt", "# x y z\n" + lines))
    assert np.array_equal(cloud.positions, table[:, :3])
    assert (cloud.normals is None) == (columns == 3)
    assert cloud.normals is None or np.array_equal(cloud.normals, table[:, 3:6])


@pytest.mark.parametrize("kind", ["ascii", "binary"])
def test_pcd_files_may_have_their_fields_in_any_order(tmp_path, kind) -> None:
    header = (
        "# .PCD v0.7\nVERSION 0.7\nFIELDS intensity z x y\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\n"
        f"WIDTH 2\nHEIGHT 1\nPOINTS 2\nDATA {kind}\n"
    )
    rows = np.array([[9, 3, 1, 2], [9, 6, 4, 5]], "<f4")
    body = rows.tobytes() if kind == "binary" else b"9 3 1 2\n9 6 4 5\n"
    cloud = read_cloud(written(tmp_path / "x.pcd", header.encode() + body))
    assert cloud.positions.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_arrays_are_clouds_too(tmp_path) -> None:
    points = np.random.default_rng(0).random((7, 3))
    np.save(tmp_path / "x.npy", np.concatenate([points, points], 1))
    np.savez(tmp_path / "x.npz", points=points, normals=-points)
    assert np.array_equal(read_cloud(tmp_path / "x.npy").normals, points)
    assert np.array_equal(read_cloud(tmp_path / "x.npz").normals, -points)


def test_points_that_are_no_numbers_are_left_out_and_it_is_said(tmp_path) -> None:
    with pytest.warns(UserWarning, match=r"x\.xyz: 1 points that are no numbers"):
        cloud = read_cloud(written(tmp_path / "x.xyz", "1 2 3\nnan 0 0\n4 5 6\n"))
    assert cloud.positions.tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.warns(UserWarning, match="faces with corners that are no numbers"):
        cloud = read_cloud(written(tmp_path / "x.off", BOX.replace("0 0 0\n", "nan 0 0\n", 1)))
    assert np.isfinite(cloud.positions).all()


def test_a_mesh_without_area_is_the_cloud_of_its_corners(tmp_path) -> None:
    cloud = read_cloud(written(tmp_path / "x.off", "OFF\n3 1 0\n1 1 1\n1 1 1\n1 1 1\n3 0 1 2\n"))
    assert cloud.positions.tolist() == [[1, 1, 1]] * 3


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.off", "", "is empty"),
        ("x.off", BOX[:-20], "it ends early: 8 points and 6 faces expected"),
        ("x.off", "hello", "cannot be read"),
        ("x.txt", "1 2\n3 4\n", "expected lines of x y z"),
        ("x.txt", "a b c\n", "cannot be read"),
        ("x.xyz", "nan nan nan\n", "has no points"),
        ("x.npz", "hello", "cannot be read"),
        ("x.pcd", "VERSION 0.7\n", "it has no DATA line"),
        (
            "x.pcd",
            "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS 2\nDATA binary_compressed\n",
            "save it as ascii or binary",
        ),
        ("x.pcd", "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS 2\nDATA binary\n0", "it ends early: 2 points expected"),
        ("x.pcd", "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS 2\nDATA ascii\n0 0 0\n", "it ends early: 2 points"),
        ("x.laz", "LASF", "is of no known format; known are .off"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_file(tmp_path, name, content, words) -> None:
    path = written(tmp_path / name, content)
    with pytest.raises(ValueError, match=r"x\.\w+") as error:
        read_cloud(path)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_the_awkward_files_are_read_or_refused_by_name(data_folder: Path) -> None:
    refused = {"empty.off", "truncated.off", "ply_empty_ascii.ply", "simple.laz"}
    points = {
        "quads.off": 2048,
        "no_faces.off": 700,
        "single_point.off": 1,
        "chair_ascii.pcd": 1024,
        "points_bin.ply": 5,
    }
    for path in sorted((data_folder / "points" / "awkward").iterdir()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.name in refused:
                with pytest.raises(ValueError, match=path.stem):
                    read_cloud(path)
            else:
                cloud = read_cloud(path)
                assert np.isfinite(cloud.positions).all()
                assert len(cloud) == points.get(path.name, len(cloud))
