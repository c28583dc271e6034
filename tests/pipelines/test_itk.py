"""NRRD and MetaImage: nothing that SimpleITK passes over in silence is passed over here."""

from pathlib import Path

import numpy as np
import pytest
import SimpleITK
from fredholm.pipelines.itk import read_labels, read_volume, write_labels
from fredholm.pipelines.nifti import read_labels as read_nifti
from fredholm.pipelines.nifti import write_labels as write_nifti
from fredholm.pipelines.volume import Volume, canonical, restore, same_grid

VOXELS = np.arange(24, dtype="<i2").reshape(4, 3, 2)  # as they lie in the file, the first axis fastest
PLACED = "space: left-posterior-superior\nspace directions: (1,0,0) (0,2,0) (0,0,3)\nspace origin: (10,20,30)\n"
MATRIX = "TransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = 10 20 30\nElementSpacing = 1 2 3\n"
LPS = np.array([[-1.0, 0, 0, -10], [0, -2, 0, -20], [0, 0, 3, 30], [0, 0, 0, 1]])


def nrrd(path: Path, more: str = PLACED, data: bytes = VOXELS.tobytes(), sizes="2 3 4", kind="int16") -> Path:
    axes = len(sizes.split())
    head = f"NRRD0004\n# made by hand\ntype: {kind}\ndimension: {axes}\nsizes: {sizes}\nendian: little\nencoding: raw\n"
    path.write_bytes(f"{head}{more}\n".encode() + data)
    return path


def mha(path: Path, more: str = MATRIX, data: bytes = VOXELS.tobytes(), sizes="2 3 4", kind="MET_SHORT") -> Path:
    head = f"ObjectType = Image\nNDims = {len(sizes.split())}\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
    path.write_bytes(f"{head}{more}DimSize = {sizes}\nElementType = {kind}\nElementDataFile = LOCAL\n".encode() + data)
    return path


def placing(path: Path, keys: tuple[str, ...]) -> list[str]:
    lines = path.read_bytes().split(b"\n")
    return sorted(line.decode() for line in lines if line.startswith(tuple(key.encode() for key in keys)))


@pytest.mark.parametrize(("make", "name"), [(nrrd, "x.nrrd"), (mha, "x.mha")])
def test_lps_millimetres_become_ras(tmp_path: Path, make, name: str) -> None:  # A9
    found = read_volume(make(tmp_path / name))
    np.testing.assert_array_equal(found.affine, LPS)
    np.testing.assert_array_equal(found.array, VOXELS.T)
    assert found.array.dtype == np.float32
    assert (canonical(found).array == np.flip(VOXELS.T, (0, 1))).all()


@pytest.mark.parametrize(
    ("space", "signs"),
    [
        ("right-anterior-superior", (1, 1, 1)),
        ("RAS", (1, 1, 1)),
        ("left-anterior-superior", (-1, 1, 1)),
        ("left-posterior-superior", (-1, -1, 1)),
        ("LPS", (-1, -1, 1)),
    ],
)
def test_every_space_of_the_patient_is_known(tmp_path: Path, space: str, signs: tuple[int, int, int]) -> None:
    found = read_volume(nrrd(tmp_path / "x.nrrd", PLACED.replace("left-posterior-superior", space)))
    np.testing.assert_array_equal(found.affine[:3], np.diag(signs) @ [[1, 0, 0, 10], [0, 2, 0, 20], [0, 0, 3, 30]])


@pytest.mark.parametrize(
    ("make", "name", "more"),
    [
        (nrrd, "x.nrrd", ""),
        (nrrd, "x.nrrd", "spacings: 1 2 3\n"),
        (nrrd, "x.nrrd", PLACED.replace("space: left-posterior-superior", "space dimension: 3")),
        (nrrd, "x.nrrd", PLACED.replace("left-posterior-superior", "scanner-xyz")),
        (nrrd, "x.nrrd", "space: left-posterior-superior\n"),
        (mha, "x.mha", ""),
        (mha, "x.mha", "ElementSpacing = 1 2 3\n"),
        (mha, "x.mha", "Offset = 10 20 30\nElementSpacing = 1 2 3\nAnatomicalOrientation = LPS\n"),
    ],
)
@pytest.mark.parametrize("reader", [read_volume, read_labels])
def test_no_identity_is_taken_in_silence(tmp_path: Path, make, name: str, more: str, reader) -> None:  # A4, B1
    path = make(tmp_path / name, more)
    with pytest.raises(ValueError, match=r"orientation unknown; state it, such as --assume RAS"):
        reader(path)
    spacing = (1, 2, 3) if " 1 2 3" in more or "(0,2,0)" in more else (1, 1, 1)
    np.testing.assert_array_equal(reader(path, assume="LAS").affine, np.diag((-spacing[0], *spacing[1:], 1)))
    write_labels(tmp_path / f"labels{path.suffix}", VOXELS.T, like=reader(path, assume="LAS"))
    with pytest.raises(ValueError, match="orientation unknown"):  # what was assumed is not written
        reader(tmp_path / f"labels{path.suffix}")


def test_assume_does_not_overrule_a_file_that_states_its_orientation(tmp_path: Path) -> None:
    for path in (nrrd(tmp_path / "x.nrrd"), mha(tmp_path / "x.mha")):
        np.testing.assert_array_equal(read_volume(path, assume="RAS").affine, LPS)


@pytest.mark.parametrize(
    "matrix",
    [
        "TransformMatrix = 0 1 0 1 0 0 0 0 1\nOffset = 4 5 6\n",
        "Orientation = 0 1 0 1 0 0 0 0 1\nPosition = 4 5 6\n",
        "Rotation=0 1 0 1 0 0 0 0 1\nOrigin=4 5 6\n",
    ],
)
def test_the_matrix_of_a_metaimage_has_three_names(tmp_path: Path, matrix: str) -> None:
    found = read_volume(mha(tmp_path / "x.mha", matrix + "ElementSpacing = 1 2 3\n"))
    np.testing.assert_array_equal(found.affine[:3], [[0, -2, 0, -4], [-1, 0, 0, -5], [0, 0, 3, 6]])


@pytest.mark.parametrize(("unit", "mm"), [("mm", 1), ("um", 1e-3), ("cm", 10)])
def test_units_of_length_are_turned_into_millimetres(tmp_path: Path, unit: str, mm: float) -> None:
    units = f'space units: "{unit}" "{unit}" "{unit}"\n'
    for path in (
        nrrd(tmp_path / "x.nrrd", PLACED + units),
        mha(tmp_path / "x.mha", f"{MATRIX}DistanceUnits = {unit}\n"),
    ):
        np.testing.assert_allclose(read_volume(path).affine[:3], mm * LPS[:3])


def test_units_that_are_unknown_or_differ_are_refused(tmp_path: Path) -> None:
    for units in ('"inch" "inch" "inch"', '"mm" "mm" "cm"'):
        with pytest.raises(ValueError, match=r"x\.nrrd: unit of length .*; expected mm, cm, m or um"):
            read_volume(nrrd(tmp_path / "x.nrrd", f"{PLACED}space units: {units}\n"))


def test_the_slope_and_offset_of_a_metaimage_are_applied(tmp_path: Path) -> None:
    scale = "ElementToIntensityFunctionSlope = 2\nElementToIntensityFunctionOffset = -1024\n"
    path = mha(tmp_path / "x.mha", MATRIX + scale)
    np.testing.assert_array_equal(read_volume(path).array, 2 * VOXELS.T - 1024)
    np.testing.assert_array_equal(read_labels(path).array, 2 * VOXELS.T - 1024)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("UCHAR", "u1"), ("CHAR", "i1"), ("USHORT", "u2"), ("INT", "i4"), ("LONG_LONG", "i8"), ("FLOAT", "f4")],
)
def test_every_stored_type_gives_the_same_image_and_labels(tmp_path: Path, kind: str, dtype: str) -> None:
    path = mha(tmp_path / "x.mha", data=VOXELS.astype(dtype).tobytes(), kind=f"MET_{kind}")
    np.testing.assert_array_equal(read_volume(path).array, VOXELS.T)
    assert read_labels(path).array.dtype == np.uint8
    np.testing.assert_array_equal(read_labels(path).array, VOXELS.T)


def test_voxels_that_are_no_number_get_the_lowest_value_and_are_counted(tmp_path: Path) -> None:
    values = VOXELS.astype("<f4")
    values[0, 0, :] = np.nan
    with pytest.warns(UserWarning, match="2 voxels are not finite and get the lowest value, 2"):
        found = read_volume(nrrd(tmp_path / "x.nrrd", data=values.tobytes(), kind="float"))
    assert found.array[:, 0, 0].tolist() == [2, 2]


def test_a_fourth_axis_of_length_one_is_left_out(tmp_path: Path) -> None:
    kinds = "kinds: domain domain domain list\n"
    found = read_volume(nrrd(tmp_path / "x.nrrd", PLACED.replace("(0,0,3)", "(0,0,3) none") + kinds, sizes="2 3 4 1"))
    np.testing.assert_array_equal(found.array, VOXELS.T)
    np.testing.assert_array_equal(found.affine, LPS)
    write_labels(tmp_path / "labels.nrrd", VOXELS.T, like=found)
    np.testing.assert_array_equal(read_labels(tmp_path / "labels.nrrd").affine, LPS)
    four = "TransformMatrix = 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1\nOffset = 10 20 30 0\nElementSpacing = 1 2 3 1\n"
    found = read_volume(mha(tmp_path / "x.mha", four, sizes="2 3 4 1"))
    np.testing.assert_array_equal(found.array, VOXELS.T)
    np.testing.assert_array_equal(found.affine, LPS)


@pytest.mark.parametrize(
    ("sizes", "more", "words"),
    [
        ("6 4", "", r"has shape \(6, 4\): one volume of three axes"),
        ("2 3 2 2", "ElementSpacing = 1 1 1 1\n", r"has shape \(2, 3, 2, 2\): one volume of three axes"),
        ("2 2 2", f"{MATRIX}ElementNumberOfChannels = 3\n", "one real number per voxel"),
    ],
)
def test_other_than_one_number_on_three_axes_is_refused(tmp_path: Path, sizes: str, more: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_volume(mha(tmp_path / "x.mha", more, sizes=sizes))


def test_segments_in_layers_are_refused(tmp_path: Path) -> None:
    layers = PLACED.replace("directions: ", "directions: none ") + "kinds: list domain domain domain\n"
    with pytest.raises(ValueError, match="one real number per voxel"):
        read_labels(nrrd(tmp_path / "x.seg.nrrd", layers, sizes="2 2 3 2"))


@pytest.mark.parametrize(("make", "name"), [(nrrd, "x.nrrd"), (mha, "x.mha")])
def test_a_header_that_claims_more_than_the_file_holds_asks_for_no_memory(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], make, name: str
) -> None:
    for sizes, bytes_ in (("2 3 4", VOXELS.tobytes()[:-5]), ("30000 30000 30000", VOXELS.tobytes())):
        with pytest.raises(ValueError, match=r"is truncated or damaged: its header speaks of \d+ bytes"):
            read_volume(make(tmp_path / name, data=bytes_, sizes=sizes))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("ending", ["nrrd", "mha"])
def test_a_packed_file_that_is_cut_is_named_as_damaged(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    write_labels(path, np.random.default_rng(0).integers(0, 99, (9, 9, 9)), like=Volume(np.zeros((9, 9, 9)), LPS))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="is truncated or damaged") as caught:
        read_labels(path)
    assert "\n" not in str(caught.value)


def test_a_spacing_of_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.mha is truncated or damaged"):
        read_volume(mha(tmp_path / "x.mha", MATRIX.replace("1 2 3", "0 2 3")))


@pytest.mark.parametrize(
    "more",
    [
        PLACED,
        "space: RAS\nspace directions: (0.1,0.7,0) (-0.7,0.1,0)  (0,1e-3,3.3333333)\nspace origin: (1e-1,.2,3)\n"
        'space units: "cm" "cm" "cm"\n',
    ],
)
def test_labels_repeat_the_lines_that_place_an_nrrd_scan_to_the_letter(tmp_path: Path, more: str) -> None:  # A13
    scan = nrrd(tmp_path / "x.nrrd", more)
    like = read_volume(scan)
    write_labels(tmp_path / "labels.nrrd", restore(canonical(like).array > 5, like), like=like)
    assert placing(tmp_path / "labels.nrrd", ("space",)) == placing(scan, ("space",))
    found = read_labels(tmp_path / "labels.nrrd")
    np.testing.assert_array_equal(found.affine, like.affine)
    np.testing.assert_array_equal(found.array, VOXELS.T > 5)


@pytest.mark.parametrize("ending", ["mha", "mhd"])
@pytest.mark.parametrize(
    "more", [MATRIX, "Rotation = 0 1 0 1 0 1e-3 0 0 1\nOrigin = .1 2 3\nElementSpacing = 1 2 0.3\n"]
)
def test_labels_repeat_the_lines_that_place_a_metaimage_to_the_letter(tmp_path: Path, ending: str, more: str) -> None:
    keys = ("TransformMatrix", "Rotation", "Offset", "Origin", "ElementSpacing", "CenterOfRotation", "AnatomicalOr")
    scan = mha(tmp_path / "x.mha", more)
    like = read_volume(scan)
    write_labels(tmp_path / f"labels.{ending}", VOXELS.T, like=like)
    assert placing(tmp_path / f"labels.{ending}", keys) == placing(scan, keys)
    found = read_labels(tmp_path / f"labels.{ending}")
    np.testing.assert_array_equal(found.affine, like.affine)
    np.testing.assert_array_equal(found.array, VOXELS.T)


def test_the_voxels_beside_an_mhd_are_found_again_and_named_when_they_are_gone(tmp_path: Path) -> None:
    write_labels(tmp_path / "x.mhd", VOXELS.T, like=Volume(VOXELS.T, LPS))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.mhd", "x.zraw"]
    np.testing.assert_array_equal(read_labels(tmp_path / "x.mhd").array, VOXELS.T)
    (tmp_path / "x.zraw").unlink()
    with pytest.raises(ValueError, match=r"x\.mhd is truncated or damaged"):
        read_labels(tmp_path / "x.mhd")


def test_a_failed_write_leaves_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # I1
    like = Volume(VOXELS.T, LPS)
    write_labels(tmp_path / "x.mhd", VOXELS.T, like=like)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("SimpleITK.WriteImage", fail)
    for name in ("x.mhd", "y.nrrd"):
        with pytest.raises(KeyboardInterrupt):
            write_labels(tmp_path / name, VOXELS.T + 1, like=like)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["liver_seg.nrrd", "spine_seg_label5.nrrd", "24x38x3/nrrd/label.nrrd"])
def test_real_label_maps_read_exactly_and_lie_where_they_did(medical: Path, tmp_path: Path, name: str) -> None:
    path = medical / "dicom_seg" / name
    found, image = read_labels(path), SimpleITK.ReadImage(str(path))
    assert found.array.any()
    np.testing.assert_array_equal(found.array.T, SimpleITK.GetArrayFromImage(image))
    corner = np.array(image.TransformIndexToPhysicalPoint((5, 7, 2)))
    np.testing.assert_allclose((found.affine @ (5, 7, 2, 1))[:3], corner * (-1, -1, 1), atol=1e-9)
    write_labels(tmp_path / "x.nrrd", found.array, like=found)
    assert placing(tmp_path / "x.nrrd", ("space",)) == placing(path, ("space",))
    write_nifti(tmp_path / "x.nii.gz", found.array, like=found)
    same_grid(read_nifti(tmp_path / "x.nii.gz"), found, tolerance_voxels=1e-4)


def test_another_reader_finds_the_voxels_in_the_same_place(tmp_path: Path) -> None:
    affine = LPS @ np.array([[0.8, -0.6, 0, 4], [0.6, 0.8, 0, 5], [0, 0, 1, 6], [0, 0, 0, 1]])
    for name in ("x.nrrd", "x.mha", "x.mhd"):
        write_labels(tmp_path / name, VOXELS.T, like=Volume(VOXELS.T, affine))
        image = SimpleITK.ReadImage(str(tmp_path / name))
        found = np.array(image.TransformIndexToPhysicalPoint((1, 2, 3)))
        np.testing.assert_allclose(found * (-1, -1, 1), (affine @ (1, 2, 3, 1))[:3], atol=1e-6)
        assert image[1, 2, 3] == VOXELS[3, 2, 1]
