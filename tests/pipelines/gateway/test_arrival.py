"""An object's identifiers are read from bytes that nobody vouches for."""

import contextlib

import pytest
from fredholm.pipelines.gateway.arrival import SYNTAXES, Arrival, Reason, RefusedError, is_uid
from helpers.gateway import SECRETS, arrival, ct, encoded, uid
from hypothesis import given
from hypothesis import strategies as st
from pydicom import Dataset
from pydicom.dataset import FileMetaDataset
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_file_meta_info
from pydicom.sequence import Sequence
from pydicom.uid import UID, CTImageStorage, ExplicitVRLittleEndian, ImplicitVRLittleEndian, MRImageStorage


def refusal(*, announced: str = uid(1, 1), data: bytes | None = None, **changes: object) -> Reason:
    dataset = ct(1, 1)
    for name, value in changes.items():
        setattr(dataset, name, value)
    data = encoded(dataset) if data is None else data
    with pytest.raises(RefusedError) as caught:
        Arrival.read(CTImageStorage, announced, ExplicitVRLittleEndian, data)
    assert not any(word in str(caught.value) for word in SECRETS)
    assert caught.value.__cause__ is None
    return caught.value.reason


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_the_series_is_found(syntax: str) -> None:
    found = arrival(ct(3, 7), syntax)
    assert (found.series, found.uid, found.sop_class) == (uid(3), uid(3, 7), CTImageStorage)


def test_empty_uids_of_the_object_itself_are_those_announced() -> None:
    dataset = ct(1, 1)
    dataset.SOPInstanceUID = dataset.SOPClassUID = ""
    found = Arrival.read(CTImageStorage, uid(1, 1), ExplicitVRLittleEndian, encoded(dataset))
    assert (found.uid, found.series) == (uid(1, 1), uid(1))


def test_other_uids_than_announced_are_refused() -> None:
    assert refusal(SOPInstanceUID=uid(1, 2)) is Reason.OTHER_UID
    assert refusal(SOPClassUID=MRImageStorage) is Reason.OTHER_UID


def test_a_series_is_needed() -> None:
    assert refusal(SeriesInstanceUID="") is Reason.NO_SERIES
    assert refusal(data=encoded(Dataset())) is Reason.NO_SERIES
    assert refusal(data=b"") is Reason.NO_SERIES


@pytest.mark.parametrize("name", ["../../etc/passwd", "..", ".", "", "1/2", "1.2\n", "1" * 65, "a.b", "1.2 3", "١"])
def test_what_is_no_uid_names_no_file(name: str) -> None:
    assert not is_uid(name)
    assert refusal(announced=name) is Reason.BAD_UID


@pytest.mark.filterwarnings("ignore:Invalid value for VR UI")
def test_a_series_uid_that_is_none_is_refused() -> None:
    assert refusal(SeriesInstanceUID="../../x") is Reason.NO_SERIES


def test_uids_as_scanners_write_them_are_taken() -> None:
    assert is_uid("1.2.840.10008.1.2")
    assert is_uid("1.02.3")
    assert is_uid("2.25." + "9" * 59)


@pytest.mark.parametrize("length", [10, 100, 250])
def test_a_data_set_cut_off_before_its_series_is_refused(length: int) -> None:
    assert refusal(data=encoded(ct(1, 1))[:length]) in (Reason.UNREADABLE, Reason.NO_SERIES)


def test_an_element_that_announces_two_gigabytes_is_refused_without_reading_them() -> None:
    two_gigabytes = (2 << 30).to_bytes(4, "little")
    for tag in (b"\x08\x00\x08\x00", b"\x20\x00\x0e\x00"):
        assert refusal(data=tag + b"UN\0\0" + two_gigabytes + b"x") is Reason.NO_SERIES


def test_a_data_set_nested_without_end_is_refused() -> None:
    item = b"\x08\x00\x40\x11SQ\0\0\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff"
    assert refusal(data=item * 50_000) is Reason.UNREADABLE


def test_sequences_before_the_series_are_passed_over() -> None:
    dataset, item = ct(1, 1), Dataset()
    item.ReferencedSOPInstanceUID = uid(5)
    item.SeriesInstanceUID = uid(77)
    dataset.ReferencedImageSequence = Sequence([item])
    assert arrival(dataset).series == uid(1)


def without_value(tag: bytes) -> bytes:
    """An object in which a UID is empty, and of a value representation that there is not."""
    data = encoded(ct(1, 1))
    at = data.index(tag + b"UI")
    length = int.from_bytes(data[at + 6 : at + 8], "little")
    return data[: at + 4] + b"U\0\0\0" + data[at + 8 + length :]


def test_an_empty_uid_is_empty_whatever_its_representation() -> None:
    assert refusal(data=without_value(b"\x20\0\x0e\0")) is Reason.NO_SERIES
    data = without_value(b"\x08\0\x18\0")
    assert Arrival.read(CTImageStorage, uid(1, 1), ExplicitVRLittleEndian, data).uid == uid(1, 1)


def test_the_deflated_syntax_is_not_taken() -> None:
    assert not any(UID(syntax).is_deflated or not UID(syntax).is_little_endian for syntax in SYNTAXES)


def test_the_preamble_is_always_the_same() -> None:
    assert arrival(ct(1, 1)).preamble() == arrival(ct(1, 1)).preamble()
    assert arrival(ct(1, 1)).preamble() != arrival(ct(1, 1), ImplicitVRLittleEndian).preamble()


@pytest.mark.parametrize("syntax", SYNTAXES[:3])
@pytest.mark.parametrize("name", ["1.2.3", "1.2.34"])  # of odd and even length
def test_the_preamble_is_as_pydicom_writes_it(name: str, syntax: str) -> None:
    meta, file = FileMetaDataset(), DicomBytesIO()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, UID(name)
    meta.TransferSyntaxUID = UID(syntax)
    meta.ImplementationClassUID = UID("2.25.276641017483967719088366370479979929994")
    meta.ImplementationVersionName = "FREDHOLM"
    file.write(b"\0" * 128 + b"DICM")
    write_file_meta_info(file, meta)
    assert Arrival(CTImageStorage, name, syntax, b"", uid(1)).preamble() == file.getvalue()


@given(data=st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(RefusedError):
        assert is_uid(Arrival.read(CTImageStorage, uid(1, 1), ExplicitVRLittleEndian, data).series)
