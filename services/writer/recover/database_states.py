"""How each database is now, and what a batch may do with it."""

from collections.abc import Sequence

from services.writer.postgres.database import Database
from services.writer.recover.breaker import Health
from services.writer.recover.diverted_index import DivertedIndex
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError


class DatabaseStates:
    """Answers without asking anybody: from each database's health and from what waits for it."""

    def __init__(self, configured: Sequence[Database], index: DivertedIndex) -> None:
        self._all = {d.name: d for d in configured}
        self._health = {d.name: Health() for d in configured}
        self._index = index

    @property
    def names(self) -> list[str]:
        """The names of all configured databases."""
        return list(self._all)

    def landing(self) -> tuple[Database, ...]:
        """Databases that take the next batch: up, not halted, and nothing older waits."""
        return tuple(d for n, d in self._all.items() if self._can(n) and not self._index.waits(n))

    def up(self) -> list[Database]:
        """Databases that answer."""
        return [d for n, d in self._all.items() if self._health[n].up]

    def any_available(self) -> bool:
        """Whether a batch could land anywhere."""
        return any(self._can(n) for n in self._all)

    def diverted(self) -> tuple[str, ...]:
        """Databases whose events of the next batch wait on Kafka."""
        landing = {d.name for d in self.landing()}
        return tuple(n for n in self._all if n not in landing)

    def require_available(self) -> None:
        """With no database up nothing is diverted: Kafka is the buffer.  Raises `InfrastructureError`."""
        if not self.any_available():
            reasons = "; ".join(h.halted or h.reason or f"{n} is out" for n, h in self._health.items())
            raise InfrastructureError(DATABASE_UNAVAILABLE, f"no database is up: {reasons}")

    def states(self) -> dict[str, str]:
        """What to tell of each database: landing, draining, out or halted."""
        return {n: self._state(n) for n in self._all}

    def reasons(self) -> dict[str, str]:
        """Why databases are out or halted."""
        return {n: why for n, h in self._health.items() if (why := h.halted or h.reason)}

    def _state(self, name: str) -> str:
        health = self._health[name]
        if health.halted or health.needs_operator:
            return "halted"
        if not health.up:
            return "out"
        return "draining" if self._index.waits(name) else "landing"

    def unknown(self) -> dict[str, int]:
        """How many events wait on Kafka for databases that are not configured, which no one can drain."""
        names = sorted(self._index.databases() - self._all.keys())
        return {n: events for n in names if (events := self._index.events(n))}

    def _can(self, name: str) -> bool:
        return self._health[name].up and not self._health[name].halted
