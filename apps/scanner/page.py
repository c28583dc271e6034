"""The states of a gateway for people and monitors: as text, JSON, Prometheus text, and a small page on this machine."""

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ...pipelines.gateway.states import SeriesState, Snapshot
from ..report import Link, Section, Table, page

COLUMNS = ("series", "state", "objects", "MB", "last object", "why")
VIEWS = {"view": "view.html", "slices": "view_sheet.html"}  # more columns of the page, and what they lead to
MOST_ROWS = 500
HTML = "text/html; charset=utf-8"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
OURS = {"Content-Security-Policy": POLICY, "Refresh": "10"}  # a view has a policy of its own within it

Counts = Mapping[str, Mapping[str, int]]
"""Numbers since the start: of which kind, of which outcome."""


def as_json(found: Snapshot) -> str:
    """For programs."""
    return json.dumps(found.plain(), indent=2)


def as_prometheus(found: Snapshot, counts: Counts) -> str:
    """For a monitor."""
    lines = ["# TYPE fredholm_gateway_series gauge"]
    lines += [f'fredholm_gateway_series{{state="{state}"}} {number}' for state, number in found.counts().items()]
    lines += ["# TYPE fredholm_gateway_free_bytes gauge", f"fredholm_gateway_free_bytes {found.free_bytes}"]
    for kind, outcomes in counts.items():
        name = f"fredholm_gateway_{kind}_total"
        lines.append(f"# TYPE {name} counter")
        lines += [f'{name}{{outcome="{outcome}"}} {number}' for outcome, number in sorted(outcomes.items())]
    return "\n".join(lines) + "\n"


def as_html(found: Snapshot) -> str:
    """For people."""
    counts = Table(["state", "series"], [[state, number] for state, number in found.counts().items()])
    room = f"{found.free_bytes / 1e9:.1f} GB are free on the disk."
    latest = found.series[:MOST_ROWS]
    table = Table((*COLUMNS[:2], *VIEWS, *COLUMNS[2:]), [_row_with_links(one) for one in latest])
    series = table if latest else "No series is kept."
    return page("Gateway", [Section("States", [counts, room]), Section("Series, the latest first", [series])])


def rows(found: Snapshot) -> list[list[str]]:
    """The series as rows of `COLUMNS`."""
    return [_row(one) for one in found.series]


def _row(one: SeriesState) -> list[str]:
    when = datetime.fromtimestamp(one.arrived).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    why = [one.reason] if one.reason else []
    why += [f"{one.failures} failed attempts to send"] if one.failures else []
    why += [f"{one.conflicts} objects came again with other bytes"] if one.conflicts else []
    return [one.uid, one.state, str(one.objects), f"{one.bytes / 1e6:.1f}", when, "; ".join(why)]


def _row_with_links(one: SeriesState) -> list[Link | str]:
    row, there = _row(one), {path.name for path in one.pages}
    links = [Link(words, f"series/{one.uid}/{name}") if name in there else "" for words, name in VIEWS.items()]
    return [*row[:2], *links, *row[2:]]


def read_view(found: Snapshot, path: str) -> str | None:
    """The view that stands at this path of the status page, unless it was just deleted."""
    views = {f"/series/{one.uid}/{file.name}": file for one in found.series for file in one.pages}
    with contextlib.suppress(KeyError, FileNotFoundError):
        return views[path].read_text("utf-8")


class StatusPage:
    """Serves the states, and views of what was labelled, on this machine alone.

    Args:
        port: TCP port; 0 for any that is free.
        look: Gives the states.
        counts: Gives the numbers since the start.
    """

    def __init__(self, port: int, look: Callable[[], Snapshot], counts: Callable[[], Counts]) -> None:
        answers = {
            "/": (HTML, lambda: as_html(look())),
            "/status.json": ("application/json", lambda: as_json(look())),
            "/metrics": ("text/plain; version=0.0.4; charset=utf-8", lambda: as_prometheus(look(), counts())),
        }
        try:
            self._server = ThreadingHTTPServer(
                ("127.0.0.1", port), _handler(answers, lambda path: read_view(look(), path))
            )
        except OSError as error:
            raise OSError(f"cannot show the status page on port {port}: {error.strerror}") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="page", daemon=True)

    @property
    def port(self) -> int:
        """The TCP port."""
        return self._server.server_address[1]

    def start(self) -> None:
        """Serve, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()


def _handler(
    answers: Mapping[str, tuple[str, Callable[[], str]]], view: Callable[[str], str | None]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        server_version, sys_version = "fredholm", ""

        def do_GET(self) -> None:
            port = self.connection.getsockname()[1]
            # A page from elsewhere, whose host was made to point here, must not read this one.
            if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
                self._answer(403, "text/plain", "this page is served as localhost only\n")
            elif self.path in answers:
                kind, words = answers[self.path]
                self._answer(200, kind, words(), OURS)
            elif words := view(self.path):
                self._answer(200, HTML, words)
            else:
                self._answer(404, "text/plain", f"there are {', '.join(answers)}\n")

        def _answer(self, code: int, kind: str, words: str, more: Mapping[str, str] = {}) -> None:
            body = words.encode()
            self.send_response(code)
            headers = {
                "Content-Type": kind,
                "Content-Length": str(len(body)),
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "no-store",
                **more,
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep visits out of the log."""

    return Handler
