"""How a cloud is walked through."""

from collections.abc import Iterator


def slices(length: int, size: int) -> Iterator[slice]:
    """Parts of `size` that make up `length`; the last may be shorter."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))
