"""Checks of the tables of event types, from one reading for all pages: a table costs five queries."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from services.ops.operate.destinations_sql import Fact
from services.ops.registry.checks import Place, facts_of_tables, tables_of
from services.ops.registry.registry_reader import RegistryReader, RegistryReading

log = logging.getLogger(__name__)

#: A request begins a new reading after these seconds, and waits for it only after the second ones.
FRESH_SECONDS: Final = 15.0
MAX_SECONDS: Final = 60.0


class TableCheck(NamedTuple):
    """The facts of one table."""

    place: Place
    facts: tuple[Fact, ...]

    @property
    def holds(self) -> bool:
        """Return whether events can land there."""
        return all(fact.holds for fact in self.facts)

    @property
    def key(self) -> tuple[str, str, str]:
        """Return the position in the list: database, table and event type."""
        return self.place.database, f"{self.place.schema}.{self.place.table}", self.place.event_type


class TableChecks(NamedTuple):
    """The checks of all tables at one time, by their keys."""

    at: datetime
    tables: tuple[TableCheck, ...]


class CheckedTables:
    """The last checks; for many threads, of which one reads."""

    def __init__(self, desk: RegistryReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk = desk
        self._clock = clock
        self._reading = threading.Lock()
        self._last: tuple[str, float, TableChecks] | None = None

    def read(self) -> TableChecks:
        """Return the checks under the registry in force, which are at most a minute old.

        Raises `InfrastructureError` if the registry cannot be read.
        """
        registry = self._desk.read()
        if (found := self._recent(registry, MAX_SECONDS)) is None:
            with self._reading:
                found = self._recent(registry, FRESH_SECONDS) or self._read(registry)
        elif self._recent(registry, FRESH_SECONDS) is None and self._reading.acquire(blocking=False):
            threading.Thread(target=self._read_again, args=(registry,), name="checks", daemon=True).start()
        return found

    def _recent(self, registry: RegistryReading, seconds: float) -> TableChecks | None:
        """Return the last checks if they are of this registry, and not older than this."""
        if self._last is None:
            return None
        tag, at, found = self._last
        return found if tag == registry.tag and self._clock() - at < seconds else None

    def _read(self, registry: RegistryReading) -> TableChecks:
        at, began = datetime.now(UTC), self._clock()
        tables = [
            (place, event_type) for place, event_type, _ in tables_of(self._desk.places, registry.snapshot)
        ]
        checks = (TableCheck(p, tuple(facts)) for p, facts in facts_of_tables(self._desk.places, tables))
        found = TableChecks(at, tuple(sorted(checks, key=lambda each: each.key)))
        self._last = registry.tag, began, found
        return found

    def _read_again(self, registry: RegistryReading) -> None:
        try:
            self._read(registry)
        except Exception:
            log.exception("could not check the tables of event types")
        finally:
            self._reading.release()
