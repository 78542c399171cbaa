"""Reads the `/status` of the lake service and of compaction in the background, for the page of the lake."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from services.admin.background_tasks import UntilStopped
from services.admin.figures.addresses import Addresses
from services.admin.figures.http_get import Address, read_page
from services.admin.figures.parts import Part, PartStates
from shared.lake.status import CompactionStatus, LakeServiceStatus, LakeTopic
from shared.registry.entries import Snapshot

POLL_SECONDS: Final = 5.0
_TIMEOUT_SECONDS: Final = 2.0
#: Batches begin every 15 seconds; events that are older than this are late.
LATE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class LakeRow:
    """A table of the lake; None is unknown, because a service does not answer."""

    table: str
    rows: int | None = None
    files: int | None = None
    small_files: int | None = None
    bytes: int | None = None
    lag_events: int | None = None
    behind_seconds: float | None = None
    last_compaction_at: datetime | None = None
    #: The reason why the table is halted, or its maintenance fails.
    halted: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class LakeReading:
    """The last statuses; a service that does not answer is shown with its last one, and is named."""

    is_configured: bool
    at: datetime | None = None
    tables: tuple[LakeRow, ...] = ()
    parts: tuple[Part, ...] = ()

    def down(self) -> tuple[Part, ...]:
        """Return the services that do not answer."""
        return tuple(part for part in self.parts if not part.is_up)

    @property
    def sentence(self) -> str:
        """Return the number of tables, their rows and the largest lag in words."""
        if not self.tables:
            return "no tables yet"
        rows = sum(row.rows or 0 for row in self.tables)
        seconds = max((row.behind_seconds or 0.0 for row in self.tables), default=0.0)
        noun = "table" if len(self.tables) == 1 else "tables"
        return f"{len(self.tables):,} {noun} with {rows:,} rows, at most {seconds:,.0f} s behind."

    @property
    def bad(self) -> tuple[LakeRow, ...]:
        """Return the tables that need an operator."""
        return tuple(row for row in self.tables if row.halted or row.error)

    @property
    def late(self) -> tuple[LakeRow, ...]:
        """Return the tables whose oldest event waits longer than usual."""
        return tuple(row for row in self.tables if (row.behind_seconds or 0) > LATE_SECONDS)


@dataclass(slots=True)
class _Last:
    service: LakeServiceStatus | None = None
    compaction: CompactionStatus | None = None
    kinds: dict[Address, str] = field(default_factory=dict)


class LakeWatch(UntilStopped):
    """Reads until stopped; `reading` is the last one."""

    def __init__(self, urls: Sequence[str], registry: Callable[[], Snapshot | None]) -> None:
        """`registry` returns the snapshot in force, which says which topic a table has."""
        super().__init__()
        self._addresses = Addresses(urls)
        self._registry = registry
        self._parts = PartStates()
        self._last = _Last()
        self._urls = urls
        self.reading = LakeReading(bool(urls))

    async def _go_on(self) -> None:
        while self._urls and not self.stopped:
            await self.read()
            await self.pause(POLL_SECONDS)

    async def read(self) -> None:
        """Read both services once."""
        current = await self._addresses.current()
        answers = await asyncio.gather(
            *(read_page(each, "/status", lake_status_of, _TIMEOUT_SECONDS) for each in current)
        )
        reasons = [(f"lake {url}", reason) for url, reason in self._addresses.unresolved.items()]
        last = self._last
        for address, answer in zip(current, answers, strict=True):
            if isinstance(answer, LakeServiceStatus):
                last.service, last.kinds[address] = answer, "the lake service"
            elif isinstance(answer, CompactionStatus):
                last.compaction, last.kinds[address] = answer, "the compaction of the lake"
            name = last.kinds.get(address, f"lake {address.ip}:{address.port}")
            reasons.append((name, answer if isinstance(answer, str) else ""))
        self._parts.update("lake", reasons)
        self.reading = LakeReading(
            is_configured=True,
            at=datetime.now(UTC),
            tables=rows_of(last.service, last.compaction, topics_of(self._registry())),
            parts=self._parts.all(),
        )


def lake_status_of(body: bytes) -> LakeServiceStatus | CompactionStatus:
    """Return the status in `body`.  Raise `msgspec.MsgspecError` if it is of neither service."""
    try:
        return msgspec.json.decode(body, type=CompactionStatus)
    except msgspec.ValidationError:
        return msgspec.json.decode(body, type=LakeServiceStatus)


def topics_of(registry: Snapshot | None) -> Mapping[str, str]:
    """Return the topic of each table that an event type names."""
    if registry is None:
        return {}
    return {table: registry.topic_of(name) for table, name in registry.lake_tables(is_all=False).items()}


def rows_of(
    service: LakeServiceStatus | None, compaction: CompactionStatus | None, topics: Mapping[str, str]
) -> tuple[LakeRow, ...]:
    """Return the tables that either service knows, in order."""
    landed, lags = (service.tables, service.topics) if service else ({}, {})
    maintained = compaction.maintained if compaction else {}
    rows = []
    for name in sorted(landed.keys() | maintained.keys()):
        lag: LakeTopic | None = lags.get(topics.get(name, f"events.{name}"))
        files, entry = maintained.get(name), landed.get(name)
        at = files.last_compaction_at if files else None
        rows.append(
            LakeRow(
                table=name,
                rows=files.rows if files else None,
                files=files.files if files else None,
                small_files=files.small_files if files else None,
                bytes=files.bytes if files else None,
                lag_events=lag.lag_events if lag else None,
                behind_seconds=lag.behind_seconds if lag else None,
                last_compaction_at=None if at is None else datetime.fromtimestamp(at, UTC),
                halted=entry.reason if entry else "",
                error=files.error if files else "",
            )
        )
    return tuple(rows)
