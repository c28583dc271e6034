"""States for people and monitors: complete, escaped, and of UIDs and numbers only."""

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from fredholm.apps.scanner.page import MOST_ROWS, StatusPage, as_html, as_json, as_prometheus, rows
from fredholm.apps.viewer import LabelledScan, write_views
from fredholm.pipelines.gateway.states import STATES, SeriesState, Snapshot
from fredholm.pipelines.nifti import read_labels, read_volume
from helpers.browser import started_chromium, strict_tab

EVIL = "<script>alert('x')</script>"


def found(*series: SeriesState) -> Snapshot:
    return Snapshot(series, 5_000_000_000)


def one(**changes: object) -> SeriesState:
    given = {"uid": "1.2.3", "state": "done", "reason": None, "objects": 300, "bytes": 158_000_000}
    given |= {"conflicts": 0, "arrived": 0.0, "failures": 0}
    return SeriesState(**{**given, **changes})  # pyright: ignore[reportArgumentType]


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)


def test_words_from_outside_are_escaped() -> None:
    text = as_html(found(one(state="held", reason=EVIL)))
    assert EVIL not in text
    assert "&lt;script&gt;" in text
    assert "script" not in Tags(text).tags


def test_the_page_shows_every_state_and_series() -> None:
    text = as_html(found(one(), one(uid="1.2.4", state="held", reason="MISSING_SLICES")))
    assert all(word in text for word in (*STATES, "1.2.3", "1.2.4", "MISSING_SLICES", "158.0", "5.0 GB"))
    assert "No series is kept." in as_html(found())


def test_a_page_of_very_many_series_stays_short() -> None:
    assert as_html(found(*[one()] * (MOST_ROWS + 50))).count("1.2.3") == MOST_ROWS


def test_what_a_person_should_know_of_a_series_stands_in_its_last_column() -> None:
    (row,) = rows(found(one(state="sending", reason="nobody answers", failures=3, conflicts=2)))
    assert row[-1] == "nobody answers; 3 failed attempts to send; 2 objects came again with other bytes"


def test_json_has_all_of_it() -> None:
    content = json.loads(as_json(found(one())))
    assert content["counts"]["done"] == 1
    assert content["series"][0]["objects"] == 300
    assert content["free_bytes"] == 5_000_000_000


def test_prometheus_text_has_a_type_for_each_name_and_a_number_for_each_line() -> None:
    lines = as_prometheus(found(one()), {"objects": {"new": 7, "disk_full": 1}, "deliveries": {}}).splitlines()
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert names <= typed
    assert all(line.rsplit(" ", 1)[1].isdecimal() for line in lines if not line.startswith("#"))
    assert 'fredholm_gateway_objects_total{outcome="new"} 7' in lines
    assert 'fredholm_gateway_series{state="done"} 1' in lines
    assert 'fredholm_gateway_series{state="held"} 0' in lines


LARGEST_PAGE = 6_000_000  # bytes; NiiVue is 2.3 million of them


@pytest.mark.slow
def test_a_torso_with_all_its_organs_is_shown_from_the_status_page_and_from_its_file(
    medical: Path, tmp_path: Path
) -> None:
    names = {int(label): name for label, name in json.loads((medical / "torso/label_names.json").read_text()).items()}
    labels = np.asarray(read_labels(medical / "torso/labels.nii.gz").array)
    case = LabelledScan("1.2.3", read_volume(medical / "torso/ct.nii.gz"), labels, names)
    view, sheet = write_views(tmp_path, "view", case)
    assert view.stat().st_size < LARGEST_PAGE
    page = StatusPage(0, lambda: found(one(pages=(view, sheet))), dict)
    page.start()
    with started_chromium() as browser, strict_tab(browser) as tab:
        for address in (f"http://127.0.0.1:{page.port}/", view.as_uri()):
            tab.goto(address, timeout=120_000)
            if address.startswith("http"):
                tab.get_by_role("link", name="view").click()
            tab.wait_for_selector("body[data-state=ready]", timeout=120_000)
            assert tab.locator("td button").all_inner_texts() == [names[label] for label in np.unique(labels)[1:]]
    page.stop()
