"""Reads the figures of gateways and writers every five seconds, and builds what pages render from."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec

from services.admin.background_tasks import UntilStopped
from services.admin.figures.addresses import Addresses
from services.admin.figures.growth import (
    ACCEPTED,
    DATABASE,
    DUPLICATE,
    LANDED,
    PARKED,
    REJECTED,
    GatewayGrowth,
    WriterGrowth,
)
from services.admin.figures.hour import STEP_SECONDS, Hour
from services.admin.figures.http_get import Address, read_page
from services.admin.figures.parts import PartStates
from services.admin.figures.reading import DatabaseFigures, Reading, TypeFigures
from services.admin.figures.settings import FiguresSettings
from services.admin.figures.totals_watch import TotalsWatch
from services.ops.operate.holds_sql import Hold
from services.ops.settled.reader import SettledReader
from shared.figures import GatewayFigures, Spread, WriterFigures, landing_writer
from shared.kafka_security import Brokers

#: Maximum seconds that a service has to answer.
PATIENCE_SECONDS: Final = 2.0
#: Steps over which a percentile is computed.
_PERCENTILE_STEPS: Final = 12
Figures = TypeVar("Figures", GatewayFigures, WriterFigures)


class FiguresWatch(UntilStopped):
    """Reads until stopped; `reading` is the last one, which nothing changes afterwards."""

    def __init__(
        self,
        settings: FiguresSettings,
        brokers: Brokers,
        dsn: str,
        databases: Mapping[str, str],
        settled: SettledReader,
    ) -> None:
        super().__init__()
        #: The first gateway, as a command of a page names it.
        self.gateway = next(iter(settings.gateways()), "http://127.0.0.1:8080")
        self._gateways = Addresses(settings.gateways())
        self._writers = Addresses(settings.writers())
        self._parts = PartStates()
        self.totals = TotalsWatch(brokers, dsn, databases, self._waiting_kafka, self._parts, settled=settled)
        self._hour = Hour()
        self._of_gateways, self._of_writers = GatewayGrowth(), WriterGrowth()
        self._writer: WriterFigures | None = None
        self._request_seconds = deque[Spread](maxlen=_PERCENTILE_STEPS)
        self._commit_seconds = deque[Spread](maxlen=_PERCENTILE_STEPS)
        self._since = datetime.now(UTC)
        self.reading = Reading(at=self._since, since=self._since)

    def stop(self) -> None:
        """Request an end after the current step."""
        super().stop()
        self.totals.stop()

    async def _go_on(self) -> None:
        """Read until stopped."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.totals.run())
            while not self.stopped:
                await self.read()
                await self.pause(STEP_SECONDS - time.monotonic() % STEP_SECONDS)

    async def read(self) -> None:
        """Read all services once, and build the reading."""
        gateways, writers = await asyncio.gather(
            self._answers("gateway", self._gateways, GatewayFigures),
            self._answers("writer", self._writers, WriterFigures),
        )
        now = time.monotonic()
        self._hour.advance(int(now / STEP_SECONDS))
        growth, spread = self._of_gateways.add(gateways, now)
        for counts, steps in growth:
            self._hour.add("gateway", counts, steps)
        self._request_seconds.append(spread)
        self._writer = landing_writer(writers)
        if self._writer is not None:
            growth, spread = self._of_writers.add(self._writer, now)
            for counts, steps in growth:
                self._hour.add("writer", counts, steps)
            self._commit_seconds.append(spread)
        self.reading = self._built()

    async def _waiting_kafka(self) -> Mapping[str, int] | None:
        """Return the events that wait on Kafka as of now: the totals are compared with them."""
        answers = await asyncio.gather(
            *(_read_one(each, WriterFigures) for each in await self._writers.current())
        )
        writer = landing_writer(each for each in answers if not isinstance(each, str))
        if writer is None:
            return None
        return {name: each.waiting_kafka for name, each in writer.databases.items()}

    async def _answers(self, kind: str, addresses: Addresses, of: type[Figures]) -> list[Figures]:
        """Return the figures of all services of a kind that answer, and name the others."""
        current = await addresses.current()
        answers = await asyncio.gather(*(_read_one(address, of) for address in current))
        reasons = [
            (_name(kind, address, current), each if isinstance(each, str) else "")
            for address, each in zip(current, answers, strict=True)
        ]
        reasons += [(f"{kind} {url}", reason) for url, reason in addresses.unresolved.items()]
        self._parts.update(kind, reasons)
        return [each for each in answers if not isinstance(each, str)]

    def _built(self) -> Reading:
        hour, locations, writer = self._hour, self.totals.locations, self._writer
        return Reading(
            at=datetime.now(UTC),
            since=self._since,
            accepted=hour.rate("gateway", (ACCEPTED, "")),
            rejected=hour.rate("gateway", (REJECTED, "")),
            landed=hour.rate("writer", (LANDED, "")),
            duplicates=hour.rate("writer", (DUPLICATE, "")),
            parked=hour.rate("writer", (PARKED, "")),
            accepted_line=hour.line("gateway", (ACCEPTED, "")),
            landed_line=hour.line("writer", (LANDED, "")),
            parked_line=hour.line("writer", (PARKED, "")),
            commit_p99=_summed(self._commit_seconds).p99(),
            request_p99=_summed(self._request_seconds).p99(),
            writer_state="" if writer is None else writer.state,
            writer_reason="" if writer is None else writer.reason or "",
            types=self._types(),
            databases=self._databases(),
            halted_partitions={} if writer is None else writer.halted_partitions,
            parts=self._parts.all(),
            locations=locations,
        )

    def _types(self) -> tuple[TypeFigures, ...]:
        hour, locations, writer = self._hour, self.totals.locations, self._writer
        lags = {} if writer is None else writer.types
        names = hour.names((ACCEPTED, LANDED, PARKED)) | locations.open_by_name.keys() | lags.keys()
        names |= self._of_writers.names("landed")
        states = _states(locations.holds)
        result = []
        for name in sorted(name for name in names if name and not name.startswith("(")):
            landed, lag = hour.rate("writer", (LANDED, name)), lags.get(name)
            state = "landing" if landed else "waiting" if lag and lag.lag_events else "idle"
            result.append(
                TypeFigures(
                    name=name,
                    accepted=hour.rate("gateway", (ACCEPTED, name)),
                    landed=landed,
                    accepted_line=hour.line("gateway", (ACCEPTED, name)),
                    parked=locations.open_by_name.get(name, 0),
                    lag_events=lag.lag_events if lag else 0,
                    lag_seconds=lag.lag_seconds if lag else None,
                    state=states.get(name, state),
                )
            )
        return tuple(result)

    def _databases(self) -> tuple[DatabaseFigures, ...]:
        return tuple(
            DatabaseFigures(
                name=name,
                landed=self._hour.rate("writer", (DATABASE, name)),
                landed_line=self._hour.line("writer", (DATABASE, name)),
                writer=each,
            )
            for name, each in sorted(self._writer.databases.items() if self._writer else ())
        )


async def _read_one(address: Address, of: type[Figures]) -> Figures | str:
    """Return the figures of a service, or why it has none."""
    return await read_page(address, "/figures", msgspec.json.Decoder(of).decode, PATIENCE_SECONDS)


def _name(kind: str, address: Address, current: Sequence[Address]) -> str:
    """Return the name of a service: its address only if there are several."""
    return kind if len(current) == 1 else f"{kind} {address.ip}:{address.port}"


def _summed(spreads: "deque[Spread]") -> Spread:
    result = Spread()
    for spread in spreads:
        result += spread
    return result


def _states(holds: Sequence[Hold]) -> dict[str, str]:
    """Return the state of each type with a hold; a table's hold has the table's name."""
    return {held.name: held.state for held in holds if held.kind == "type"}
