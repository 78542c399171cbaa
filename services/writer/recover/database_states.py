"""The state of each database, and what a batch may do with it."""

from collections.abc import Collection, Sequence

from services.writer.postgres.database import Database
from services.writer.recover.diverted_index import DivertedIndex
from services.writer.recover.health import Health
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError


class DatabaseStates:
    """Answers from each database's health and the diverted-range index, without any request."""

    def __init__(self, configured: Sequence[Database], index: DivertedIndex) -> None:
        self._databases = {d.name: d for d in configured}
        self._health = {d.name: Health() for d in configured}
        self._index = index

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

    def split(self, overrun: Collection[str] = ()) -> tuple[tuple[Database, ...], tuple[str, ...]]:
        """Return who takes the next batch, and the names of those whose events of it are diverted to Kafka.

        Those of `overrun` are diverted although they are up: they take it in pieces, as they drain.
        """
        landing = tuple(d for d in self.landing() if d.name not in overrun)
        return landing, tuple(n for n in self._databases if n not in {d.name for d in landing})

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
