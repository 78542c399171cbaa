"""Takes a reading of each database in each hour, until stopped, and removes old ones.

The first reading after midnight (UTC) ends one day and begins the next.  A database that does not answer is
tried again within its hour; the other databases' readings are stored meanwhile.
"""

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from services.admin.background_tasks import UntilStopped
from services.admin.store import readings_sql
from services.admin.store.control_sql import transaction
from services.ops.settled.reader import SettledReader
from services.ops.statement.collect import collect
from services.ops.statement.reading import DatabaseReading
from services.ops.statement.transforms import TransformsReading, reading_of
from services.ops.transforms.reader import TransformReader
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 60.0
#: Seconds that a reading may wait for a database, and for the writer to end a batch.
_SECONDS: Final = 30.0


class HourlyReadings(UntilStopped):
    """Reads the `databases` (DSN by name) hourly, into the control database at `dsn`."""

    def __init__(
        self,
        brokers: Brokers,
        dsn: str,
        databases: Mapping[str, str],
        *,
        days: int,
        settled: SettledReader | None = None,
        transforms: TransformReader | None = None,
    ) -> None:
        super().__init__()
        self._settled = settled or SettledReader()
        self._transforms = transforms
        self._brokers = brokers
        self._dsn = dsn
        self._databases = databases
        self._days = days

    async def _go_on(self) -> None:
        while self._days and not self.stopped:
            try:
                await self.read(datetime.now(UTC))
            except InfrastructureError as e:
                log.warning("the hourly reading failed; retrying", extra={"reason": e.detail})
            await self.pause(_POLL_SECONDS)

    async def read(self, now: datetime) -> None:
        """Store the readings that this hour lacks.  Raises `InfrastructureError` of the control database."""
        hour = now.replace(minute=0, second=0, microsecond=0)
        known = await asyncio.to_thread(self._stored, hour)
        if self._transforms is not None and readings_sql.TRANSFORMS not in known:
            await self._read_transforms(self._transforms, hour, now)
        due = {name: dsn for name, dsn in self._databases.items() if name not in known}
        if not due:
            return
        found = await collect(self._brokers, due, _SECONDS, self._settled)
        for part, reason in found.missing.items():
            log.warning("a part of the hourly reading is missing", extra={"part": part, "reason": reason})
        if "Kafka" not in found.missing:
            await asyncio.to_thread(self._store, hour, found.databases)

    async def _read_transforms(self, reader: TransformReader, hour: datetime, now: datetime) -> None:
        try:
            facts = await asyncio.to_thread(reader.read)
        except InfrastructureError as e:
            log.warning("the hourly reading of the transforms failed; retrying", extra={"reason": e.detail})
        else:
            reading = reading_of(facts, now)
            await asyncio.to_thread(self._store, hour, {readings_sql.TRANSFORMS: reading})

    def _stored(self, hour: datetime) -> set[str]:
        with transaction(self._dsn) as conn:
            return readings_sql.stored(conn, hour)

    def _store(self, hour: datetime, readings: Mapping[str, DatabaseReading | TransformsReading]) -> None:
        with transaction(self._dsn) as conn:
            readings_sql.add(conn, hour, readings)
            readings_sql.prune(conn, hour, self._days)
