"""One Orthanc for all tests of a file, empty at the start of each; no connection outlives its test."""

from collections.abc import Iterator

import pytest
from helpers.pacs import Orthanc, orthanc
from helpers.scanner import close_connections


@pytest.fixture(scope="session")
def running_pacs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orthanc]:
    with orthanc(tmp_path_factory.mktemp("pacs") / "orthanc") as made:
        yield made


@pytest.fixture
def pacs(running_pacs: Orthanc) -> Orthanc:
    running_pacs.empty()
    return running_pacs


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    close_connections()
