"""A database's state: up, out until its breaker lets it be tried again, or halted."""

from dataclasses import dataclass, field

from shared.backoff import Backoff


@dataclass(slots=True, kw_only=True)
class Health:
    """What the driver knows of one database."""

    up: bool = False
    halted: str | None = None
    #: Whether the halt is recorded in the database, where an operator resolves it.
    recorded: bool = False
    #: The operator's decision about what is missing: refill or skip.
    resolution: str | None = None
    #: Why it is out.
    reason: str | None = None
    #: Waiting does not help: an operator must act.
    needs_operator: bool = False
    #: When it is tried again, or its halt is looked at.
    backoff: Backoff = field(default_factory=Backoff)

    def mark_up(self) -> None:
        """It answers and is claimed."""
        self.up, self.reason, self.needs_operator = True, None, False
        self.backoff.succeed()

    def mark_out(self, reason: str, *, needs_operator: bool = False) -> None:
        """It failed: it is tried again after a growing backoff."""
        self.reason, self.needs_operator = reason, needs_operator
        self.up = False
        self.backoff.fail()
