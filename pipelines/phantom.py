"""A CT data set of drawn bodies with known truth, for trying and testing segmentation without patient data.

Anatomy is a table of shapes in atlas millimetres (RAS+: x to the patient's right, y to the front, z up; zero lies in
the middle of the trunk). A body is the atlas seen through its own map: size, turn, a smooth bend, and for each organ
its own shift, size and tilt, so that no two bodies agree. Liver, spleen, bowel and muscle have nearly the same
Hounsfield units and the ribs have the spine's: only position and shape tell them apart.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import nibabel as nib
import numpy as np
from nibabel.orientations import apply_orientation, axcodes2ornt, inv_ornt_aff, ornt_transform
from scipy.ndimage import gaussian_filter
from scipy.spatial.transform import Rotation

LABELS = ("background", "lungs", "liver", "spleen", "kidneys", "spine", "aorta", "stomach", "heart")
ORIENTATIONS = ("RAS", "LPS", "LAS", "PIR", "RAI")  # stored axis orders, taken in turn by the bodies

_TRUNK_MM = (147.0, 108.0)  # semi-axes of the body outline along x and y
_HEIGHT_MM = 296.0
_MARGIN_MM = 15.0  # air around the trunk


# Hounsfield units: a body's own value of a tissue lies between the two.
_TISSUES = {
    "air": (-1000, -1000), "gas": (-900, -700), "fat": (-105, -85), "skin": (0, 20), "muscle": (45, 60),
    "bowel": (20, 45), "colon": (5, 40), "bile": (5, 18), "vein": (60, 110), "canal": (25, 35), "rib": (380, 520),
    "breastbone": (200, 300), "arch": (330, 450), "disc": (130, 200), "cortex": (550, 700), "marrow": (300, 380),
    "lungs": (-850, -790), "liver": (54, 66), "spleen": (52, 64), "kidneys": (120, 170), "aorta": (185, 230),
    "stomach": (20, 40), "heart": (95, 130),
}  # fmt: skip


@dataclass(frozen=True)
class _Blob:
    """A superquadric: inside, the sum of |q_i / semi_i| ** power is below one, with q turned about x, y and z."""

    centre: tuple[float, float, float]
    semi: tuple[float, float, float]
    turn_deg: tuple[float, float, float] = (0.0, 0.0, 0.0)
    power: float = 2.2

    def level(self, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return about the distance to the surface in mm, negative inside, of this shape as one body has it."""
        centre = self.centre + _spread(rng, 5, 3)
        semi = np.array(self.semi) * (1 + _spread(rng, 0.06, 3))
        turn = Rotation.from_euler("xyz", self.turn_deg + _spread(rng, 5, 3), degrees=True).as_matrix()
        local = np.tensordot(
            (turn.T / semi[:, None]).astype(np.float32), points - centre.astype(np.float32)[:, None, None, None], 1
        )
        radius = (np.abs(local) ** np.float32(self.power)).sum(0) ** np.float32(1 / self.power)
        return (radius - 1) * semi.min()


@dataclass(frozen=True)
class _Tube:
    """A ball whose radius changes as it moves along straight pieces; a node is `(x, y, z, radius)`."""

    nodes: tuple[tuple[float, float, float, float], ...]

    def level(self, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the mm to the surface, negative inside, of this tube as one body has it; thick ones stray more."""
        nodes = np.array(self.nodes, dtype=float)
        nodes[:, :3] += _spread(rng, 0.15 * nodes[:, 3].mean(), 3) + _spread(rng, 1.5, (len(nodes), 3))
        nodes[:, 3] *= 1 + _spread(rng, 0.06, 1)
        return np.minimum.reduce([_capsule(points, *pair) for pair in pairwise(nodes)])


# In painting order: what comes later lies on top.
_ATLAS = (
    ("muscle", _Blob((42, -62, -105), (21, 19, 85))),  # psoas, then the back
    ("muscle", _Blob((-42, -62, -105), (21, 19, 85))),
    ("muscle", _Blob((32, -90, 0), (25, 13, 220))),
    ("muscle", _Blob((-32, -90, 0), (25, 13, 220))),
    ("colon", _Tube(((92, 10, -150, 20), (94, 4, -60, 22), (45, 52, -58, 17), (-30, 60, -52, 17)))),
    ("colon", _Tube(((-62, 45, -40, 15), (-103, -12, -42, 15), (-100, -15, -150, 16)))),
    ("lungs", _Blob((77, -6, 97), (52, 82, 88), (0, 6, 0), 2.6)),
    ("lungs", _Blob((-79, -8, 98), (48, 80, 88), (0, -6, 0), 2.6)),
    ("heart", _Blob((-24, 32, 86), (60, 42, 44), (0, -25, 28), 2.0)),
    ("stomach", _Tube(((-56, -2, 42, 31), (-62, 22, 5, 27), (-40, 46, -28, 19), (8, 48, -22, 13)))),
    ("spleen", _Blob((-98, -40, 12), (26, 42, 52), (18, -12, -20))),
    ("liver", _Blob((72, -4, -2), (66, 74, 66), (0, 12, 0), 2.5)),
    ("liver", _Blob((24, 38, 22), (74, 38, 36), (0, 10, 8))),
    ("bile", _Blob((48, 46, -46), (15, 17, 27), (20, 0, 0))),
    ("kidneys", _Blob((66, -54, -68), (30, 27, 54), (12, 10, -20))),
    ("kidneys", _Blob((-66, -54, -52), (30, 27, 54), (12, -10, 20))),
    ("fat", _Blob((48, -46, -68), (11, 8, 15))),  # where the vessels enter the kidneys
    ("fat", _Blob((-48, -46, -52), (11, 8, 15))),
    ("vein", _Tube(((17, -27, -150, 10), (18, -25, 20, 11), (14, -5, 60, 12)))),
    ("aorta", _Tube(((-9, -29, -150, 9), (-12, -28, 20, 11), (-18, -30, 150, 13)))),
)


class _Canvas:
    """The picture of one body, `hu` float32 and `labels` uint8, both `(x, y, z)`, painted tissue by tissue."""

    def __init__(self, axes_mm: Sequence[np.ndarray], size: np.ndarray, rng: np.random.Generator) -> None:
        self.axes_mm, self.rng = axes_mm, rng
        self.points = self._atlas_points(size)  # (3, x, y, z), mm
        self.rough = self.noise(35, 80)  # unsettles every surface alike
        self.tissues = {name: rng.uniform(*hu) for name, hu in _TISSUES.items()}
        self.hu = np.full(self.rough.shape, self.tissues["air"], np.float32)
        self.labels = np.zeros(self.rough.shape, np.uint8)

    def paint(self, inside: np.ndarray, tissue: str, organ: str | None = None) -> None:
        """Cover the voxels with a tissue; the organ is the one of that name, or background, unless it is given."""
        organ = organ or (tissue if tissue in LABELS else "background")
        self.hu[inside] = self.tissues[tissue]
        self.labels[inside] = LABELS.index(organ)

    def noise(self, shortest_mm: float, longest_mm: float, waves: int = 32) -> np.ndarray:
        """Return a sum of plane waves of random direction and phase, mean 0 and variance 1, `(x, y, z)` float32."""
        direction = self.rng.standard_normal((waves, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        vectors = direction * (2 * np.pi / self.rng.uniform(shortest_mm, longest_mm, (waves, 1)))
        # A plane wave is a product of one wave along each axis: three short exponentials, not one for each voxel.
        x, y, z = (np.exp(1j * np.outer(v, axis)) for v, axis in zip(vectors.T, self.axes_mm, strict=True))
        x *= np.sqrt(2 / waves) * np.exp(2j * np.pi * self.rng.uniform(size=(waves, 1)))
        return np.einsum("wx,wy,wz->xyz", *(a.astype(np.complex64) for a in (x, y, z)), optimize=True).real

    def _atlas_points(self, size: np.ndarray) -> np.ndarray:
        """Return where in the atlas each voxel lies: scaled, turned by some degrees and bent by some mm."""
        grid = np.stack(np.meshgrid(*self.axes_mm, indexing="ij")).astype(np.float32)
        turn = Rotation.from_euler("xyz", _spread(self.rng, 2.5, 3), degrees=True).as_matrix()
        bend = np.stack([self.noise(140, 320) for _ in range(3)])
        return np.tensordot((turn / size[:, None]).astype(np.float32), grid, 1) + 3.5 * bend


def write_phantom(folder: Path, *, bodies: int = 7, held_out: int = 1, seed: int = 0) -> None:
    """Write drawn bodies as a data set in the layout of the Medical Segmentation Decathlon.

    Images are int16 Hounsfield units and labels uint8, NIfTI, about 100 x 76 x 80 voxels of 3 to 5 mm; spacing and
    stored axis order change from body to body. `dataset.json` is written last.

    Args:
        folder: Where `imagesTr`, `labelsTr`, `imagesTs`, `labelsTs` and `dataset.json` go; made if absent.
        bodies: How many bodies in all.
        held_out: How many of them, the last ones, are for testing; their truth lies in `labelsTs`.
        seed: Same seed, same voxels (on one machine). A body depends on the seed and its number alone.

    Raises:
        ValueError: No body would be left for training, or `held_out` is negative.
    """
    if not 0 <= held_out < bodies:
        raise ValueError(f"held_out {held_out} must lie in [0, bodies {bodies}): at least one body is for training")
    names = [f"body_{index:02d}.nii.gz" for index in range(bodies)]
    kinds = ["Tr"] * (bodies - held_out) + ["Ts"] * held_out
    for index, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        hu, labels, affine = draw_body(seed, index)
        orientation = ORIENTATIONS[index % len(ORIENTATIONS)]
        _write_nifti(folder / f"images{kind}" / name, hu, affine, orientation)
        _write_nifti(folder / f"labels{kind}" / name, labels, affine, orientation)
    (folder / "dataset.json").write_text(json.dumps(_index(names, held_out), indent=2) + "\n", encoding="utf-8")


def draw_body(seed: int, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw one body.

    Args:
        seed: Seed of the data set.
        index: Number of the body in it.

    Returns:
        Hounsfield units `(x, y, z)` int16, labels `(x, y, z)` uint8 that index `LABELS`, and the affine `(4, 4)`
        float64 from voxels to millimetres; axes run to the right, the front and up (RAS+).
    """
    rng = np.random.default_rng([seed, index])
    size = 1 + _spread(rng, 0.05, 3)
    spacing = np.repeat(rng.uniform([3.0, 3.0], [3.6, 5.0]).round(2), [2, 1])
    extent = np.array([2 * (_TRUNK_MM[0] + _MARGIN_MM), 2 * (_TRUNK_MM[1] + _MARGIN_MM), _HEIGHT_MM]) * size
    shape = np.ceil(extent / spacing).astype(int)
    axes = [(np.arange(n) - (n - 1) / 2) * step for n, step in zip(shape, spacing, strict=True)]
    canvas = _Canvas(axes, size, rng)
    wall = _paint_trunk(canvas)
    _paint_organs(canvas, wall < 0)
    _paint_spine(canvas)
    _paint_ribs(canvas, wall)
    affine = np.diag([*spacing, 1.0])
    affine[:3, 3] = [axis[0] for axis in axes] + _spread(rng, 25, 3).round(1)  # patients lie where they lie
    return _scan(canvas), canvas.labels, affine


def _paint_trunk(canvas: _Canvas) -> np.ndarray:
    """Paint skin, fat, muscle and the fat within; return the mm outside the cavity, negative in it, `(x, y, z)`."""
    x, y, z = canvas.points
    waist = 1 + 0.04 * np.sin(z / 75)
    radius = (np.abs(x / (_TRUNK_MM[0] * waist)) ** 2.3 + np.abs(y / _TRUNK_MM[1]) ** 2.3) ** (1 / 2.3)
    depth = np.hypot(x, y) * (1 / np.maximum(radius, 1e-3) - 1)
    fat = canvas.rng.uniform(9, 17) + 2 * canvas.rough - 4 * np.tanh(z / 60)
    muscle = fat + canvas.rng.uniform(11, 15)
    for outer, tissue in ((0, "skin"), (2.5, "fat"), (fat, "muscle"), (muscle, "fat")):
        canvas.paint(depth > outer, tissue)
    return muscle - depth


def _paint_organs(canvas: _Canvas, cavity: np.ndarray) -> None:
    """Paint loops of bowel, then the atlas, all within the cavity."""
    _, y, z = canvas.points
    canvas.paint(cavity & (y > -30) & (z < -35) & (canvas.noise(35, 70) > -0.1), "bowel")
    for tissue, shape in _ATLAS:
        level = shape.level(canvas.points, canvas.rng)
        inside = cavity & (level + 1.5 * canvas.rough < 0)
        canvas.paint(inside, tissue)
        if tissue == "stomach":  # air floats: the patient lies on the back
            canvas.paint(inside & (level < -5) & (y > np.quantile(y[inside], 0.75)), "gas", "stomach")


def _paint_spine(canvas: _Canvas) -> None:
    """Paint vertebrae of bone between softer discs, arches and processes behind; the canal is background."""
    x, y, z = canvas.points
    back = y + 57 + 4 * np.sin((z + 20) / 60)  # from the middle of the column
    height, start = canvas.rng.uniform([29, 0], [36, 1])
    beat = np.abs((z / height + start) % 1 - 0.5)  # 0 in mid-vertebra, 0.5 in mid-disc
    radius = np.hypot(x / 22, back / 17) * np.where(beat < 0.38, 1.1 - 0.25 * beat, 1)
    canal = np.hypot(x / 11, (back + 25) / 8.5)
    process = (np.abs(x) < 4.5) & (back < -30) & (back > -40) & (beat < 0.3)
    wings = (np.abs(x) < 38) & (np.abs(back + 22) < 5) & (beat < 0.17)
    arch = (canal < 1.8) & (back < -12) & (beat < 0.42)
    canvas.paint(process | wings | arch, "arch", "spine")
    canvas.paint(radius < 1, "disc", "spine")
    canvas.paint((radius < 1) & (beat < 0.38), "cortex", "spine")
    canvas.paint((radius < 0.8) & (beat < 0.31), "marrow", "spine")
    canvas.paint((canal < 1) & (back < -15), "canal")


def _paint_ribs(canvas: _Canvas, wall: np.ndarray) -> None:
    """Paint ribs that fall towards the front, and the breastbone, inside the muscle of the chest wall."""
    x, y, z = canvas.points
    middle = np.abs(wall - 6.5) < 4
    chest = z > np.where(y > 0, 48 - 0.65 * np.abs(x), -38)
    rib = (np.abs((z + 0.4 * y) / canvas.rng.uniform(25, 29) % 1 - 0.5) < 0.2) & (np.abs(x) > 30)
    canvas.paint(middle & chest & rib, "rib")
    canvas.paint(middle & (np.abs(x) < 17) & (y > 0) & (z > 45), "breastbone")


def _scan(canvas: _Canvas) -> np.ndarray:
    """Return what a scanner would make of the canvas, int16 HU: partial volume, uneven tissue, grainy noise."""
    tissue = canvas.hu + np.where(canvas.hu > -950, 7 * canvas.noise(14, 40), 0)
    vessels = np.exp(-((canvas.noise(20, 60) / 0.12) ** 2))
    tissue += 160 * vessels * (canvas.labels == LABELS.index("lungs"))
    noise = gaussian_filter(canvas.rng.standard_normal(canvas.hu.shape, np.float32), (0.6, 0.6, 0.3))
    hu = gaussian_filter(tissue, (0.55, 0.55, 0.35)) + canvas.rng.uniform(15, 20) * noise / noise.std()
    return np.clip(np.rint(hu), -1024, 3071).astype(np.int16)


def _capsule(points: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the mm to a straight tube from `start` to `end`, each `(x, y, z, radius)`; negative inside."""
    along = (end - start)[:3].astype(np.float32)
    offset = points - start[:3].astype(np.float32)[:, None, None, None]
    share = np.clip(np.tensordot(along / (along @ along), offset, 1), 0, 1)
    distance = np.sqrt(sum((o - share * a) ** 2 for o, a in zip(offset, along, strict=True)))
    return distance - (start[3] + share * (end[3] - start[3]))


def _spread(rng: np.random.Generator, sigma: float, shape: int | tuple[int, ...]) -> np.ndarray:
    """Return normal numbers that never stray beyond two sigma, so that no body is monstrous."""
    return sigma * np.clip(rng.standard_normal(shape), -2, 2)


def _write_nifti(path: Path, voxels: np.ndarray, affine: np.ndarray, orientation: str) -> None:
    """Write a RAS+ array in the stored axis order that `orientation` names; world positions do not change."""
    moves = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(orientation))
    affine = affine @ inv_ornt_aff(moves, voxels.shape)
    image = nib.Nifti1Image(np.ascontiguousarray(apply_orientation(voxels, moves)), affine)
    image.set_sform(affine, code=1)
    image.set_qform(affine, code=1)
    image.header.set_xyzt_units("mm")
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(image, path)


def _index(names: Sequence[str], held_out: int) -> dict[str, object]:
    train, test = names[: len(names) - held_out], names[len(names) - held_out :]
    return {
        "name": "phantom",
        "description": "Drawn bodies, no patient: CT of the trunk with eight organs",
        "modality": {"0": "CT"},
        "labels": {str(value): name for value, name in enumerate(LABELS)},
        "training": [{"image": f"imagesTr/{name}", "label": f"labelsTr/{name}"} for name in train],
        "test": [f"imagesTs/{name}" for name in test],
    }
