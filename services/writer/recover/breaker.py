"""How a database is: up, out until it is asked again, or halted until a person resolves it."""

import time
from dataclasses import dataclass

from services.writer.model.backoff import backoff_seconds


@dataclass(slots=True)
class Health:
    """What the driver knows of one database."""

    up: bool = False
    halted: str | None = None
    #: The halt is noted in the database, where a person resolves it.
    noted: bool = False
    #: What a person wants done about what is missing: replay or skip.
    resolution: str | None = None
    #: Why it is out.
    reason: str | None = None
    #: Patience alone does not help.
    needs_operator: bool = False
    failures: int = 0
    again_at: float = 0.0

    def is_up(self) -> None:
        """It answers, and is claimed."""
        self.up, self.failures, self.reason, self.needs_operator = True, 0, None, False

    def is_out(self, reason: str, *, needs_operator: bool = False) -> None:
        """It failed: it is asked again after a growing pause (its breaker)."""
        self.reason, self.needs_operator = reason, needs_operator
        self.up, self.again_at = False, time.monotonic() + backoff_seconds(self.failures)
        self.failures += 1
