"""What is to be sent where, and how often it is tried."""

from dataclasses import dataclass
from pathlib import Path

from .spool import Spool


@dataclass(frozen=True, kw_only=True)
class Retries:
    """When a failed delivery is tried again: after `first_s`, then twice as long each time, up to `longest_s`.

    Args:
        attempts: How often in all; then the delivery counts as failed, until a person asks for more.
        first_s: Seconds before the second attempt.
        longest_s: Seconds at most between two attempts.
    """

    attempts: int = 40
    first_s: float = 10.0
    longest_s: float = 3600.0

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or self.attempts < 1:
            raise ValueError(f"attempts is a whole number of 1 or more, not {self.attempts!r}")
        for name in ("first_s", "longest_s"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value > 0:
                raise ValueError(f"{name} is a number of seconds above 0, not {value!r}")

    def wait_s(self, failures: int) -> float:
        """Seconds to wait after so many failures."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 60))


@dataclass(frozen=True)
class Delivery:
    """A file of a job and the name of its receiver."""

    job: str
    path: Path
    target: str
    failures: int


class Outbox:
    """Deliveries that wait, in the order in which they are due.

    Args:
        spool: Where the results lie.
        retries: When to try again.
    """

    def __init__(self, spool: Spool, retries: Retries | None = None) -> None:
        self.spool, self.index, self.retries = spool, spool.index, retries or Retries()

    def due(self, target: str, now: float) -> list[Delivery]:
        """What is to be sent to somebody now."""
        question = (
            "SELECT * FROM deliveries WHERE state = 'waiting' AND target = ? AND due <= ? ORDER BY due, job, file"
        )
        return [
            Delivery(row["job"], self.spool.results(row["job"]) / row["file"], row["target"], row["attempts"])
            for row in self.index.rows(question, target, now)
        ]

    def sent(self, delivery: Delivery) -> None:
        """The receiver has it."""
        self._set(delivery, "sent", None, 0.0)
        self.index.flush()

    def failed(self, delivery: Delivery, reason: str, now: float) -> bool:
        """The receiver does not have it; the reason must be fit for a log.

        Returns:
            Whether it will be tried again.
        """
        failures = delivery.failures + 1
        again = failures < self.retries.attempts
        self._set(delivery, "waiting" if again else "failed", reason, now + self.retries.wait_s(failures))
        return again

    def _set(self, delivery: Delivery, state: str, reason: str | None, due: float) -> None:
        with self.index.change() as db:
            db.execute(
                "UPDATE deliveries SET state = ?, reason = ?, due = ?, attempts = ?"
                " WHERE job = ? AND file = ? AND target = ?",
                (state, reason, due, delivery.failures + 1, delivery.job, delivery.path.name, delivery.target),
            )
