"""Files of one cloud or mesh: OFF, PLY, OBJ, STL, PCD, XYZ, TXT, NPY, NPZ.

A mesh is sampled by area, so that a shape looks the same however its surface was cut into triangles; one without faces
is the cloud of its vertices.
"""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import trimesh

from .cloud import Cloud

SAMPLES = 2048  # of a mesh's surface


def read_cloud(path: Path, *, samples: int = SAMPLES, seed: int = 0) -> Cloud:
    """Read a cloud, or sample the surface of a mesh.

    Args:
        path: The file; its ending tells the format.
        samples: Points on the surface of a mesh.
        seed: Of where they lie.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is of no known format, damaged, or has no points; the message names it.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise ValueError(f"{path} is of no known format; known are {', '.join(READERS)}")
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty")
    try:
        cloud = READERS[suffix](path, samples, seed)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, EOFError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{path} cannot be read: {reason}") from None
    return _finite(cloud, path)


def _finite(cloud: Cloud, path: Path) -> Cloud:
    good = np.asarray(np.isfinite(cloud.positions).all(1))
    if not good.any():
        raise ValueError(f"{path} has no points")
    if not good.all():
        warnings.warn(f"{path}: {np.count_nonzero(~good)} points that are no numbers are left out", stacklevel=3)
        cloud = cloud.take(good)
    return cloud


def _mesh(path: Path, samples: int, seed: int) -> Cloud:
    loaded = trimesh.load(path, process=False)
    if isinstance(loaded, trimesh.Scene):  # of several parts, or of none
        loaded = loaded.to_mesh() if loaded.geometry else trimesh.PointCloud(np.zeros((0, 3)))
    vertices = np.asarray(getattr(loaded, "vertices", ()), dtype=np.float64).reshape(-1, 3)
    faces = np.asarray(getattr(loaded, "faces", ()), dtype=np.int64).reshape(-1, 3)
    if path.suffix.lower() == ".off":
        _expect_all_lines(path)
    whole = np.isfinite(vertices[faces]).all((1, 2)) if len(faces) else np.zeros(0, bool)
    if not whole.all():
        warnings.warn(
            f"{path}: {np.count_nonzero(~whole)} faces with corners that are no numbers are left out", stacklevel=3
        )
    sides = vertices[faces[whole]]
    cross = np.cross(sides[:, 1] - sides[:, 0], sides[:, 2] - sides[:, 0]) if len(sides) else np.zeros((0, 3))
    area = np.linalg.norm(cross, axis=1)
    if not area.sum() > 0:
        return Cloud(vertices)
    return _on_surface(sides, cross, area, samples, np.random.default_rng(seed))


def _on_surface(
    sides: np.ndarray, cross: np.ndarray, area: np.ndarray, samples: int, rng: np.random.Generator
) -> Cloud:
    """Points spread evenly over triangles `(faces, 3, 3)`, with their normals."""
    face = rng.choice(len(area), samples, p=area / area.sum())
    a, b = rng.random((2, samples, 1))
    a, b = np.where(a + b > 1, 1 - a, a), np.where(a + b > 1, 1 - b, b)
    first, second, third = sides[face].swapaxes(0, 1)
    return Cloud(first + a * (second - first) + b * (third - first), cross[face] / area[face, None])


def _expect_all_lines(path: Path) -> None:
    """Refuse an OFF file that ends before it has the lines that its header speaks of."""
    lines = [line.partition("#")[0].split() for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    lines = [line for line in lines if line and line != ["OFF"]]  # the counts may be glued to the word
    vertices, faces = (int(word.removeprefix("OFF")) for word in [word for word in lines[0] if word != "OFF"][:2])
    if len(lines) - 1 < vertices + faces:
        raise ValueError(f"it ends early: {vertices} points and {faces} faces expected, {len(lines) - 1} lines found")


def _text(path: Path, samples: int, seed: int) -> Cloud:
    """Lines of x y z, or x y z and a normal; commas or blanks between, more columns ignored."""
    content = path.read_text(encoding="utf-8")
    table = np.loadtxt(content.replace(",", " ").splitlines(), dtype=np.float64, ndmin=2, comments="#")
    if table.shape[1] < 3:
        raise ValueError(f"expected lines of x y z, or x y z nx ny nz, got {table.shape[1]} numbers in a line")
    return Cloud(table[:, :3], table[:, 3:6] if table.shape[1] >= 6 else None)


def _numpy(path: Path, samples: int, seed: int) -> Cloud:
    content = np.load(path, allow_pickle=False)
    if isinstance(content, np.ndarray):
        return _columns(content)
    if "points" not in content:
        raise ValueError(f"expected an array points, got {', '.join(content) or 'nothing'}")
    cloud = _columns(content["points"])
    return Cloud(cloud.positions, _columns(content["normals"]).positions) if "normals" in content else cloud


def _columns(array: np.ndarray) -> Cloud:
    if array.ndim != 2 or array.shape[1] < 3:
        raise ValueError(f"expected an array (points, 3 or 6), got {array.shape}")
    array = array.astype(np.float64)
    return Cloud(array[:, :3], array[:, 3:6] if array.shape[1] >= 6 else None)


def _pcd(path: Path, samples: int, seed: int) -> Cloud:
    """PCD 0.7, ascii or binary."""
    content = path.read_bytes()
    header, lines = {}, 0
    while "DATA" not in header:
        line, end, content = content.partition(b"\n")
        if not end or lines > 64:
            raise ValueError("it has no DATA line")
        key, _, value = line.decode("ascii", "replace").strip().partition(" ")
        header[key], lines = value.split(), lines + 1
    names, count = header["FIELDS"], int(header["POINTS"][0])
    kinds = [kind.lower() + size for kind, size in zip(header["TYPE"], header["SIZE"], strict=True)]
    repeats = [int(one) for one in header.get("COUNT", ["1"] * len(names))]
    row = np.dtype([(name, kind, (many,)) for name, kind, many in zip(names, kinds, repeats, strict=True)])
    if header["DATA"] == ["ascii"]:
        table = np.loadtxt(content.decode("ascii").splitlines(), ndmin=2, max_rows=count)
        ends = dict(zip(names, np.cumsum(repeats), strict=True))
        column = {name: table[:, ends[name] - many] for name, many in zip(names, repeats, strict=True)}
    elif header["DATA"] == ["binary"]:
        if len(content) < count * row.itemsize:
            raise ValueError(f"it ends early: {count} points expected, {len(content) // row.itemsize} found")
        table = np.frombuffer(content, row, count)
        column = {name: table[name][:, 0] for name in names}
    else:
        raise ValueError(f"its data are {' '.join(header['DATA'])}; save it as ascii or binary")
    if len(column["x"]) < count:
        raise ValueError(f"it ends early: {count} points expected, {len(column['x'])} found")
    positions = np.stack([column[axis] for axis in "xyz"], 1).astype(np.float64)
    axes = [f"normal_{axis}" for axis in "xyz"]
    normals = np.stack([column[axis] for axis in axes], 1).astype(np.float64) if {*axes} <= {*names} else None
    return Cloud(positions, normals)


Reader = Callable[[Path, int, int], Cloud]
READERS: dict[str, Reader] = {
    **dict.fromkeys((".off", ".ply", ".obj", ".stl"), _mesh),
    **dict.fromkeys((".xyz", ".txt", ".pts", ".csv"), _text),
    **dict.fromkeys((".npy", ".npz"), _numpy),
    ".pcd": _pcd,
}
