"""Work that is done wholly or not at all, whatever the keyboard says."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off Ctrl-C and a polite kill until the block is done; other errors leave it as they come.

    Outside the main thread, where no signal arrives, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    earlier = {number: signal.signal(number, lambda number, _: waiting.append(number)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        for number in waiting[:1]:
            signal.raise_signal(number)
