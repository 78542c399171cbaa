"""Takes a reading of each database in each hour, until stopped, and removes old ones.

The first reading after midnight (UTC) ends one day and begins the next.  A database that does not answer is
tried again within its hour; the other databases' readings are stored meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from services.admin.background_tasks import UntilStopped
from services.admin.store import readings_sql
from services.admin.store.control_sql import transaction
from services.ops.lake.landed_offsets import LandedOffsetsReader
from services.ops.settled.reader import SettledReader
from services.ops.statement import lake as lake_readings
from services.ops.statement import transforms as transform_readings
from services.ops.statement.collect import collect
from services.ops.statement.reading import StoredReading
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
        lake: LandedOffsetsReader | None = None,
    ) -> None:
        super().__init__()
        self._settled = settled or SettledReader()
        self._transforms = transforms
        self._lake = lake
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
        for name, read in self._parts(now).items():
            if name not in known:
                await self._read_part(name, read, hour)
        due = {name: dsn for name, dsn in self._databases.items() if name not in known}
        if not due:
            return
        found = await collect(self._brokers, due, _SECONDS, self._settled)
        for part, reason in found.missing.items():
            log.warning("a part of the hourly reading is missing", extra={"part": part, "reason": reason})
        if "Kafka" not in found.missing:
            await asyncio.to_thread(self._store, hour, found.databases)

    def _parts(self, now: datetime) -> dict[str, Callable[[], StoredReading]]:
        """Return a function for each reading that is none of a database."""
        parts: dict[str, Callable[[], StoredReading]] = {}
        if (transforms := self._transforms) is not None:
            parts[readings_sql.TRANSFORMS] = lambda: transform_readings.reading_of(transforms.read(), now)
        if (lake := self._lake) is not None:
            parts[readings_sql.LAKE] = lambda: lake_readings.reading_of(lake.read(), now)
        return parts

    async def _read_part(self, name: str, read: Callable[[], StoredReading], hour: datetime) -> None:
        try:
            reading = await asyncio.to_thread(read)
        except InfrastructureError as e:
            log.warning(
                "a part of the hourly reading is missing; retrying", extra={"part": name, "reason": e.detail}
            )
        else:
            await asyncio.to_thread(self._store, hour, {name: reading})

    def _stored(self, hour: datetime) -> set[str]:
        with transaction(self._dsn) as conn:
            return readings_sql.stored(conn, hour)

    def _store(self, hour: datetime, readings: Mapping[str, StoredReading]) -> None:
        with transaction(self._dsn) as conn:
            readings_sql.add(conn, hour, readings)
            readings_sql.prune(conn, hour, self._days)
