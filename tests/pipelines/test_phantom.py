"""The drawn bodies are a lawful CT data set: complete, different, deterministic, and right side right."""

import json
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from fredholm.pipelines.phantom import LABELS, ORIENTATIONS, draw_body, write_phantom
from nibabel.affines import apply_affine

ORGANS = {name: value for value, name in enumerate(LABELS) if value}
# Mean over an organ as a scanner sees it, edges and the stomach's air included.
MEAN_HU = {
    "lungs": (-880, -700),
    "liver": (40, 80),
    "spleen": (30, 70),
    "kidneys": (90, 180),
    "spine": (250, 450),
    "aorta": (140, 240),
    "stomach": (-250, 40),
    "heart": (60, 140),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("phantom")
    write_phantom(folder, bodies=6, held_out=1, seed=3)
    return folder


@pytest.fixture(scope="module")
def pairs(folder: Path) -> list[tuple]:
    images = sorted(folder.glob("images*/*.nii.gz"), key=lambda path: path.name)
    return [(nib.load(path), nib.load(str(path).replace("images", "labels"))) for path in images]


def world_centroid(labels: nib.Nifti1Image, organ: str) -> np.ndarray:
    voxels = np.argwhere(np.asarray(labels.dataobj) == ORGANS[organ])
    return apply_affine(labels.affine, voxels.mean(axis=0))


def test_index_names_every_file_and_every_organ(folder: Path) -> None:
    index = json.loads((folder / "dataset.json").read_text())
    assert index["labels"] == {str(value): name for value, name in enumerate(LABELS)}
    assert [row["image"] for row in index["training"]] == [f"imagesTr/body_{i:02d}.nii.gz" for i in range(5)]
    assert [row["label"] for row in index["training"]] == [f"labelsTr/body_{i:02d}.nii.gz" for i in range(5)]
    assert index["test"] == ["imagesTs/body_05.nii.gz"]
    named = {path for row in index["training"] for path in row.values()} | {*index["test"], "labelsTs/body_05.nii.gz"}
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.nii.gz")} == named


def test_image_and_label_lie_on_one_grid(pairs) -> None:
    for image, labels in pairs:
        assert image.shape == labels.shape
        np.testing.assert_array_equal(image.affine, labels.affine)
        assert (image.get_data_dtype(), labels.get_data_dtype()) == (np.int16, np.uint8)
        for header in (image.header, labels.header):
            assert (int(header["sform_code"]), int(header["qform_code"])) == (1, 1)
            np.testing.assert_allclose(header.get_qform(), header.get_sform(), atol=1e-3)


def test_stored_orders_are_those_promised(pairs) -> None:
    stored = ["".join(nib.aff2axcodes(image.affine)) for image, _ in pairs]
    assert stored == [*ORIENTATIONS, ORIENTATIONS[0]]


def test_bodies_have_the_size_of_a_trunk(pairs) -> None:
    for image, _ in pairs:
        canonical = nib.as_closest_canonical(image)
        spacing = np.array(canonical.header.get_zooms())
        assert np.all((spacing >= [3, 3, 3]) & (spacing <= [3.6, 3.6, 5]))
        extent = np.array(canonical.shape) * spacing
        assert np.all((extent > [280, 200, 250]) & (extent < [380, 290, 350])), extent


def test_every_organ_is_in_every_body(pairs) -> None:
    for _, labels in pairs:
        counts = np.bincount(np.asarray(labels.dataobj).ravel(), minlength=len(LABELS))
        assert len(counts) == len(LABELS)
        assert counts.min() > 500, dict(zip(LABELS, counts, strict=True))


def test_organs_look_like_ct(pairs) -> None:
    for image, labels in pairs:
        hu, truth = np.asarray(image.dataobj), np.asarray(labels.dataobj)
        assert hu.min() >= -1024
        assert hu.max() < 1500
        for organ, (low, high) in MEAN_HU.items():
            assert low < hu[truth == ORGANS[organ]].mean() < high, organ
        assert 12 < hu[truth == ORGANS["liver"]].std() < 40


def test_hounsfield_units_alone_do_not_tell_liver_from_spleen(pairs) -> None:
    for image, labels in pairs:
        hu, truth = np.asarray(image.dataobj), np.asarray(labels.dataobj)
        liver, spleen = hu[truth == ORGANS["liver"]], hu[truth == ORGANS["spleen"]]
        assert abs(liver.mean() - spleen.mean()) < 1.5 * liver.std()


def test_organs_lie_where_they_should_in_the_world(pairs) -> None:
    for _, labels in pairs:
        at = {organ: world_centroid(labels, organ) for organ in ORGANS}
        assert at["liver"][0] > at["spleen"][0] + 80
        assert at["stomach"][0] < at["liver"][0]
        assert at["aorta"][0] < at["spine"][0]
        assert at["aorta"][1] > at["spine"][1]
        assert at["heart"][1] > at["aorta"][1]
        assert at["lungs"][2] > at["liver"][2] > at["kidneys"][2]


def test_stored_order_does_not_change_the_anatomy(pairs) -> None:
    for index, (image, labels) in enumerate(pairs):
        hu, truth, affine = draw_body(3, index)
        for stored, drawn in ((image, hu), (labels, truth)):
            canonical = nib.as_closest_canonical(stored)
            np.testing.assert_array_equal(np.asarray(canonical.dataobj), drawn)
            np.testing.assert_allclose(canonical.affine, affine, atol=1e-4)


def test_same_seed_gives_the_same_files(folder: Path, tmp_path: Path) -> None:
    write_phantom(tmp_path, bodies=2, held_out=0, seed=3)
    for kind in ("imagesTr", "labelsTr"):
        for name in ("body_00.nii.gz", "body_01.nii.gz"):
            assert (tmp_path / kind / name).read_bytes() == (folder / kind / name).read_bytes()


def test_bodies_and_seeds_differ(pairs) -> None:
    volumes = [
        np.sum(np.asarray(labels.dataobj) == ORGANS["liver"]) * abs(np.linalg.det(labels.affine)) for _, labels in pairs
    ]
    assert 0.03 < np.std(volumes) / np.mean(volumes) < 0.3
    one, other = draw_body(3, 0)[1], draw_body(4, 0)[1]
    assert one.shape != other.shape or np.any(one != other)


@pytest.mark.parametrize(("bodies", "held_out"), [(0, 0), (2, 2), (3, -1)])
def test_says_when_no_body_is_left_to_train(tmp_path: Path, bodies: int, held_out: int) -> None:
    with pytest.raises(ValueError, match=rf"held_out {held_out} must lie in \[0, bodies {bodies}\)"):
        write_phantom(tmp_path / "none", bodies=bodies, held_out=held_out)
    assert not (tmp_path / "none").exists()
