"""Labelled clouds as people have them on disk, brought to one form.

NPZ              arrays points (clouds, points, 3 or 6), labels, class_names and, if you like, file_ids
HDF5 folder      modelnet40_ply_hdf5_2048: train_files.txt, shape_names.txt, files of data, label and normal
list folder      modelnet40_normal_resampled: modelnet40_train.txt, modelnet40_shape_names.txt, CLASS/NAME.txt
class folders    CLASS/train/*.off and CLASS/test/*.off, as ModelNet comes; or CLASS/* without a split
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from .cloud import Cloud, draw, unit
from .files import READERS, read_cloud

KEPT = 2048  # points of a cloud that are kept in memory


@dataclass(frozen=True)
class LabelledClouds:
    """Clouds, each centred and scaled to radius 1, and what they are.

    Args:
        clouds: The clouds.
        labels: Index into `names` of each.
        names: The classes.
        ids: What each cloud is called.
    """

    clouds: Sequence[Cloud]
    labels: np.ndarray
    names: tuple[str, ...]
    ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.clouds)

    @property
    def has_normals(self) -> bool:
        """Whether every cloud has normals."""
        return all(cloud.normals is not None for cloud in self.clouds)

    def take(self, index: Sequence[int] | np.ndarray) -> "LabelledClouds":
        """Some of them."""
        return LabelledClouds(
            [self.clouds[i] for i in index], self.labels[index], self.names, tuple(self.ids[i] for i in index)
        )


def read_labelled(path: Path, side: str, tick: Callable[[str], None] = lambda _: None) -> LabelledClouds:
    """Read a data set.

    Args:
        path: An NPZ file or a folder of one of the layouts above.
        side: "train" or "test", where the layout tells them apart.
        tick: Is told the name of each cloud that was read.

    Raises:
        FileNotFoundError: There is no such file or folder, or the list of a side is missing.
        ValueError: The layout is not known, or a file in it cannot be read; the message names it.
    """
    if path.is_file() and path.suffix.lower() == ".npz":
        names, found = _npz(path)
    elif path.is_file() or not path.exists():
        raise FileNotFoundError(f"no data set at {path}: expected an .npz file or a folder of clouds")
    else:
        names, found = _folder(path, side)
    clouds, labels, ids = [], [], []
    for cloud, label, name in found:
        clouds.append(unit(cloud if len(cloud) <= KEPT else draw(cloud, KEPT, np.random.default_rng(0)), name))
        labels.append(label)
        ids.append(name)
        tick(name)
    if not clouds:
        raise ValueError(f"{path} has no clouds to {side}")
    return LabelledClouds(clouds, np.array(labels), names, tuple(ids))


def split_off(data: LabelledClouds, share: float, seed: int) -> tuple[LabelledClouds, LabelledClouds]:
    """Hold out a share of every class, at least one cloud where a class has two or more; the rest comes first."""
    rng = np.random.default_rng(seed)
    held: list[int] = []
    for label in range(len(data.names)):
        own = rng.permutation(np.flatnonzero(data.labels == label))
        held += own[: min(len(own) - 1, max(1, round(share * len(own))))].tolist() if share and len(own) else []
    rest = np.setdiff1d(np.arange(len(data)), held)
    return data.take(rest), data.take(sorted(held))


Found = Iterator[tuple[Cloud, int, str]]


def _npz(path: Path) -> tuple[tuple[str, ...], Found]:
    with np.load(path, allow_pickle=False) as content:
        missing = [key for key in ("points", "labels", "class_names") if key not in content]
        if missing:
            raise ValueError(f"{path} lacks {', '.join(missing)}: expected points, labels and class_names")
        points, labels, names = content["points"], content["labels"], content["class_names"]
        ids = content["file_ids"] if "file_ids" in content else [f"{path.stem}[{i}]" for i in range(len(points))]
    normals = points[..., 3:6] if points.shape[-1] >= 6 else None
    _check(path, points, labels, len(names))
    return tuple(map(str, names)), _rows(points, normals, labels, [str(name) for name in ids])


def _folder(path: Path, side: str) -> tuple[tuple[str, ...], Found]:
    if list(path.glob("*_files.txt")):
        return _hdf5(path, side)
    if list(path.glob("*_shape_names.txt")):
        return _listed(path, side)
    return _class_folders(path, side)


def _hdf5(path: Path, side: str) -> tuple[tuple[str, ...], Found]:
    names = tuple(_lines(path / "shape_names.txt"))
    files = [path / Path(line).name for line in _lines(path / f"{side}_files.txt")]  # the lines have a folder before

    def found() -> Found:
        for file in files:
            if not file.is_file():
                raise FileNotFoundError(f"{path} lists {file.name}, which is missing")
            with h5py.File(file) as content:
                points, labels = np.asarray(content["data"]), np.asarray(content["label"]).reshape(-1)
                normals = np.asarray(content["normal"]) if "normal" in content else None
            _check(file, points, labels, len(names))
            yield from _rows(points, normals, labels, [f"{file.stem}[{i}]" for i in range(len(points))])

    return names, found()


def _listed(path: Path, side: str) -> tuple[tuple[str, ...], Found]:
    listed = next(iter(sorted(path.glob("*_shape_names.txt"))))
    names = tuple(_lines(listed))
    clouds = _lines(listed.with_name(listed.name.replace("shape_names", side)))

    def found() -> Found:
        for name in clouds:
            kind = name.rpartition("_")[0]
            if kind not in names:
                raise ValueError(f"{path}: {name} is of no class in {listed.name}")
            yield read_cloud(path / kind / f"{name}.txt", samples=KEPT), names.index(kind), name

    return names, found()


def _class_folders(path: Path, side: str) -> tuple[tuple[str, ...], Found]:
    folders = sorted(one for one in path.iterdir() if one.is_dir() and not one.name.startswith("."))
    folders = [one for one in folders if any(file.suffix.lower() in READERS for file in one.rglob("*"))]
    if not folders:
        raise ValueError(f"{path} is no data set of clouds: expected a folder for each class")
    names = tuple(one.name for one in folders)

    def found() -> Found:
        for label, folder in enumerate(folders):
            split = folder / side if (folder / "train").is_dir() or (folder / "test").is_dir() else folder
            for file in sorted(split.iterdir()) if split.is_dir() else []:
                if file.suffix.lower() in READERS:
                    yield read_cloud(file, samples=KEPT), label, file.stem

    return names, found()


def _rows(points: np.ndarray, normals: np.ndarray | None, labels: np.ndarray, ids: Sequence[str]) -> Found:
    for row in range(len(points)):
        own = None if normals is None else normals[row].astype(np.float64)
        yield Cloud(points[row, :, :3].astype(np.float64), own), int(labels[row]), ids[row]


def _check(path: Path, points: np.ndarray, labels: np.ndarray, classes: int) -> None:
    if points.ndim != 3 or points.shape[-1] < 3 or len(points) != len(labels):
        raise ValueError(
            f"{path}: expected points (clouds, points, 3 or 6) and a label for each, "
            f"got {points.shape} and {labels.shape}"
        )
    if len(labels) and (labels.min() < 0 or labels.max() >= classes):
        raise ValueError(f"{path}: labels run from {labels.min()} to {labels.max()}, there are {classes} class names")
    if not np.isfinite(points).all():
        raise ValueError(f"{path}: some points are no numbers")


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing")
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
