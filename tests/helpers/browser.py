"""A browser that the machine has, or the test is skipped; and a tab of it that puts up with nothing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SWITCHES = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


@contextmanager
def started_chromium() -> Iterator:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine (Debian's package chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=SWITCHES)
        yield browser
        browser.close()


@contextmanager
def strict_tab(browser) -> Iterator:
    """A tab whose pages must raise no error, open no dialog, complain of nothing and ask for nothing but themselves."""
    tab = browser.new_page(viewport={"width": 1000, "height": 700})
    trouble: list[str] = []
    addresses: list[str] = []
    visited: list[str] = []
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    tab.on("console", lambda message: trouble.append(message.text))
    tab.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
    tab.on("request", lambda request: (visited if request.is_navigation_request() else addresses).append(request.url))
    yield tab
    tab.close()
    assert trouble == []
    assert [url for url in addresses if not url.startswith(("data:", "blob:"))] == []
    assert visited
