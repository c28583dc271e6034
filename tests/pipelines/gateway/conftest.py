"""Spools are closed, as the end of a process would close them."""

from collections.abc import Iterator

import pytest
from helpers.gateway import close_spools


@pytest.fixture(autouse=True)
def closed_spools() -> Iterator[None]:
    yield
    close_spools()
