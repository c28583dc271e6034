"""What lies in a folder of DICOM files, told to people and to programs, and nothing of the patient."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.dicom import ct_series, save
from helpers.segment import fredholm, says

SECRETS: dict[str, Any] = {
    "PatientName": "Doe^Secret",
    "PatientID": "SECRET-1",
    "PatientBirthDate": "19111111",
    "SeriesDescription": "Secret, head",
    "StudyDescription": "Secret study",
    "InstitutionName": "Secret hospital",
}


def looked(folder: Path, capsys: pytest.CaptureFixture[str], expected: int = 0) -> dict:
    assert fredholm("scanner", "look", folder, "--json") == expected
    return json.loads(capsys.readouterr().out)


def test_each_series_is_told_with_its_grid_and_what_was_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slices = ct_series(Modality=None)
    save(slices, tmp_path / "scan")
    found = looked(tmp_path, capsys)
    (series,) = found["series"]
    assert series["uid"] == series["name"] == slices[0].SeriesInstanceUID
    assert (series["what"], series["files"], series["slices"]) == ("CT Image Storage", 5, 5)
    assert (series["taken"], series["shape"]) == (True, [7, 6, 5])
    np.testing.assert_allclose(series["spacing_mm"], (0.8, 0.9, 2.5))
    assert series["repairs"] == ["empty Modality, taken from the SOP class"]
    assert found["other_files"] == []


def test_what_is_not_taken_is_told_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gap = ct_series()
    save([*gap[:2], *gap[3:]], tmp_path / "gap")
    save(ct_series(shape=(4, 4, 3)), tmp_path / "whole")
    save(ct_series(shape=(4, 4, 1), ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"]), tmp_path)
    save(ct_series(SOPClassUID="1.2.840.10008.5.1.4.1.1.4", Modality="MR"), tmp_path / "mr")
    (tmp_path / "notes.txt").write_text("no DICOM")
    found = looked(tmp_path, capsys)
    codes = {series.get("code"): series.get("reason") for series in found["series"]}
    assert set(codes) == {None, "MISSING_SLICES", "LOCALIZER", "NOT_CT"}
    assert "1 missing beside 4" in codes["MISSING_SLICES"]
    assert codes["NOT_CT"] == "modality MR"
    assert [series["taken"] for series in found["series"]].count(True) == 1
    assert found["other_files"] == [{"file": "notes.txt", "reason": "no DICOM", "damaged": False}]
    assert fredholm("scanner", "look", tmp_path) == 0
    out = capsys.readouterr().out
    for words in ("no: MISSING_SLICES: 1 missing", "no: LOCALIZER", "no: NOT_CT: modality MR", "yes", "notes.txt"):
        assert words in out
    assert gap[0].SeriesInstanceUID in out


def test_nothing_that_could_be_labelled_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slices = ct_series()
    save([*slices[:2], *slices[3:]], tmp_path)
    assert looked(tmp_path, capsys, expected=1)["series"][0]["code"] == "MISSING_SLICES"
    (tmp_path / "empty").mkdir()
    assert looked(tmp_path / "empty", capsys, expected=1) == {"series": [], "other_files": []}
    says(capsys, "no such folder", code=fredholm("scanner", "look", tmp_path / "absent"))


def test_nothing_of_the_patient_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(ct_series(**SECRETS), tmp_path / "good")
    slices = ct_series(**SECRETS)
    save([*slices[:2], *slices[3:]], tmp_path / "gap")
    path = save(ct_series(**SECRETS, Rows=None), tmp_path / "bad")[0]
    path.write_bytes(path.read_bytes()[:600])
    for options in ([], ["--json"]):
        fredholm("scanner", "look", tmp_path, *options)
        out, err = capsys.readouterr()
        assert "DAMAGED_FILE" in out or "damaged" in out
        for secret in ("Secret", "SECRET", "19111111"):
            assert secret not in out + err


# real files


@pytest.mark.parametrize(
    ("folder", "taken", "codes"),
    [
        ("torso_dicom", 1, []),
        ("sarcoma_dicom", 1, ["NOT_CT"]),
        ("orientation_phantom", 1, []),
        ("awkward_dicom", 3, ["LOCALIZER", "LOCALIZER", "MISSING_SLICES"]),
        ("awkward_dicom/missing_slice", 0, ["MISSING_SLICES"]),
        ("dicom_seg", 5, ["NOT_CT"] * 5),
    ],
)
def test_real_folders(
    medical: Path, capsys: pytest.CaptureFixture[str], folder: str, taken: int, codes: list[str]
) -> None:
    series = looked(medical / folder, capsys, expected=0 if taken else 1)["series"]
    assert [one["taken"] for one in series].count(True) == taken
    assert sorted(one["code"] for one in series if not one["taken"]) == codes
