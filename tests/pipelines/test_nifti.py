"""What a NIfTI file says is read by one stated rule, and what is written repeats its geometry bit for bit."""

import gzip
import os
import warnings
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from fredholm.pipelines import nifti
from fredholm.pipelines.nifti import read_labels, read_volume, write_labels, write_volume
from fredholm.pipelines.volume import Volume, canonical, restore

GEOMETRY = [
    *("dim", "pixdim", "xyzt_units", "sform_code", "qform_code", "srow_x", "srow_y", "srow_z"),
    *("quatern_b", "quatern_c", "quatern_d", "qoffset_x", "qoffset_y", "qoffset_z"),
]
AWKWARD = ["CT_pitch", "AICHAmc", "anatomical", "resampled_anat_moved", "with_extension"]
SFORM = np.array([[-1.0, 0, 0, 10], [0, 1, 0, 20], [0, 0, 2, 30], [0, 0, 0, 1]])
QFORM = np.array([[1.0, 0, 0, 1], [0, 1, 0, 2], [0, 0, 2, 3], [0, 0, 0, 1]])


def header(shape=(4, 5, 6), sform=(SFORM, 1), qform=(None, 0), kind: type = nib.Nifti1Header, endian="<"):
    made = kind(endianness=endian)
    made.set_data_shape(shape)
    made.set_zooms((1, 1, 2, *(1 for _ in shape[3:])))
    made.set_qform(*qform)
    made.set_sform(*sform)
    made.set_xyzt_units("mm", "sec")
    return made


def saved(path: Path, array: np.ndarray, head, slope=1.0, inter=0.0) -> Path:
    head.set_data_dtype(array.dtype)
    kind = nib.Nifti2Image if isinstance(head, nib.Nifti2Header) else nib.Nifti1Image
    image = kind(array, None, head)
    image.header.set_slope_inter(slope, inter)
    image.to_filename(path)
    return path


def voxels(dtype=np.int16, shape=(4, 5, 6)) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


def awkward(medical: Path, name: str) -> Path:
    return next((medical / "awkward_nifti").glob(f"{name}.nii*"))


def read_quietly(path: Path, reader=read_volume) -> Volume:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reader(path)


def assert_same_geometry(one: Path, other: Path) -> None:
    a, b = nib.Nifti1Image.from_filename, nib.Nifti2Image.from_filename
    first, second = (a(path) if nib.load(path).header.sizeof_hdr == 348 else b(path) for path in (one, other))
    assert first.shape == second.shape
    assert first.header.sizeof_hdr == second.header.sizeof_hdr
    for field in GEOMETRY:
        assert first.header[field].tobytes() == second.header[field].tobytes(), field


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_files_read_as_nibabel_reads_them(medical, name) -> None:
    image, found = nib.load(awkward(medical, name)), read_quietly(awkward(medical, name))
    expected = image.get_fdata(dtype=np.float64).reshape(found.shape)
    expected[~np.isfinite(expected)] = np.nanmin(expected)
    np.testing.assert_array_equal(found.array, expected.astype(np.float32))
    np.testing.assert_allclose(found.affine, image.affine, rtol=0, atol=1e-6)
    assert found.array.dtype == np.float32


@pytest.mark.parametrize("name", ["functional", "example_nifti2"])
def test_many_volumes_in_one_file_are_refused_on_one_line(medical, name) -> None:
    with pytest.raises(ValueError, match=r"has shape .*: one volume of three axes is expected") as caught:
        read_volume(awkward(medical, name))
    assert "\n" not in str(caught.value)


def test_voxels_that_are_no_number_get_the_lowest_value_and_are_counted(medical) -> None:
    with pytest.warns(UserWarning, match="153 voxels are not finite"):
        found = read_volume(awkward(medical, "resampled_anat_moved"))
    assert np.isfinite(found.array).all()


def test_an_image_without_any_number_is_refused(tmp_path) -> None:
    path = saved(tmp_path / "nan.nii", np.full((2, 2, 2), np.nan, np.float32), header((2, 2, 2)))
    with pytest.raises(ValueError, match="no finite value"):
        read_volume(path)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("kind", [nib.Nifti1Header, nib.Nifti2Header])
def test_every_stored_type_gives_the_same_image_and_labels(tmp_path, dtype, endian, kind) -> None:
    path = saved(tmp_path / "x.nii.gz", voxels(dtype), header(kind=kind, endian=endian))
    np.testing.assert_array_equal(read_volume(path).array, voxels(np.float32))
    labels = read_labels(path).array
    assert labels.dtype == np.uint8
    np.testing.assert_array_equal(labels, voxels(np.uint8))


def test_slope_and_intercept_apply_without_loss_where_they_cancel(tmp_path) -> None:
    stored = np.arange(120, dtype=np.int32).reshape(4, 5, 6) + 2**30
    path = saved(tmp_path / "x.nii", stored, header(), slope=2.0**-10, inter=-(2.0**20))
    np.testing.assert_array_equal(read_volume(path).array, (stored - 2**30) * np.float32(2.0**-10))


def test_a_file_packed_or_not_is_known_by_its_content_and_not_by_its_name(tmp_path) -> None:
    plain = saved(tmp_path / "x.nii", voxels(), header())
    (tmp_path / "packed.nii").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "plain.nii.gz").write_bytes(plain.read_bytes())
    for name in ("packed.nii", "plain.nii.gz"):
        np.testing.assert_array_equal(read_volume(tmp_path / name).array, voxels())


def test_spatial_units_are_turned_into_millimetres(tmp_path) -> None:
    metres = header()
    metres.set_xyzt_units("meter")
    micrometres = header()
    micrometres.set_xyzt_units("micron")
    assert read_volume(saved(tmp_path / "m.nii", voxels(), metres)).spacing_mm == (1000, 1000, 2000)
    found = read_volume(saved(tmp_path / "u.nii", voxels(), micrometres))
    assert found.spacing_mm == pytest.approx((0.001, 0.001, 0.002))
    write_labels(tmp_path / "labels.nii", voxels(np.uint8), like=found)
    assert_same_geometry(tmp_path / "u.nii", tmp_path / "labels.nii")


def test_the_sform_rules_over_a_qform_that_differs_and_a_warning_names_both(tmp_path) -> None:  # A3
    path = saved(tmp_path / "x.nii", voxels(), header(sform=(SFORM, 2), qform=(QFORM, 1)))
    with pytest.warns(UserWarning, match=r"\[10.0, 20.0, 30.0\].*\[1.0, 2.0, 3.0\].*sform is taken"):
        found = read_volume(path)
    np.testing.assert_array_equal(found.affine, SFORM)
    write_labels(tmp_path / "labels.nii", voxels(np.uint8), like=found)
    assert_same_geometry(path, tmp_path / "labels.nii")


def test_an_atlas_with_two_places_126_mm_apart_warns(medical) -> None:  # A3, a real file
    with pytest.warns(UserWarning, match=r"\[90.0, -126.0, -72.0\].*\[90.0, 0.0, 0.0\]"):
        found = read_labels(awkward(medical, "AICHAmc"))
    assert found.affine[:3, 3].tolist() == [90, -126, -72]


def test_forms_that_differ_by_less_than_a_tenth_of_a_voxel_are_taken_as_one(tmp_path) -> None:
    near = SFORM.copy()
    near[0, 3] += 0.09
    read_volume(saved(tmp_path / "x.nii", voxels(), header(sform=(SFORM, 2), qform=(near, 1))))


def test_the_qform_places_the_voxels_where_the_sform_is_not_coded(tmp_path) -> None:
    found = read_volume(saved(tmp_path / "x.nii", voxels(), header(sform=(SFORM, 0), qform=(QFORM, 1))))
    np.testing.assert_allclose(found.affine, QFORM, atol=1e-6)


@pytest.mark.parametrize("reader", [read_volume, read_labels])
def test_unknown_orientation_is_refused_unless_it_is_assumed(tmp_path, reader) -> None:  # A4
    path = saved(tmp_path / "x.nii", voxels(), header(sform=(None, 0), qform=(None, 0)))
    with pytest.raises(ValueError, match="orientation unknown"):
        reader(path)
    np.testing.assert_array_equal(reader(path, assume="RAS").affine, np.diag((1, 1, 2, 1)))
    np.testing.assert_array_equal(reader(path, assume="las").affine, np.diag((-1, 1, 2, 1)))
    turned = reader(path, assume="SPR").affine
    np.testing.assert_array_equal(turned, [[0, 0, 2, 0], [0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    for nonsense in ("RLS", "RA", "XYZ", "RASP"):
        with pytest.raises(ValueError, match="is no orientation"):
            reader(path, assume=nonsense)


def test_an_assumed_orientation_is_not_written_into_the_result(tmp_path) -> None:
    path = saved(tmp_path / "x.nii", voxels(), header(sform=(None, 0), qform=(None, 0)))
    write_labels(tmp_path / "labels.nii", voxels(np.uint8), like=read_volume(path, assume="RAS"))
    assert_same_geometry(path, tmp_path / "labels.nii")


def test_assume_does_not_overrule_a_file_that_states_its_orientation(tmp_path) -> None:
    path = saved(tmp_path / "x.nii", voxels(), header())
    np.testing.assert_array_equal(read_volume(path, assume="RAS").affine, SFORM)


@pytest.mark.parametrize("skew", [1e-4, 1e-3, 0.2])
def test_a_skewed_sform_is_read_and_kept(tmp_path, skew) -> None:  # A5
    skewed = SFORM.copy()
    skewed[0, 1] = skew
    path = saved(tmp_path / "x.nii.gz", voxels(), header(sform=(skewed, 1)))
    found = read_volume(path)
    write_labels(tmp_path / "labels.nii.gz", voxels(np.uint8), like=found)
    np.testing.assert_allclose(nib.load(tmp_path / "labels.nii.gz").affine, skewed, rtol=0, atol=1e-6)
    assert_same_geometry(path, tmp_path / "labels.nii.gz")
    write_labels(tmp_path / "memory.nii.gz", voxels(np.uint8), like=Volume(found.array, found.affine))
    back = nib.load(tmp_path / "memory.nii.gz")
    np.testing.assert_allclose(back.affine, skewed, rtol=0, atol=1e-6)
    assert int(back.header["qform_code"]) == (0 if skew > 0.01 else 1)


def test_a_matrix_without_an_inverse_is_refused_by_name(tmp_path) -> None:
    path = saved(tmp_path / "flat.nii", voxels(), header(sform=(np.diag((1.0, 1, 0, 1)), 1), qform=(QFORM, 1)))
    with pytest.raises(ValueError, match=r"flat\.nii: the affine has no inverse"):
        read_volume(path)


@pytest.mark.parametrize("value", [2**24 + 1, 2**53 + 1, 2**63 - 1])
def test_large_labels_are_exact(tmp_path, value) -> None:
    labels = np.zeros((4, 5, 6), np.int64)
    labels[0, 0, 0] = value
    found = read_labels(saved(tmp_path / "x.nii", labels, header())).array
    assert int(found[0, 0, 0]) == value


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ((0, 255), np.uint8),
        ((0, 256), np.uint16),
        ((-1, 100), np.int8),
        ((-1, 128), np.int16),
        ((0, 2**16), np.uint32),
        ((0, 2**63), np.uint64),
    ],
)
def test_labels_get_the_smallest_type_that_holds_them(tmp_path, values, dtype) -> None:
    stored = np.array(values, np.uint64 if values[1] >= 2**63 else np.int64).reshape(1, 1, 2)
    found = read_labels(saved(tmp_path / "x.nii", stored, header((1, 1, 2)))).array
    assert found.dtype == dtype
    assert found.ravel().tolist() == list(values)


@pytest.mark.parametrize("bad", [0.5, 1e-4, np.nan, np.inf, 1e30])
def test_a_float_that_is_no_label_is_named_with_its_voxel(tmp_path, bad) -> None:
    labels = voxels(np.float64)
    labels[1, 2, 3] = bad
    path = saved(tmp_path / "x.nii", labels, header())
    with pytest.raises(ValueError, match=r"is not a label map: .* at voxel \(1, 2, 3\)") as caught:
        read_labels(path)
    assert f"{bad:g}" in str(caught.value)


def test_labels_kept_as_scaled_integers_come_back_whole(tmp_path) -> None:
    labels = voxels(np.float64)
    scaled = header()
    scaled.set_data_dtype(np.int16)
    nib.Nifti1Image(labels, None, scaled).to_filename(tmp_path / "x.nii")
    assert nib.load(tmp_path / "x.nii").dataobj.slope != 1
    np.testing.assert_array_equal(read_labels(tmp_path / "x.nii").array, labels)


def test_a_real_label_map_reads_exactly(medical) -> None:
    path = medical / "torso" / "labels.nii.gz"
    np.testing.assert_array_equal(read_labels(path).array, np.asanyarray(nib.load(path).dataobj))


def test_every_truncation_of_a_packed_file_is_named_as_damage(tmp_path) -> None:
    whole = saved(tmp_path / "x.nii.gz", voxels(), header()).read_bytes()
    cut = tmp_path / "cut.nii.gz"
    for length in (5, 12, 60, len(whole) // 2, len(whole) - 8, len(whole) - 1):
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.nii\.gz is truncated or damaged") as caught:
            read_volume(cut)
        assert "\n" not in str(caught.value)


def test_a_flipped_bit_inside_a_packed_file_is_named_as_damage(tmp_path) -> None:
    path = saved(tmp_path / "x.nii.gz", voxels(), header())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is truncated or damaged"):
        read_volume(path)


def test_a_truncated_plain_file_is_named_as_damage(tmp_path) -> None:
    path = saved(tmp_path / "x.nii", voxels(), header())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is truncated or damaged") as caught:
        read_labels(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_a_header_that_claims_more_than_the_file_holds_asks_for_no_memory(tmp_path, suffix) -> None:
    content = bytearray(saved(tmp_path / "whole.nii", voxels(), header()).read_bytes())
    content[42:48] = np.full(3, 32767, "<i2").tobytes()
    path = tmp_path / f"x{suffix}"
    path.write_bytes(gzip.compress(content) if suffix == ".nii.gz" else content)
    with pytest.raises(ValueError, match=rf"x\{suffix} is truncated or damaged: its header speaks of"):
        read_volume(path)


@pytest.mark.parametrize(
    "content", [b"hello", bytes(1000), gzip.compress(b"hello" * 200)], ids=["words", "zeros", "packed"]
)
def test_what_is_no_nifti_is_said_to_be_none(tmp_path, content) -> None:
    (tmp_path / "x.nii").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.nii is not a NIfTI file"):
        read_volume(tmp_path / "x.nii")


def test_empty_missing_and_voxelless_files_are_told_apart(tmp_path) -> None:
    (tmp_path / "x.nii").touch()
    with pytest.raises(ValueError, match="is empty"):
        read_volume(tmp_path / "x.nii")
    with pytest.raises(FileNotFoundError, match=r"no such file: .*y\.nii"):
        read_volume(tmp_path / "y.nii")
    with pytest.raises(IsADirectoryError):
        read_volume(tmp_path)
    with pytest.raises(ValueError, match="holds no voxels"):
        read_volume(saved(tmp_path / "z.nii", np.zeros((2, 0, 2), np.int16), header((2, 0, 2))))


@pytest.mark.parametrize("dtype", [np.complex64, np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")])])
def test_colours_and_complex_numbers_are_refused(tmp_path, dtype) -> None:
    path = saved(tmp_path / "x.nii", np.zeros((2, 2, 2), dtype), header((2, 2, 2)))
    with pytest.raises(ValueError, match="one real number per voxel"):
        read_volume(path)


def test_an_unusable_header_is_refused_on_one_line(tmp_path) -> None:
    path = saved(tmp_path / "x.nii", voxels(), header())
    content = bytearray(path.read_bytes())
    content[70:72] = (999).to_bytes(2, "little")  # the code of the data type
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.nii: its NIfTI header cannot be used") as caught:
        read_volume(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_labels_repeat_the_geometry_of_the_scan_bit_for_bit(medical, tmp_path, name, suffix) -> None:  # A13
    scan, path = awkward(medical, name), tmp_path / f"labels{suffix}"
    like = read_quietly(scan)
    labels = (np.arange(like.array.size) % 118).reshape(like.shape)
    write_labels(path, labels, like=like)
    assert_same_geometry(scan, path)
    written = nib.load(path)
    raw = nib.Nifti1Header(path.read_bytes()[:348] if suffix == ".nii" else gzip.decompress(path.read_bytes())[:348])
    assert (float(raw["scl_slope"]), float(raw["scl_inter"])) == (1, 0)
    assert written.get_data_dtype().itemsize == 1
    np.testing.assert_array_equal(read_quietly(path, read_labels).array, labels)


@pytest.mark.parametrize("codes", [(1, 1), (2, 0), (0, 1), (4, 3)])
@pytest.mark.parametrize("kind", [nib.Nifti1Header, nib.Nifti2Header])
def test_codes_and_matrices_of_a_flipped_scan_come_back(tmp_path, codes, kind) -> None:  # A13
    flipped = np.array([[-1.0, 0, 0, 0], [0, -1, 0, -318], [0, 0, 1, 0], [0, 0, 0, 1]])
    forms = {"sform": (flipped, codes[0]), "qform": (flipped, codes[1])}
    path = saved(tmp_path / "x.nii.gz", voxels(), header(kind=kind, **forms), slope=0.5, inter=-3)
    like = read_volume(path)
    on_canonical = canonical(like).array > 20
    write_labels(tmp_path / "labels.nii.gz", restore(on_canonical, like), like=like)
    assert_same_geometry(path, tmp_path / "labels.nii.gz")
    np.testing.assert_array_equal(read_labels(tmp_path / "labels.nii.gz").array, like.array > 20)


def test_what_speaks_of_the_values_of_a_scan_is_not_said_of_its_labels(medical, tmp_path) -> None:
    like = read_volume(awkward(medical, "with_extension"))
    like.source.header["cal_max"] = 400
    like.source.header.set_intent("z score")
    write_labels(tmp_path / "labels.nii.gz", np.zeros(like.shape, np.uint8), like=like)
    said = nib.load(tmp_path / "labels.nii.gz").header
    assert (float(said["cal_max"]), said.get_intent()[0], len(said.extensions)) == (0, "none", 0)
    write_volume(tmp_path / "image.nii.gz", like)
    kept = nib.load(tmp_path / "image.nii.gz").header
    assert (float(kept["cal_max"]), kept.get_intent()[0], len(kept.extensions)) == (400, "z score", 1)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ((0, 1), np.uint8),
        ((0, 255), np.uint8),
        ((0, 256), np.int16),
        ((-1, 3), np.int16),
        ((0, 32767), np.int16),
        ((0, 32768), np.int32),
        ((0, 2**31 - 1), np.int32),
    ],
)
def test_labels_are_written_in_the_smallest_type_that_all_tools_read(tmp_path, values, dtype) -> None:  # A2
    labels = np.array(values, np.int64).reshape(1, 1, 2)
    write_labels(tmp_path / "x.nii", labels, like=Volume(np.zeros((1, 1, 2)), SFORM))
    written = nib.load(tmp_path / "x.nii")
    assert written.get_data_dtype() == dtype
    np.testing.assert_array_equal(np.asanyarray(written.dataobj), labels)


def test_the_same_labels_give_the_same_bytes(tmp_path) -> None:
    like = Volume(voxels(), SFORM)
    for name in ("a.nii.gz", "b.nii.gz"):
        write_labels(tmp_path / name, like.array, like=like)
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()


def test_a_volume_made_in_memory_is_written_with_both_forms_in_millimetres(tmp_path) -> None:
    write_labels(tmp_path / "x.nii.gz", voxels(), like=Volume(voxels(), SFORM))
    said = nib.load(tmp_path / "x.nii.gz").header
    assert (int(said["sform_code"]), int(said["qform_code"]), said.get_xyzt_units()[0]) == (1, 1, "mm")
    np.testing.assert_allclose(said.get_sform(), SFORM, atol=1e-6)
    np.testing.assert_allclose(said.get_qform(), SFORM, atol=1e-6)


def test_another_reader_finds_the_voxels_in_the_same_place(tmp_path) -> None:
    sitk = pytest.importorskip("SimpleITK")
    affine = SFORM @ np.array([[0.8, -0.6, 0, 4], [0.6, 0.8, 0, 5], [0, 0, 1, 6], [0, 0, 0, 1]])
    write_labels(tmp_path / "x.nii.gz", voxels(), like=Volume(voxels(), affine))
    image = sitk.ReadImage(str(tmp_path / "x.nii.gz"))
    found = np.array(image.TransformContinuousIndexToPhysicalPoint((1, 2, 3)))
    np.testing.assert_allclose(found * (-1, -1, 1), (affine @ (1, 2, 3, 1))[:3], atol=1e-4)
    assert image[1, 2, 3] == voxels()[1, 2, 3]


def test_a_header_is_not_repeated_for_a_volume_that_was_moved(tmp_path) -> None:
    like = read_volume(saved(tmp_path / "x.nii", voxels(), header(sform=(SFORM, 4))))
    moved = Volume(like.array, QFORM, source=like.source)
    write_labels(tmp_path / "labels.nii", voxels(), like=moved)
    np.testing.assert_allclose(nib.load(tmp_path / "labels.nii").affine, QFORM, atol=1e-6)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([-1024.0, 3071.0]), np.int16),
        (np.array([-1024.0, 0.5]), np.float32),
        (np.array([0.0, 40000.0]), np.float32),
        (np.array([0.0, np.nan]), np.float32),
        (np.array([0, 7]), np.int16),
    ],
)
def test_images_are_written_as_int16_where_that_loses_nothing(tmp_path, array, dtype) -> None:
    write_volume(tmp_path / "x.nii", Volume(array.reshape(1, 1, 2), SFORM))
    written = nib.load(tmp_path / "x.nii")
    assert written.get_data_dtype() == dtype
    np.testing.assert_array_equal(np.asanyarray(written.dataobj).ravel(), array)


def test_a_real_scan_goes_out_and_comes_back(medical, tmp_path) -> None:
    scan = read_volume(medical / "torso" / "ct.nii.gz")
    write_volume(tmp_path / "ct.nii.gz", scan)
    back = read_volume(tmp_path / "ct.nii.gz")
    np.testing.assert_array_equal(back.array, scan.array)
    assert_same_geometry(medical / "torso" / "ct.nii.gz", tmp_path / "ct.nii.gz")


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, OSError("disk full"), MemoryError])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_folder_as_it_was(tmp_path, monkeypatch, trouble, step) -> None:  # I1
    like = Volume(voxels(), SFORM)
    write_labels(tmp_path / "labels.nii.gz", like.array, like=like)
    before = (tmp_path / "labels.nii.gz").read_bytes()

    def fail(*_: object) -> None:
        raise trouble

    monkeypatch.setattr(nifti.os, step, fail)
    for name in ("labels.nii.gz", "new.nii.gz"):
        with pytest.raises(trouble if isinstance(trouble, type) else OSError):
            write_labels(tmp_path / name, like.array + 1, like=like)
    assert os.listdir(tmp_path) == ["labels.nii.gz"]
    assert (tmp_path / "labels.nii.gz").read_bytes() == before


def test_a_written_file_has_the_permissions_of_any_new_file(tmp_path) -> None:
    (tmp_path / "any").touch()
    write_labels(tmp_path / "x.nii", voxels(), like=Volume(voxels(), SFORM))
    assert (tmp_path / "x.nii").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_the_writer_says_what_does_not_fit(tmp_path) -> None:
    like = Volume(voxels(), SFORM)
    with pytest.raises(ValueError, match=r"ends in \.nii\.gz, \.nii"):
        write_labels(tmp_path / "x.nrrd", like.array, like=like)
    with pytest.raises(ValueError, match=r"\(6, 5, 4\) is not on the grid of shape \(4, 5, 6\)"):
        write_labels(tmp_path / "x.nii", like.array.T, like=like)
    with pytest.raises(ValueError, match="labels are integers"):
        write_labels(tmp_path / "x.nii", like.array.astype(np.float32), like=like)
    with pytest.raises(ValueError, match="do not fit int32"):
        write_labels(tmp_path / "x.nii", like.array.astype(np.int64) + 2**31, like=like)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        write_labels(tmp_path / "no" / "x.nii", like.array, like=like)
    assert os.listdir(tmp_path) == []
