"""The states of a gateway for people and monitors: as text, JSON, Prometheus text, and a small page on this machine."""

import json
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ...pipelines.gateway.states import SeriesState, Snapshot
from ..report import Section, Table, page

COLUMNS = ("series", "state", "objects", "MB", "last object", "why")
MOST_ROWS = 500
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

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
    series = Table(COLUMNS, rows(found)[:MOST_ROWS]) if found.series else "No series is kept."
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


class StatusPage:
    """Serves the states on this machine alone.

    Args:
        port: TCP port; 0 for any that is free.
        look: Gives the states.
        counts: Gives the numbers since the start.
    """

    def __init__(self, port: int, look: Callable[[], Snapshot], counts: Callable[[], Counts]) -> None:
        answers = {
            "/": ("text/html; charset=utf-8", lambda: as_html(look())),
            "/status.json": ("application/json", lambda: as_json(look())),
            "/metrics": ("text/plain; version=0.0.4; charset=utf-8", lambda: as_prometheus(look(), counts())),
        }
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(answers))
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


def _handler(answers: Mapping[str, tuple[str, Callable[[], str]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        server_version, sys_version = "fredholm", ""

        def do_GET(self) -> None:
            port = self.connection.getsockname()[1]
            # A page from elsewhere, whose host was made to point here, must not read this one.
            if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
                self._answer(403, "text/plain", "this page is served as localhost only\n")
            elif self.path not in answers:
                self._answer(404, "text/plain", f"there are {', '.join(answers)}\n")
            else:
                kind, words = answers[self.path]
                self._answer(200, kind, words())

        def _answer(self, code: int, kind: str, words: str) -> None:
            body = words.encode()
            self.send_response(code)
            headers = {
                "Content-Type": kind,
                "Content-Length": str(len(body)),
                "Content-Security-Policy": POLICY,
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "no-store",
                "Refresh": "10",
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep visits out of the log."""

    return Handler
