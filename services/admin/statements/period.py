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
from services.ops.statement.transforms import TransformsReading, lines_of, reading_of
from services.ops.transforms.reader import TransformFacts, TransformReader
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

#: Seconds for all databases and Kafka; a part that takes longer is named as not evaluated.
_SECONDS: Final = 1.6
#: The part of a statement that transforms are.
_TRANSFORMS: Final = "the transforms"


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements of the `databases` (DSN by name), with the control database at `dsn`."""

    brokers: Brokers
    dsn: str
    databases: Mapping[str, str]
    #: The reader of the writer's log that the service's parts share.
    settled: SettledReader = field(default_factory=SettledReader)
    #: None: a statement without transforms.
    transforms: TransformReader | None = None

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
        facts = asyncio.create_task(self._facts(is_live=is_live))
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
        await self._add_transforms(out, await facts, (since, None if is_live else until), shows)
        out.in_flight = {topic: n for topic, n in live.in_flight.items() if shows(topic)}
        try:
            out.parked_states = await asyncio.to_thread(self._states, out)
        except InfrastructureError as e:
            out.unevaluated["parked events"] = e.detail
        return out

    async def _facts(self, *, is_live: bool) -> TransformFacts | str | None:
        """Return the transforms as they are now, or why they are not known; None without a live reading."""
        if self.transforms is None or not is_live:
            return None
        try:
            async with asyncio.timeout(_SECONDS):
                return await asyncio.to_thread(self.transforms.read)
        except InfrastructureError as e:
            return e.detail
        except TimeoutError:
            return f"no answer in {_SECONDS:g} s"

    async def _add_transforms(
        self,
        out: Statement,
        facts: TransformFacts | str | None,
        period: tuple[datetime | None, datetime | None],
        shows: Callable[[str], bool],
    ) -> None:
        """Add the lines of the transforms; the end of `period` is None for the facts of now."""
        if isinstance(facts, str):
            out.unevaluated[_TRANSFORMS] = facts
            return
        since, until = period
        first, last = await asyncio.to_thread(self._stored_transforms, since, until)
        if facts is not None:
            last = reading_of(facts, datetime.now(UTC))
        if last is None or not last.partitions:
            return
        if since is not None and (first is None or first.at >= last.at):
            out.unevaluated[_TRANSFORMS] = "no reading from the start of the period is stored"
            return
        try:
            out.transforms = [*lines_of(first, last, shows, is_live=facts is not None)]
        except ValueError as e:
            out.unevaluated[_TRANSFORMS] = str(e)
        out.differences += [line.difference for line in out.transforms if not line.adds_up]

    def _stored_transforms(
        self, since: datetime | None, until: datetime | None
    ) -> tuple[TransformsReading | None, TransformsReading | None]:
        if self.transforms is None:
            return None, None
        with transaction(self.dsn) as conn:
            return (
                readings_sql.nearest_of_transforms(conn, since) if since else None,
                readings_sql.nearest_of_transforms(conn, until) if until else None,
            )

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
