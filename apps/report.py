"""A report as one HTML file: words, tables and pictures, nothing fetched from anywhere, readable on any screen.

What a report says is data (`Section`, `Table`, `Picture`); this module alone knows HTML. Every word is escaped.
"""

import base64
import hashlib
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from string import Template
from urllib.parse import quote

from ..pipelines.files import write_text


@dataclass(frozen=True)
class Link:
    """Words that lead to another page.

    Args:
        words: What is read.
        file: The page's name, in the same folder.
    """

    words: str
    file: str


Cell = str | float | Link | None  # NumPy's numbers count as numbers too; None and NaN are what was not scored

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Table:
    """Rows under named columns; a column of numbers is aligned to the right.

    Args:
        columns: The headings.
        rows: One sequence of cells for each row, as long as `columns`; the first cell names the row.
        caption: What the table shows, and in which unit.
        digits: Decimals of numbers that are not whole by type, for all columns or for each.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    digits: int | Sequence[int] = 3

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"the row {list(row)} has {len(row)} cells for {len(self.columns)} columns")


@dataclass(frozen=True)
class SortableTable(Table):
    """A table whose headings sort the rows when they are pressed; what was not scored stays at the end."""


@dataclass(frozen=True)
class Picture:
    """A PNG file's bytes, the words for those who cannot see it, and a caption."""

    png: bytes
    alt: str
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.png.startswith(_PNG_SIGNATURE) or len(self.png) < 24:
            raise ValueError(f"a picture must be a PNG file, not bytes that start with {self.png[:8]!r}")

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, from the file's header."""
        return int.from_bytes(self.png[16:20], "big"), int.from_bytes(self.png[20:24], "big")


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, in order; a text is cut into paragraphs at its blank lines."""

    title: str
    parts: Sequence[str | Table | Picture]


def write_report(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write a report as one self-contained HTML file.

    It is written beside `path` and then renamed, so that a reader never meets half a report and a failure leaves
    what was there before.

    Args:
        path: The file to write; its folder must exist.
        title: Heading of the page and name of its tab.
        sections: What it says, from the top down.

    Raises:
        OSError: The file cannot be written.
    """
    write_text(path, page(title, sections))


def page(title: str, sections: Sequence[Section]) -> str:
    """The HTML of a report, see `write_report`."""
    body = "\n".join(_section(section) for section in sections)
    sorts = any(isinstance(part, SortableTable) for section in sections for part in section.parts)
    script = f"<script>{_SORT}</script>\n" if sorts else ""
    return _PAGE.substitute(title=html.escape(title), policy=_POLICY, style=_STYLE, body=body, script=script)


def _section(section: Section) -> str:
    parts = "\n".join(_part(part) for part in section.parts)
    return f"<section>\n<h2>{html.escape(section.title)}</h2>\n{parts}\n</section>"


def _part(part: str | Table | Picture) -> str:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Picture):
        return _picture(part)
    return "\n".join(f"<p>{html.escape(text.strip())}</p>" for text in part.split("\n\n") if text.strip())


def _table(table: Table) -> str:
    numeric = [all(_is_number(row[i]) for row in table.rows) for i in range(len(table.columns))]
    digits = [table.digits] * len(table.columns) if isinstance(table.digits, int) else table.digits
    head = _button if isinstance(table, SortableTable) else html.escape
    heads = "".join(
        f'<th scope="col"{_NUMBER * right}>{head(name)}</th>'
        for name, right in zip(table.columns, numeric, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(_cell(cell, i == 0, numeric[i], digits[i]) for i, cell in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{html.escape(table.caption)}</caption>\n" if table.caption else ""
    label = html.escape(table.caption or "table")
    # A table may be wider than a phone: then it scrolls within its own frame, by keyboard too.
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">\n<table>\n'
        f"{caption}<thead>\n<tr>{heads}</tr>\n</thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def _button(name: str) -> str:
    return f'<button type="button">{html.escape(name)}</button>'


def _cell(cell: Cell, leads: bool, right: bool, digits: int) -> str:
    tag, scope = ("th", ' scope="row"') if leads else ("td", "")
    return f"<{tag}{scope}{_NUMBER * right}>{_words(cell, digits)}</{tag}>"


def _words(cell: Cell, digits: int) -> str:
    if cell is None or (isinstance(cell, Real) and math.isnan(cell)):
        return '<span title="not scored">–</span>'
    if isinstance(cell, Link):
        return f'<a href="{quote(cell.file)}">{html.escape(cell.words)}</a>'
    if isinstance(cell, Real) and not isinstance(cell, Integral):
        return f"{float(cell):.{digits}f}".replace("-", "−")
    return html.escape(str(cell))


def _is_number(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, Real) and not isinstance(cell, bool))


def _picture(picture: Picture) -> str:
    width, height = picture.size
    data = base64.b64encode(picture.png).decode("ascii")
    caption = f"\n<figcaption>{html.escape(picture.caption)}</figcaption>" if picture.caption else ""
    image = (
        f'<img src="data:image/png;base64,{data}" width="{width}" height="{height}" alt="{html.escape(picture.alt)}">'
    )
    return f"<figure>\n{image}{caption}\n</figure>"


_NUMBER = ' class="number"'

# Columns of numbers by value, others by their words with the numbers in them by value; dashes last either way.
_SORT = """
for (const table of document.querySelectorAll("table:has(th > button)")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.firstChild.addEventListener("click", () => {
    const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const numeric = head.classList.contains("number");
    const text = row => row.cells[column].textContent.replace("\u2212", "-");
    const compare = (a, b) => numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
    const rows = [...table.tBodies[0].rows], scored = rows.filter(row => text(row) !== "\u2013");
    scored.sort((a, b) => way * compare(text(a), text(b)));
    table.tBodies[0].append(...scored, ...rows.filter(row => !scored.includes(row)));
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
  }));
}
"""

# Nothing is fetched, and no script runs but the one above.
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    f"script-src 'sha256-{base64.b64encode(hashlib.sha256(_SORT.encode()).digest()).decode()}'"
)

_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="$policy">
<title>$title</title>
<link rel="icon" href="data:,">
<style>
$style</style>
</head>
<body>
<main>
<h1>$title</h1>
$body
</main>
$script</body>
</html>
""")

_STYLE = """\
:root { color-scheme: light dark; --page: #fbfbfa; --ink: #1b1f26; --faint: #5d6673; --line: #dcdfe4; --band: #f1f2f4; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0e1116; --ink: #e6e9ef; --faint: #98a1af; --line: #2a303b; --band: #161b22; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 64rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 0.75rem; padding-top: 0.75rem; border-top: 1px solid var(--line); }
p { max-width: 42rem; margin: 0.75rem 0; white-space: pre-line; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.925rem; }
caption { caption-side: top; text-align: left; color: var(--faint); padding-bottom: 0.4rem; }
th, td { padding: 0.35rem 0.8rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { border-bottom-width: 2px; }
tbody th { font-weight: 500; }
tbody tr:nth-child(even) { background: var(--band); }
.number { text-align: right; font-variant-numeric: tabular-nums; }
th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid; }
[aria-sort] button::after { content: " \\25B2"; }
[aria-sort="descending"] button::after { content: " \\25BC"; }
a { color: inherit; }
figure { margin: 1rem 0; }
img { display: block; max-width: 100%; height: auto; border-radius: 0.4rem; }
figcaption { color: var(--faint); font-size: 0.9rem; margin-top: 0.4rem; }
@media print { section { break-inside: avoid-page; } }
"""
