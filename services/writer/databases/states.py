"""Each database's state: up, unreachable until its breaker allows a retry, or halted."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from services.writer.databases.diverted_index import DivertedIndex
from services.writer.postgres.database import Database
from shared.backoff import Backoff
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError


@dataclass(slots=True, kw_only=True)
class Health:
    """The driver's knowledge of one database."""

    up: bool = False
    halted: str | None = None
    #: Whether the halt is recorded in the database, in which an operator resolves it.
    recorded: bool = False
    #: The operator's decision about the missing events: refill or skip.
    resolution: str | None = None
    #: The reason of an outage.
    reason: str | None = None
    #: Waiting does not help: an operator must act.
    needs_operator: bool = False
    #: The time of the next attempt, or of the next reading of its halt.
    backoff: Backoff = field(default_factory=Backoff)

    def mark_up(self) -> None:
        """Mark the database as answering and claimed."""
        self.up, self.reason, self.needs_operator = True, None, False
        self.backoff.succeed()

    def mark_out(self, reason: str, *, needs_operator: bool = False) -> None:
        """Mark the database as failed; it is tried again after a growing backoff."""
        self.reason, self.needs_operator = reason, needs_operator
        self.up = False
        self.backoff.fail()


class DatabaseStates:
    """Answers from each database's health and the diverted-range index, without any request."""

    def __init__(self, configured: Sequence[Database], index: DivertedIndex) -> None:
        self._databases = {d.name: d for d in configured}
        self._health = {d.name: Health() for d in configured}
        self._index = index
        #: Databases that the registry names and the settings do not: their events are diverted.
        self.unconfigured: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """Return the names of all configured databases."""
        return list(self._databases)

    def landing(self) -> tuple[Database, ...]:
        """Return the databases that take the next batch: up, not halted, and without older waiting events.

        The model's rules `divert_behind` and `halt_diverts`.
        """
        return tuple(d for n, d in self._databases.items() if self.is_landing(n))

    def is_landing(self, name: str) -> bool:
        """Return whether the database takes the next batch."""
        return self._is_available(name) and not self._index.has_waiting(name)

    def up(self) -> list[Database]:
        """Return the databases that answer."""
        return [d for n, d in self._databases.items() if self._health[n].up]

    def untried(self) -> list[str]:
        """Return the databases without a known state: neither up, nor unreachable, nor halted."""
        return [n for n, h in self._health.items() if not (h.up or h.reason or h.halted)]

    def any_available(self) -> bool:
        """Return whether any database is up and not halted."""
        return any(self._is_available(n) for n in self._databases)

    def split(
        self, overrun: Collection[str] = (), planned: Collection[str] = ()
    ) -> tuple[tuple[Database, ...], tuple[str, ...]]:
        """Return the databases that take the next batch, and the names of those whose events are diverted.

        The databases in `overrun` are diverted although they are up: they take the batch in pieces, as
        they drain.  `planned`: the unconfigured databases of the routes that the batch was planned under.
        """
        landing = tuple(d for d in self.landing() if d.name not in overrun)
        others = self.with_unconfigured(planned)
        return landing, tuple(n for n in others if n not in {d.name for d in landing})

    def with_unconfigured(self, planned: Collection[str] = ()) -> list[str]:
        """Return the names of all configured databases, and of the others that routes name."""
        return list(dict.fromkeys([*self._databases, *sorted(self.unconfigured), *sorted(planned)]))

    def require_available(self) -> None:
        """Raise `InfrastructureError` when no database is up; then Kafka is the buffer."""
        if not self.any_available():
            reasons = "; ".join(h.halted or h.reason or f"{n} is out" for n, h in self._health.items())
            raise InfrastructureError(DATABASE_UNAVAILABLE, f"no database is up: {reasons}")

    def states(self) -> dict[str, str]:
        """Return the state of each database: landing, draining, out or halted."""
        return {n: self._state(n) for n in self._databases}

    def reasons(self) -> dict[str, str]:
        """Return the reason for each database that is unreachable or halted."""
        return {n: reason for n, h in self._health.items() if (reason := h.halted or h.reason)}

    def _state(self, name: str) -> str:
        health = self._health[name]
        if health.halted or health.needs_operator:
            return "halted"
        if not health.up:
            return "out"
        return "draining" if self._index.has_waiting(name) else "landing"

    def unknown(self) -> dict[str, int]:
        """Return the number of events that wait on Kafka for each database that is not configured."""
        names = sorted(self._index.databases() - self._databases.keys())
        return {n: events for n in names if (events := self._index.events(n))}

    def _is_available(self, name: str) -> bool:
        return self._health[name].up and not self._health[name].halted
