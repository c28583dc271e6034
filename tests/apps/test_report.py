"""A report is one whole, escaped, self-contained HTML file, or it is not there."""

import base64
import io
import math
import os
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from fredholm.apps.report import Link, Picture, Section, SortableTable, Table, write_report
from matplotlib.figure import Figure

VOID = {"meta", "link", "img", "br"}


class Outline(HTMLParser):
    """Checks that tags nest, and keeps tags with attributes, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def png() -> bytes:
    buffer = io.BytesIO()
    Figure(figsize=(3, 2)).savefig(buffer, format="png", dpi=10)
    return buffer.getvalue()


def render(folder: Path, *parts: str | Table | Picture, title: str = "Report") -> tuple[str, Outline]:
    path = folder / "report.html"
    write_report(path, title, [Section("Section", parts)])
    page, outline = path.read_text(encoding="utf-8"), Outline()
    outline.feed(page)
    outline.close()
    assert outline.open == []
    return page, outline


def test_every_word_is_escaped(tmp_path: Path, png: bytes) -> None:
    evil = "<script>alert('$body & \"1\"')</script>"
    table = Table([evil], [[evil]], caption=evil)
    page, outline = render(tmp_path, evil, table, Picture(png, alt=evil, caption=evil), title=evil)
    assert outline.all("script") == []
    assert "&lt;script&gt;alert(&#x27;$body &amp; &quot;1&quot;&#x27;)&lt;/script&gt;" in page
    assert outline.text.count(evil) == 7
    assert outline.all("img")[0]["alt"] == evil


def test_nothing_is_fetched(tmp_path: Path, png: bytes) -> None:
    page, outline = render(tmp_path, "words", Table(["a"], [[1]]), Picture(png, alt="a picture"))
    assert "://" not in page
    assert "url(" not in page
    addresses = [value for _, attributes in outline.tags for key, value in attributes.items() if key in ("src", "href")]
    assert all(value is not None and value.startswith("data:") for value in addresses)


def test_the_browser_is_told_to_fetch_nothing_and_to_run_nothing(tmp_path: Path) -> None:
    _, outline = render(tmp_path, Table(["a"], [[1]]))
    (policy,) = [meta["content"] for meta in outline.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert outline.all("script") == []


def test_a_link_leads_to_a_page_beside_whatever_its_name(tmp_path: Path) -> None:
    _, outline = render(tmp_path, SortableTable(["case"], [[Link("a < b", 'a#1 "b"?.html')]]))
    assert outline.all("a") == [{"href": "a%231%20%22b%22%3F.html"}]
    assert "a < b" in outline.text


def test_each_column_may_have_its_own_digits(tmp_path: Path) -> None:
    page, _ = render(tmp_path, Table(["case", "Dice", "mm"], [["a", 0.12345, 2.5]], digits=[0, 3, 1]))
    assert '<td class="number">0.123</td><td class="number">2.5</td>' in page


def test_it_is_html_for_phones_and_dark_rooms(tmp_path: Path) -> None:
    page, outline = render(tmp_path, "words")
    assert page.startswith('<!doctype html>\n<html lang="en">')
    metas = outline.all("meta")
    assert metas[0] == {"charset": "utf-8"}
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in metas
    assert "prefers-color-scheme: dark" in page


def test_blank_lines_part_paragraphs(tmp_path: Path) -> None:
    _, outline = render(tmp_path, "one\n\ntwo\n\n\n\nthree")
    assert len(outline.all("p")) == 3


def test_numbers_are_aligned_and_rounded(tmp_path: Path) -> None:
    rows = [["liver", 0.91234, 12, "good"], ["spleen", np.float32(-0.5), np.int64(7), "fair"]]
    page, _ = render(tmp_path, Table(["organ", "dice", "cases", "verdict"], rows))
    assert '<th scope="row">liver</th><td class="number">0.912</td><td class="number">12</td><td>good</td>' in page
    assert '<td class="number">−0.500</td><td class="number">7</td>' in page
    assert '<th scope="col">organ</th><th scope="col" class="number">dice</th>' in page


@pytest.mark.parametrize("missing", [math.nan, np.float32("nan"), None])
def test_what_was_not_scored_is_a_dash(tmp_path: Path, missing) -> None:
    page, outline = render(tmp_path, Table(["organ", "dice"], [["liver", missing], ["spleen", 0.5]]))
    assert '<td class="number"><span title="not scored">–</span></td>' in page
    assert "nan" not in outline.text.lower()


def test_pictures_are_inside_the_file(tmp_path: Path, png: bytes) -> None:
    _, outline = render(tmp_path, Picture(png, alt="overlay", caption="Body 6"))
    (image,) = outline.all("img")
    assert base64.b64decode(str(image["src"]).removeprefix("data:image/png;base64,")) == png
    assert (image["width"], image["height"]) == ("30", "20")
    assert "Body 6" in outline.text


def test_sections_keep_their_order(tmp_path: Path) -> None:
    write_report(tmp_path / "r.html", "T", [Section("first", ["a"]), Section("second", [])])
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.index("<h2>first</h2>") < page.index("<h2>second</h2>")


def test_rows_must_fit_the_columns() -> None:
    with pytest.raises(ValueError, match="has 1 cells for 2 columns"):
        Table(["a", "b"], [["only one"]])


def test_pictures_must_be_png() -> None:
    with pytest.raises(ValueError, match="must be a PNG file"):
        Picture(b"GIF89a", alt="no")


def test_a_failing_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_report(tmp_path / "report.html", "T", [])
    assert list(tmp_path.iterdir()) == []


def test_a_failing_write_keeps_the_report_of_before(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, "before", [])
    before = path.read_bytes()
    with pytest.raises(UnicodeEncodeError):
        write_report(path, "lone surrogate \ud800", [])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_report(tmp_path / "absent" / "report.html", "T", [])
