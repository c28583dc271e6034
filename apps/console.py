"""What a person sees while they wait: progress and notes on stderr, results on stdout."""

import io
import logging
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

UNFOLDED = 1000  # characters of a line that no terminal folds

ERRORS = Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """A line on stderr."""
    ERRORS.print(text, markup=False, soft_wrap=True)


def mute() -> None:
    """Let this process say nothing: another one speaks for it."""
    ERRORS.quiet = True
    warnings.simplefilter("ignore")
    sys.stdout = io.StringIO()


def show_warnings_as_lines() -> None:
    """Let each warning be one line on stderr, without the place in the code it came from."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        note(f"fredholm: warning: {message}")

    warnings.showwarning = show


def quieten_libraries() -> None:
    """Keep remarks of other packages about themselves from a user who can do nothing about them."""
    for category in (FutureWarning, DeprecationWarning):
        warnings.simplefilter("ignore", category)
    warnings.filterwarnings("ignore", module=r"(torch|monai|lightning_fabric)\b")
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)


@contextmanager
def bar(words: str, total: int | None = None) -> Iterator["Bar"]:
    """A progress bar on stderr while the block runs."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[more]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=ERRORS, transient=True) as progress:
        yield Bar(progress, progress.add_task(words, total=total, more=""))


class Bar:
    """One line of progress."""

    def __init__(self, progress: Progress, task) -> None:
        self.progress, self.task = progress, task

    def tick(self, words: str | None = None) -> None:
        """One more is done."""
        self.progress.advance(self.task)
        if words is not None:
            self.progress.update(self.task, more=words)

    def skip(self, count: int) -> None:
        """So many were done before."""
        self.progress.advance(self.task, count)

    def step(self, step: int, steps: int | None, loss: float) -> None:
        """Training got so far."""
        self.progress.update(self.task, completed=step, total=steps, more=f"loss {loss:.3f}")

    def note(self, text: str) -> None:
        """A line above the bar."""
        note(text)


def table(columns: Sequence[str], rows: Sequence[Sequence[str | float]]) -> str:
    """A table in plain text: the first column to the left, numbers to the right with three digits, NaN as a dash."""
    words = [[_word(cell) for cell in row] for row in rows]
    widths = [max(len(line[index]) for line in [list(columns), *words]) for index in range(len(columns))]
    return "\n".join(_line(line, widths) for line in [columns, ["-" * width for width in widths], *words])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([first.strip().ljust(widths[0]), *others]).rstrip()


def _word(cell: str | float) -> str:
    if isinstance(cell, str):
        return cell
    return "-" if math.isnan(cell) else f"{cell:.3f}"


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table with lines, on stdout: folded to a terminal, and as wide as it is elsewhere."""
    shown = Table(*columns, show_lines=True)
    for column in shown.columns:
        column.overflow = "fold"  # what is cut short, such as a UID, names nothing
    for row in rows:
        shown.add_row(*map(Text, row))
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else UNFOLDED).print(shown)


def result(text: str) -> None:
    """A result, on stdout."""
    sys.stdout.write(text + "\n")
