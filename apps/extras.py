"""Packages that only some commands need."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import within the block what an extra brings.

    Raises:
        ValueError: It is not installed; the message has the line that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "fredholm":
            raise
        raise ValueError(f"this command needs {error.name}: pip install 'fredholm[{name}]'") from None
