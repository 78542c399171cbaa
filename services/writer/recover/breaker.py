"""A database's state: up, out until its breaker lets it be tried again, or halted."""

import time
from dataclasses import dataclass

from services.writer.model.backoff import backoff_seconds


@dataclass(slots=True)
class Health:
    """What the driver knows of one database."""

    up: bool = False
    halted: str | None = None
    #: Whether the halt is recorded in the database, where an operator resolves it.
    recorded: bool = False
    #: The operator's decision about what is missing: replay or skip.
    resolution: str | None = None
    #: Why it is out.
    reason: str | None = None
    #: Waiting does not help: an operator must act.
    needs_operator: bool = False
    failures: int = 0
    again_at: float = 0.0

    def mark_up(self) -> None:
        """It answers and is claimed."""
        self.up, self.failures, self.reason, self.needs_operator = True, 0, None, False

    def mark_out(self, reason: str, *, needs_operator: bool = False) -> None:
        """It failed: it is tried again after a growing backoff."""
        self.reason, self.needs_operator = reason, needs_operator
        self.up, self.again_at = False, time.monotonic() + backoff_seconds(self.failures)
        self.failures += 1
