"""States for people and monitors: complete, escaped, and of UIDs and numbers only."""

import json
from html.parser import HTMLParser

from fredholm.apps.scanner.page import MOST_ROWS, as_html, as_json, as_prometheus, rows
from fredholm.pipelines.gateway.states import STATES, SeriesState, Snapshot

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
