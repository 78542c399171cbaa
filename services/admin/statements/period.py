"""The statement of a period: stored readings, a live one if the period has not ended, and parked events."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeVar

from services.admin.store import readings_sql
from services.admin.store.control_sql import transaction
from services.ops.lake.landed_offsets import LandedOffsetsReader
from services.ops.settled.reader import SettledReader
from services.ops.statement.balance import Period, Statement, statement
from services.ops.statement.collect import Collected, collect
from services.ops.statement.lake import LakeTablesReading
from services.ops.statement.lake import lines_of as lake_lines
from services.ops.statement.lake import reading_of as lake_reading
from services.ops.statement.lake_comparison import compare
from services.ops.statement.reading import DatabaseReading, StoredReading
from services.ops.statement.transforms import TransformsReading
from services.ops.statement.transforms import lines_of as transform_lines
from services.ops.statement.transforms import reading_of as transform_reading
from services.ops.transforms.reader import TransformReader
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers
from shared.registry.entries import EMPTY, Snapshot

#: Seconds for all databases and Kafka; a part that takes longer is named as not evaluated.
_SECONDS: Final = 1.6
R = TypeVar("R", TransformsReading, LakeTablesReading)
S = TypeVar("S", bound=StoredReading)
#: The start of a period, and its end; None: from the first event on, and up to now.
_Times = tuple[datetime | None, datetime | None]


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements of the `databases` (DSN by name), with the control database at `dsn`."""

    brokers: Brokers
    dsn: str
    databases: Mapping[str, str]
    #: The reader of the writer's log that the service's parts share.
    settled: SettledReader = field(default_factory=SettledReader)
    #: None: a statement without transforms, or without the lake.
    transforms: TransformReader | None = None
    lake: LandedOffsetsReader | None = None
    #: Returns the registry in force, which says which type a table of the lake has.
    registry: Callable[[], Snapshot | None] = lambda: None

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
        transforms = asyncio.create_task(_live(self._transforms_now, is_live=is_live))
        lake = asyncio.create_task(_live(self._lake_now, is_live=is_live))
        live = Collected()
        if is_live:
            live = await collect(self.brokers, self.databases, _SECONDS, self.settled)
        period = since, None if is_live else until
        stored = await asyncio.to_thread(self._stored, self.databases, DatabaseReading, period)
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
        if self.transforms is not None:
            await self._add_transforms(out, await transforms, period, shows)
        if self.lake is not None:
            await self._add_lake(out, await lake, period, shows)
        out.in_flight = {topic: n for topic, n in live.in_flight.items() if shows(topic)}
        try:
            out.parked_states = await asyncio.to_thread(self._states, out)
        except InfrastructureError as e:
            out.unevaluated["parked events"] = e.detail
        return out

    def _transforms_now(self) -> TransformsReading | None:
        if self.transforms is None:
            return None
        return transform_reading(self.transforms.read(), datetime.now(UTC))

    def _lake_now(self) -> LakeTablesReading | None:
        return None if self.lake is None else lake_reading(self.lake.read(), datetime.now(UTC))

    async def _add_transforms(
        self,
        out: Statement,
        live: TransformsReading | str | None,
        period: _Times,
        shows: Callable[[str], bool],
    ) -> None:
        """Add the lines of the transforms."""
        part = readings_sql.TRANSFORMS
        pair = await self._pair(out, part, live, TransformsReading, period)
        if pair is None:
            return
        try:
            out.transforms = [*transform_lines(*pair, shows, is_live=live is not None)]
        except ValueError as e:
            out.unevaluated[part] = str(e)
        out.differences += [line.difference for line in out.transforms if not line.adds_up]

    async def _add_lake(
        self,
        out: Statement,
        live: LakeTablesReading | str | None,
        period: _Times,
        shows: Callable[[str], bool],
    ) -> None:
        """Add the lines of the lake's tables, compared with those of the databases."""
        part = readings_sql.LAKE
        pair = await self._pair(out, part, live, LakeTablesReading, period)
        if pair is None:
            return
        types = (self.registry() or EMPTY).lake_tables(is_all=False)
        try:
            out.lake = [
                *lake_lines(*pair, shows, lambda name: types.get(name, name), is_live=live is not None)
            ]
        except ValueError as e:
            out.unevaluated[part] = str(e)
        for line in out.lake:
            compare(line, out.lines)
        out.differences += [line.difference for line in out.lake if not line.adds_up]

    async def _pair(
        self,
        out: Statement,
        part: str,
        live: R | str | None,
        kind: type[R],
        period: _Times,
    ) -> tuple[R | None, R] | None:
        """Return the readings of a part at the start and at the end of a period; None without the latter.

        `live`: the reading of now, or why there is none.
        """
        if isinstance(live, str):
            out.unevaluated[part] = live
            return None
        first, last = (await asyncio.to_thread(self._stored, [part], kind, period))[part]
        last = last if live is None else live
        if last is None or not last.partitions:
            return None
        if period[0] is not None and (first is None or first.at >= last.at):
            out.unevaluated[part] = "no reading from the start of the period is stored"
            return None
        return first, last

    def _stored(
        self, names: Iterable[str], kind: type[S], period: _Times
    ) -> dict[str, tuple[S | None, S | None]]:
        since, until = period
        with transaction(self.dsn) as conn:
            return {
                name: (
                    readings_sql.nearest(conn, name, kind, since) if since else None,
                    readings_sql.nearest(conn, name, kind, until) if until else None,
                )
                for name in names
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


async def _live(read: Callable[[], R | None], *, is_live: bool) -> R | str | None:
    """Return the reading of now, or why there is none; None for a period that has ended."""
    if not is_live:
        return None
    try:
        async with asyncio.timeout(_SECONDS):
            return await asyncio.to_thread(read)
    except InfrastructureError as e:
        return e.detail
    except TimeoutError:
        return f"no answer in {_SECONDS:g} s"
