"""The statement of a period: stored readings, a live one if the period has not ended, and parked events."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from services.admin.store import readings_sql
from services.admin.store.control_sql import transaction
from services.ops.settled.reader import SettledReader
from services.ops.statement.balance import Period, Statement, statement
from services.ops.statement.collect import Collected, collect
from services.ops.statement.reading import DatabaseReading
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

#: Seconds for all databases and Kafka; a part that takes longer is named as not evaluated.
_SECONDS: Final = 1.6


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements of the `databases` (DSN by name), with the control database at `dsn`."""

    brokers: Brokers
    dsn: str
    databases: Mapping[str, str]
    #: The reader of the writer's log that the service's parts share.
    settled: SettledReader = field(default_factory=SettledReader)

    async def of(
        self,
        since: datetime | None,
        until: datetime | None,
        shows: Callable[[str], bool],
        now: datetime | None = None,
    ) -> Statement:
        """Return the statement; without `since` from the first event on, without `until` to now.

        Raises `InfrastructureError` if the control database does not answer.
        """
        is_live = until is None or until >= (now or datetime.now(UTC))
        live = Collected()
        if is_live:
            live = await collect(self.brokers, self.databases, _SECONDS, self.settled)
        stored = await asyncio.to_thread(self._stored, since, None if is_live else until)
        missing = dict(live.missing)
        periods = {}
        for name in self.databases:
            first, last = stored[name]
            last = live.databases.get(name) if is_live else last
            if last is None:
                missing.setdefault(name, "no reading of this database is stored")
            elif first is not None and first.at >= last.at:
                missing[name] = f"its only reading of the period is of {last.at.isoformat()}"
            else:
                periods[name] = Period(first, last)
        out = statement(periods, shows=shows, missing=missing, retired=live.retired)
        out.in_flight = {topic: n for topic, n in live.in_flight.items() if shows(topic)}
        try:
            out.parked_states = await asyncio.to_thread(self._states, out)
        except InfrastructureError as e:
            out.unevaluated["parked events"] = e.detail
        return out

    def _stored(
        self, since: datetime | None, until: datetime | None
    ) -> dict[str, tuple[DatabaseReading | None, DatabaseReading | None]]:
        with transaction(self.dsn) as conn:
            return {
                name: (
                    readings_sql.nearest(conn, name, since) if since else None,
                    readings_sql.nearest(conn, name, until) if until else None,
                )
                for name in self.databases
            }

    def _states(self, out: Statement) -> dict[tuple[str, str], dict[str, int]]:
        offsets = {
            (topic_id, line.topic, partition, max(first, 0), upto)
            for line in out.lines
            if any(each.outcomes.get("parked") for each in line.destinations) or line.unroutable
            for topic_id, partition, first, upto in line.offsets
        }
        with transaction(self.dsn) as conn, conn.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 1500")
            return readings_sql.states(conn, sorted(offsets))
