"""Stored numbers become Hounsfield units, slice by slice, whatever holds them."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gdcm
import numpy as np
import pytest
import SimpleITK
from fredholm.pipelines.dicom import Code, SeriesError, find_series, read_series
from fredholm.pipelines.nifti import read_volume
from fredholm.pipelines.volume import same_grid
from helpers.dicom import AFFINE, SHAPE, SLOPE, ct_series, enhanced, place_hu, save
from pydicom import dcmread, dcmwrite
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.pixels import get_decoder
from pydicom.uid import (
    HTJ2K,
    JPEG2000,
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    HTJ2KLossless,
    HTJ2KLosslessRPCL,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLossless,
    JPEGLosslessSV1,
    JPEGLSLossless,
    JPEGLSNearLossless,
    RLELossless,
)

GDCM = {
    JPEGLossless: gdcm.TransferSyntax.JPEGLosslessProcess14,
    JPEGLosslessSV1: gdcm.TransferSyntax.JPEGLosslessProcess14_1,
    JPEG2000Lossless: gdcm.TransferSyntax.JPEG2000Lossless,
}
GDCM_LOSSY = {
    JPEGBaseline8Bit: gdcm.TransferSyntax.JPEGBaselineProcess1,
    JPEGExtended12Bit: gdcm.TransferSyntax.JPEGExtendedProcess2_4,
}
PYDICOM = {RLELossless: "pydicom", JPEGLSLossless: "pyjpegls"}
PLAIN = (ImplicitVRLittleEndian, ExplicitVRLittleEndian, ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian)
# 8 rows of 12 numbers, n * 37 % 4096 for n = 0, 1, 2 ..., 16 bits, by OpenJPH
OPEN_JPH = base64.b64decode(
    "/0//UQApQAAAAAAMAAAACAAAAAAAAAAAAAAADAAAAAgAAAAAAAAAAAABDwEB/1AACAACAAAACv9SAAwAAgABAAUEBEAB/1wAEyCIkJCQkJCQkJCQ"
    "kJCQiIiI/2QAFwABT3BlbkpQSCBWZXIgMC4yNi4zLv+QAAoAAAAAAGoAAf+TwAAm4fYFB3QAAMAAEwB4/gIHdADAABLAABOA8wDHdADSL/0AwjQA"
    "wAATQAAVQKSkgQt0AMxnnvkAGMB3VgDAACogABXgCIIg2nCCdQB227Vr167d4CD2QgHsuAD/2Q=="
)


def volume_of(folder: Path) -> np.ndarray:
    return read_series(find_series(folder).only()).array


def stored(shape: tuple[int, int], bits: int, signed: int) -> np.ndarray:
    """Numbers that fill their bits, `(rows, columns)`."""
    lowest = -(1 << bits - 1) if signed else 0
    values = np.random.default_rng(0).integers(lowest, lowest + (1 << bits), shape)
    values.flat[:2] = lowest, lowest + (1 << bits) - 1
    return values.astype("<i2" if signed else "<u2")


def one_slice(values: np.ndarray, **tags: object) -> Dataset:
    shape = (*values.shape[::-1], 1)
    signed = int(values.dtype.kind == "i")
    tags = {
        "PixelData": values.tobytes(),
        "PixelRepresentation": signed,
        "RescaleSlope": 1,
        "RescaleIntercept": 0,
    } | tags
    return ct_series(shape=shape, hu=np.zeros(shape), **tags)[0]


def change_transfer_syntax(path: Path, uid: UID) -> None:
    """Compress a file, or write it another way."""
    dataset = dcmread(path)
    if uid in PLAIN:
        if uid == ExplicitVRBigEndian:
            dataset.PixelData = np.frombuffer(dataset.PixelData, "<u2").byteswap().tobytes()
        dataset.file_meta.TransferSyntaxUID = uid
        dcmwrite(path, dataset, implicit_vr=uid.is_implicit_VR, little_endian=uid.is_little_endian)
    elif uid in PYDICOM:
        dataset.compress(uid, encoding_plugin=PYDICOM[uid], generate_instance_uid=False)
        dataset.save_as(path)
    else:
        reader, change, writer = gdcm.ImageReader(), gdcm.ImageChangeTransferSyntax(), gdcm.ImageWriter()
        reader.SetFileName(str(path))
        assert reader.Read()
        change.SetTransferSyntax(gdcm.TransferSyntax((GDCM | GDCM_LOSSY)[uid]))
        change.SetInput(reader.GetImage())
        assert change.Change()
        writer.SetFileName(str(path))
        writer.SetFile(reader.GetFile())
        writer.SetImage(change.GetOutput())
        assert writer.Write()


@pytest.mark.parametrize(("bits", "signed"), [(16, 1), (16, 0), (12, 1), (12, 0)])
@pytest.mark.parametrize("uid", [*PLAIN, *PYDICOM, *GDCM], ids=lambda uid: uid.keyword)
def test_every_transfer_syntax_gives_the_same_numbers(tmp_path: Path, uid: UID, bits: int, signed: int) -> None:
    values = stored((32, 24), bits, signed)
    (path,) = save([one_slice(values, BitsStored=bits, HighBit=bits - 1)], tmp_path)
    change_transfer_syntax(path, uid)
    assert dcmread(path).file_meta.TransferSyntaxUID == uid
    np.testing.assert_array_equal(volume_of(tmp_path)[..., 0].T, values)


def test_lossy_compression_is_read_as_near_as_it_was_written(tmp_path: Path) -> None:
    column, row = np.meshgrid(np.arange(48), np.arange(32))
    values = (1000 + 20 * column + 10 * row).astype("<u2")
    lossy = {JPEG2000: {"j2k_psnr": [80], "encoding_plugin": "pylibjpeg"}, JPEGLSNearLossless: {"jls_error": 3}}
    for number, (uid, options) in enumerate(lossy.items()):
        dataset = one_slice(values, BitsStored=12, HighBit=11)
        dataset.compress(uid, generate_instance_uid=False, **options)
        save([dataset], tmp_path / str(number))
        found = volume_of(tmp_path / str(number))[..., 0].T
        assert 0 < np.abs(found - values).max() <= 3, uid.name


def test_lossy_jpeg_is_read(tmp_path: Path) -> None:
    column, row = np.meshgrid(np.arange(48), np.arange(32))
    values = (4 * column + row).astype("u1")
    (path,) = save([one_slice(values, BitsAllocated=8, BitsStored=8, HighBit=7)], tmp_path)
    change_transfer_syntax(path, JPEGBaseline8Bit)
    np.testing.assert_allclose(volume_of(tmp_path)[..., 0].T, values, atol=3)


def test_lossy_jpeg_of_twelve_bits_is_read_or_the_line_that_installs_its_decoder_is_told(tmp_path: Path) -> None:
    column, row = np.meshgrid(np.arange(48), np.arange(32))
    values = (64 * column + 16 * row).astype("<u2")
    (path,) = save([one_slice(values, BitsStored=12, HighBit=11)], tmp_path)
    change_transfer_syntax(path, JPEGExtended12Bit)
    if "pylibjpeg" in get_decoder(JPEGExtended12Bit).available_plugins:
        np.testing.assert_allclose(volume_of(tmp_path)[..., 0].T, values, atol=48)
    else:
        with pytest.raises(SeriesError, match=r"NO_DECODER: .*JPEG Extended.*pip install pylibjpeg-libjpeg \(GPL\)"):
            find_series(tmp_path).only()


@pytest.mark.parametrize("uid", [HTJ2K, HTJ2KLossless, HTJ2KLosslessRPCL], ids=lambda uid: uid.keyword)
def test_high_throughput_jpeg_2000_is_read(tmp_path: Path, uid: UID) -> None:
    values = (np.arange(96).reshape(8, 12) * 37 % 4096).astype("<u2")
    dataset = one_slice(values)
    dataset.PixelData = encapsulate([OPEN_JPH])
    dataset["PixelData"].is_undefined_length = True
    dataset.file_meta.TransferSyntaxUID = uid
    save([dataset], tmp_path)
    np.testing.assert_array_equal(volume_of(tmp_path)[..., 0].T, values)


@pytest.mark.parametrize("uid", [ExplicitVRLittleEndian, *PYDICOM], ids=lambda uid: uid.keyword)
def test_frames_of_an_enhanced_ct_are_placed_and_scaled_each_on_its_own(tmp_path: Path, uid: UID) -> None:  # B1, B7
    shape = (33, 32, 5)
    slices = ct_series(shape=shape, rescale=[(SLOPE, 0), (0.2, -1024), (0.05, 300)])
    (path,) = save([enhanced([slices[k] for k in (3, 0, 4, 1, 2)])], tmp_path)
    change_transfer_syntax(path, uid)
    series = find_series(tmp_path).only()
    assert [one.frame for one in series.slices] == [1, 3, 4, 0, 2]
    assert series.paths == (path,)
    np.testing.assert_allclose(series.affine, AFFINE, atol=1e-9)
    np.testing.assert_allclose(read_series(series).array, place_hu(AFFINE, shape), atol=0.11)


def test_rescale_counts_for_each_slice(tmp_path: Path) -> None:  # B7
    hu = np.ones(SHAPE)
    hu[..., 1] = 2
    save(ct_series(hu=hu, rescale=[(1, 0), (2, 0), (1, 0), (1, 0), (1, 0)]), tmp_path)
    for dataset in (dcmread(path) for path in tmp_path.iterdir()):
        assert set(dataset.PixelData) == {0, 1}
    np.testing.assert_array_equal(volume_of(tmp_path), hu)


def test_without_rescale_stored_numbers_are_hu_and_that_is_told(tmp_path: Path) -> None:  # B7
    save(ct_series(hu=np.ones(SHAPE), rescale=[(1, 0)], RescaleSlope=None, RescaleIntercept=None), tmp_path)
    np.testing.assert_array_equal(volume_of(tmp_path), 1)
    assert find_series(tmp_path).only().repairs == ("5 slices say no rescale: their numbers are taken as HU",)


def test_half_a_rescale_is_completed(tmp_path: Path) -> None:
    save(ct_series(hu=np.ones(SHAPE), rescale=[(1, 0)], RescaleSlope=None, RescaleIntercept=-1024), tmp_path)
    np.testing.assert_array_equal(volume_of(tmp_path), 1 - 1024)


@pytest.mark.parametrize("tags", [{"RescaleSlope": 0}, {"RescaleSlope": "nan"}, {"RescaleIntercept": "inf"}])
def test_a_rescale_that_is_none_is_refused(tmp_path: Path, tags: dict[str, object]) -> None:
    save(ct_series(**tags), tmp_path)
    with pytest.raises(SeriesError, match=Code.BAD_RESCALE):
        find_series(tmp_path).only()


@pytest.mark.parametrize("unit", ["Z_EFF", "ED", "MGML"])
def test_another_quantity_is_refused(tmp_path: Path, unit: str) -> None:
    save(ct_series(RescaleType=unit), tmp_path)
    with pytest.raises(SeriesError, match=f"NOT_HU.*{unit}"):
        find_series(tmp_path).only()


def test_a_modality_lut_wins_over_the_slope(tmp_path: Path) -> None:  # B7
    table = Dataset()
    table.LUTDescriptor, table.ModalityLUTType, table.LUTData = [4, 0, 16], "HU", [0, 10, 500, 3000]
    values = np.array([[0, 1, 2], [3, 4, 0]], "<u2")
    dataset = one_slice(values, ModalityLUTSequence=[table], RescaleSlope=7)
    dataset["ModalityLUTSequence"].value[0]["LUTDescriptor"].VR = "US"
    dataset["ModalityLUTSequence"].value[0]["LUTData"].VR = "US"
    save([dataset], tmp_path)
    np.testing.assert_array_equal(volume_of(tmp_path)[..., 0].T, [[0, 10, 500], [3000, 3000, 0]])


@pytest.mark.parametrize(
    ("tags", "air"),
    [
        ({"PixelPaddingValue": -2000}, [-2000]),
        ({"PixelPaddingValue": 63536}, [-2000]),  # the same bits, read as unsigned
        ({"PixelPaddingValue": -2000, "PixelPaddingRangeLimit": -1998}, [-2000, -1999, -1998]),
        ({"PixelPaddingValue": -1998, "PixelPaddingRangeLimit": -2000}, [-2000, -1999, -1998]),
        ({}, []),
    ],
)
def test_padding_becomes_air(tmp_path: Path, tags: dict[str, int], air: list[int]) -> None:  # B10
    values = np.array([[-2000, -1999, -1998, 0, 1024]], "<i2")
    dataset = one_slice(values, RescaleIntercept=-1024)
    for name, value in tags.items():
        dataset.add_new(name, "US" if value > 0 else "SS", value)
    save([dataset], tmp_path)
    expected = np.where(np.isin(values, air), -1024, values - 1024.0)
    np.testing.assert_array_equal(volume_of(tmp_path)[..., 0].T, expected)


def test_monochrome1_changes_no_number(tmp_path: Path) -> None:  # B10
    save(ct_series(PhotometricInterpretation="MONOCHROME1"), tmp_path)
    np.testing.assert_allclose(volume_of(tmp_path), place_hu(AFFINE, SHAPE), atol=0.51 * SLOPE)


def test_bits_of_an_old_overlay_are_not_part_of_the_number(tmp_path: Path) -> None:
    values = stored((6, 5), 12, 1)
    dataset = one_slice((values & 0xFFF | 0x5000).astype("<i2"), BitsStored=12, HighBit=11)
    save([dataset], tmp_path)
    np.testing.assert_array_equal(volume_of(tmp_path)[..., 0].T, values)


@pytest.fixture
def without_decoders() -> Iterator[None]:
    """JPEG 2000 as on a machine that lacks every plug-in."""
    decoder = get_decoder(JPEG2000Lossless)
    plugins = dict(decoder._available)
    decoder._available.clear()
    yield
    decoder._available.update(plugins)


@pytest.mark.usefixtures("without_decoders")
def test_a_missing_decoder_is_named_with_the_line_that_installs_it(medical: Path) -> None:
    with pytest.raises(SeriesError, match=r"NO_DECODER: .*JPEG 2000.*pip install 'fredholm\[scanner\]'"):
        find_series(medical / "torso_dicom").only()


def test_a_compression_that_nobody_reads_is_named(tmp_path: Path) -> None:
    (path,) = save([one_slice(np.zeros((2, 2), "<i2"))], tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.9\0", 1))
    with pytest.raises(SeriesError, match="NO_DECODER"):
        find_series(tmp_path).only()


def test_garbage_in_compressed_pixels_is_refused_on_one_line(tmp_path: Path) -> None:
    (path,) = save([one_slice(stored((32, 24), 12, 0))], tmp_path)
    change_transfer_syntax(path, JPEG2000Lossless)
    content = path.read_bytes()
    at = content.index(b"\xff\x4f\xff\x51") + 60
    path.write_bytes(content[:at] + b"\xa5" * 300 + content[at + 300 :])
    with pytest.raises(SeriesError, match=f"DAMAGED_FILE: {path.name}"):
        volume_of(tmp_path)


# real files


def test_a_real_series_is_voxel_for_voxel_its_nifti(medical: Path) -> None:
    volume = read_series(find_series(medical / "sarcoma_dicom").only())
    nifti = read_volume(medical / "sarcoma/imagesTr/sts_019.nii.gz")
    same_grid(volume, nifti, 1e-3)
    np.testing.assert_array_equal(volume.array, nifti.array)


@pytest.mark.parametrize("folder", ["23x38x3", "24x38x3"])
def test_a_real_multi_frame_is_the_same_as_its_single_frames(medical: Path, folder: str) -> None:
    folders = (medical / "dicom_seg" / folder / kind for kind in ("image", "multiframe"))
    one, other = (read_series(find_series(each).only()) for each in folders)
    same_grid(one, other, 1e-6)
    np.testing.assert_array_equal(one.array, other.array)


@pytest.mark.parametrize(
    "folder",
    ["torso_dicom", "orientation_phantom/dicom", "awkward_dicom/oblique", "awkward_dicom/localizers_and_slices/CT5N"],
)
def test_simpleitk_reads_the_same_from_the_files_in_our_order(medical: Path, folder: str) -> None:
    series = find_series(medical / folder).only()
    volume, reader = read_series(series), SimpleITK.ImageSeriesReader()
    reader.SetFileNames([str(path) for path in series.paths])
    image = reader.Execute()
    affine = np.eye(4)
    affine[:3, :3] = np.reshape(image.GetDirection(), (3, 3)) * image.GetSpacing()
    affine[:3, 3] = image.GetOrigin()
    same_grid(volume, replace(volume, affine=np.diag((-1, -1, 1, 1)) @ affine), 1e-3)
    expected = SimpleITK.GetArrayFromImage(image).T
    np.testing.assert_allclose(volume.array, np.where(expected == -3024, -1024, expected), rtol=1e-6)  # padding
