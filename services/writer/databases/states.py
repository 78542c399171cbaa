"""Each database's state: up, out until its breaker lets it be tried again, or halted; what it may take."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from services.writer.databases.diverted_index import DivertedIndex
from services.writer.postgres.database import Database
from shared.backoff import Backoff
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError


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
        """The names of all configured databases."""
        return list(self._databases)

    def landing(self) -> tuple[Database, ...]:
        """Return the databases that take the next batch: up, not halted, and nothing older waits.

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
        """Return the databases of which nothing is known yet: neither up, nor out, nor halted."""
        return [n for n, h in self._health.items() if not (h.up or h.reason or h.halted)]

    def any_available(self) -> bool:
        """Return whether any database is up and not halted."""
        return any(self._is_available(n) for n in self._databases)

    def split(
        self, overrun: Collection[str] = (), planned: Collection[str] = ()
    ) -> tuple[tuple[Database, ...], tuple[str, ...]]:
        """Return who takes the next batch, and the names of those whose events of it are diverted to Kafka.

        Those of `overrun` are diverted although they are up: they take it in pieces, as they drain.
        `planned`: the unconfigured databases of the routes that the batch was planned under.
        """
        landing = tuple(d for d in self.landing() if d.name not in overrun)
        others = self.with_unconfigured(planned)
        return landing, tuple(n for n in others if n not in {d.name for d in landing})

    def with_unconfigured(self, planned: Collection[str] = ()) -> list[str]:
        """Return the names of all configured databases, and of those that routes name beside them."""
        return list(dict.fromkeys([*self._databases, *sorted(self.unconfigured), *sorted(planned)]))

    def require_available(self) -> None:
        """Raise `InfrastructureError` when no database is up: Kafka is the buffer then."""
        if not self.any_available():
            reasons = "; ".join(h.halted or h.reason or f"{n} is out" for n, h in self._health.items())
            raise InfrastructureError(DATABASE_UNAVAILABLE, f"no database is up: {reasons}")

    def states(self) -> dict[str, str]:
        """Return the state of each database: landing, draining, out or halted."""
        return {n: self._state(n) for n in self._databases}

    def reasons(self) -> dict[str, str]:
        """Return why databases are out or halted."""
        return {n: reason for n, h in self._health.items() if (reason := h.halted or h.reason)}

    def _state(self, name: str) -> str:
        health = self._health[name]
        if health.halted or health.needs_operator:
            return "halted"
        if not health.up:
            return "out"
        return "draining" if self._index.has_waiting(name) else "landing"

    def unknown(self) -> dict[str, int]:
        """Return how many events wait on Kafka for each database that is not configured."""
        names = sorted(self._index.databases() - self._databases.keys())
        return {n: events for n in names if (events := self._index.events(n))}

    def _is_available(self, name: str) -> bool:
        return self._health[name].up and not self._health[name].halted
