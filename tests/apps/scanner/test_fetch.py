"""What an archive has of a study comes whole, by each of the ways there are, or the user is told in one line."""

import contextlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
import yaml
from fredholm.apps.cli import main
from fredholm.pipelines.gateway.completeness import Arrivals
from fredholm.pipelines.gateway.spool import Spool
from fredholm.pipelines.gateway.states import snapshot
from helpers.gateway import ct, kept, on_disk, uid
from helpers.pacs import Orthanc, free_port
from helpers.scanner import gate, with_meta
from pydicom import Dataset, dcmread
from pydicom.uid import MRImageStorage


@pytest.fixture
def study(pacs: Orthanc) -> str:
    """A study of two CT series of three images, and an MR series, at an archive that knows us."""
    pacs.know("gateway", "FREDHOLM", free_port())
    for series in (1, 2):
        for number in range(3):
            put(pacs, of_study(ct(series, number)))
    other = of_study(ct(3, 1))
    other.SOPClassUID, other.Modality = MRImageStorage, "MR"
    put(pacs, other)
    return uid(9000)


def of_study(image: Dataset) -> Dataset:
    image.StudyInstanceUID = uid(9000)
    return image


def put(pacs: Orthanc, image: Dataset) -> None:
    file = BytesIO()
    with_meta(image).save_as(file, enforce_file_format=True)
    pacs.store(file.getvalue())


@pytest.fixture
def config(tmp_path: Path, pacs: Orthanc) -> Path:
    return written(tmp_path, pacs)


def written(folder: Path, pacs: Orthanc, **listen: object) -> Path:
    content = {
        "folder": str(folder / "spool"),
        "run": "RUN",
        "listen": {"calling": ["TESTPACS"], "free_gb": 1e-6, **listen},
        "c_store": [{"name": "pacs", "ae_title": "TESTPACS", "host": "127.0.0.1", "port": pacs.dicom}],
        "stow_rs": [{"name": "web", "url": pacs.web, "results": False}],
    }
    path = folder / "gateway.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def fetch(config: Path, study: str, archive: str, *more: str) -> int:
    return main(["scanner", "fetch", study, "--archive", archive, "--config", str(config), *more])


@contextlib.contextmanager
def opened(config: Path) -> Iterator[Spool]:
    spool = Spool(config.parent / "spool")
    yield spool
    spool.close()


@pytest.mark.parametrize("archive", ["pacs", "web"])
def test_the_ct_series_of_a_study_wait_in_the_spool_to_be_judged(config: Path, study: str, archive: str) -> None:
    assert fetch(config, study, archive) == 0
    with opened(config) as spool:
        assert kept(spool) == sorted(uid(series, number) for series in (1, 2) for number in range(3))
        assert on_disk(spool.root)[uid(2, 1)] == of_study(ct(2, 1))
        assert {one.state for one in snapshot(spool.index, spool.root).series} == {"waiting"}
        assert not list((spool.root / "visits").iterdir())


@pytest.mark.parametrize("archive", ["pacs", "web"])
def test_one_series_comes_to_a_folder_as_files(tmp_path: Path, config: Path, study: str, archive: str) -> None:
    assert fetch(config, study, archive, "--series", uid(1), "-o", str(tmp_path / "out")) == 0
    paths = sorted(path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert paths == [Path(uid(1), f"{uid(1, number)}.dcm") for number in range(3)]
    assert dcmread(tmp_path / "out" / paths[0]) == of_study(ct(1, 0))
    assert not (tmp_path / "spool").exists()


def test_both_ways_bring_the_same_bytes(config: Path, study: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert [fetch(config, study, archive) for archive in ("pacs", "web", "pacs")] == [0, 0, 0]
    assert "6 objects were fetched" in capsys.readouterr().err
    with opened(config) as spool:
        assert {one.conflicts for one in snapshot(spool.index, spool.root).series} == {0}


def test_an_archive_may_send_by_itself(tmp_path: Path, pacs: Orthanc, study: str) -> None:
    with gate(tmp_path / "spool", calling=("TESTPACS",)) as here:
        pacs.know("gateway", "FREDHOLM", here.port)
        config = written(tmp_path, pacs)
        assert fetch(config, study, "pacs", "--move") == 0
        assert kept(here.spool) == sorted(uid(series, number) for series in (1, 2) for number in range(3))
        assert here.held(uid(1)) is None


def test_what_does_not_come_about_is_one_line(
    tmp_path: Path, pacs: Orthanc, study: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = written(tmp_path, pacs)
    for words, *arguments in (
        ("web has no CT images of this study", uid(7), "web"),
        ("pacs has no CT images of this study", uid(7), "pacs"),
        ("has no CT images of this series", study, "web", "--series", uid(3)),
        ("no archive 'x'", study, "x"),
        ("objects did not come, status 0x", study, "pacs", "--move"),  # nobody serves
        ("leave --output out", study, "pacs", "--move", "-o", str(tmp_path)),
        ("leave --output out", study, "web", "--move"),
    ):
        assert fetch(config, *arguments) == 1
        told = capsys.readouterr().err.strip().splitlines()
        assert len(told) == 1
        assert words in told[0]


@pytest.mark.parametrize("archive", ["pacs", "web"])
def test_an_object_that_is_not_taken_ends_it_and_the_series_is_held(
    tmp_path: Path, pacs: Orthanc, study: str, archive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(pacs, of_study(ct(1, 9, side=128)))
    config = written(tmp_path, pacs, object_mb=0.01)
    assert fetch(config, study, archive, "--series", uid(1)) == 1
    assert capsys.readouterr().err.strip().endswith("fredholm: the object is larger than this gateway takes")
    with opened(config) as spool:
        assert Arrivals(spool).judge(uid(1), lambda _: None, 0.0) is not None
