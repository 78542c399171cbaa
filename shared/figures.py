"""The figures of `/figures`: what `onramp top` and the admin service read from the gateway and the writer.

A page of /metrics for 500 event types takes too long to parse every five seconds, and shows a new counter at
0 for a minute.  Figures are current, and reading them has no effect.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

#: The event type of the types above the bound.
OTHER: Final = "other"
#: The state of a writer that waits until another one has ended.
_STANDBY: Final = "standby"
#: The state of a database for which events wait, and which the writer's settings do not name.
STATE_NOT_CONFIGURED: Final = "not configured"
#: Maximum event types in one document.
MAX_TYPES: Final = 500


class Spread(msgspec.Struct, frozen=True):
    """A histogram: numbers of values by bucket; the last bucket, above all bounds, has no bound."""

    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()

    def __add__(self, other: "Spread") -> "Spread":
        """Return the values of both; those of the longer one if their bounds differ."""
        if self.bounds != other.bounds:
            return max(self, other, key=lambda each: len(each.bounds))
        return Spread(self.bounds, tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    def since(self, before: "Spread") -> "Spread":
        """Return the values that were added since `before`; all of them if the process restarted."""
        if self.bounds != before.bounds:
            return self
        grown = tuple(a - b for a, b in zip(self.counts, before.counts, strict=True))
        return self if any(n < 0 for n in grown) else Spread(self.bounds, grown)

    def p99(self) -> float | None:
        """Return the 99th percentile, interpolated within its bucket as Prometheus does; None without values.

        Above the last bound it is that bound.
        """
        total = sum(self.counts)
        if total <= 0:
            return None
        rank, below, lower = 0.99 * total, 0, 0.0
        for bound, count in zip((*self.bounds, math.inf), self.counts, strict=True):
            if count and below + count >= rank:
                return lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / count
            below, lower = below + count, bound if not math.isinf(bound) else lower
        return lower


class GatewayFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway's counts since it started, of all its workers."""

    #: Differs after each start.
    instance: str
    uptime_seconds: float
    #: (event type, outcome, events); an outcome is `accepted` or an error's code.
    events: list[tuple[str, str, int]] = []
    request_seconds: Spread = Spread()


class WriterType(msgspec.Struct, frozen=True):
    """The lag of an event type's topic: unsettled offsets, and the age of the oldest (seconds)."""

    lag_events: int
    lag_seconds: float | None = None


class WriterDatabase(msgspec.Struct, frozen=True, kw_only=True):
    """One database as the writer sees it."""

    state: str
    #: Start of that state (ISO 8601), as observed by this writer.
    since: str | None = None
    reason: str | None = None
    #: Waiting events, on Kafka and in the database, and the waiting time of the oldest (seconds).
    waiting_kafka: int = 0
    waiting_database: int = 0
    oldest_kafka_seconds: float = 0.0
    oldest_database_seconds: float = 0.0
    connections: int | None = None
    max_connections: int | None = None
    size_bytes: int | None = None
    outbox: int = 0
    read_at: float | None = None


class WriterFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A writer's figures; totals are those of the databases since the beginning, also after a restart."""

    instance: str
    uptime_seconds: float
    state: str
    reason: str | None = None
    #: (event type, database, outcome, events); a database that was not read yet is absent.
    events: list[tuple[str, str, str, int]] = []
    types: dict[str, WriterType] = {}
    databases: dict[str, WriterDatabase] = {}
    #: Each with `database`, `kind`, `name` and `state`.
    holds: list[dict[str, str]] = []
    halted_partitions: dict[str, str] = {}
    #: Time of the last reading of the lag (Unix seconds); 0 before.
    lag_read: float = 0.0
    #: From an event's receipt to the commit of its row, for events that landed without waiting.
    commit_seconds: Spread = Spread()


def bounded(names: Iterable[str], max_types: int = MAX_TYPES) -> Mapping[str, str]:
    """Return the label of each name: its own, or `other` for names after the first `max_types`."""
    return {name: name if n < max_types else OTHER for n, name in enumerate(dict.fromkeys(names))}


def summed(rows: Iterable[tuple[Sequence[str], int]]) -> list[tuple[Any, ...]]:
    """Return one row for each distinct key, with the sum of its numbers."""
    sums: Counter[tuple[str, ...]] = Counter()
    for key, n in rows:
        sums[tuple(key)] += n
    return [(*key, n) for key, n in sums.items()]


def gateway_growth(before: GatewayFigures, now: GatewayFigures) -> Counter[tuple[str, str]]:
    """Return the events between two readings of one gateway by (type, outcome); all after a restart."""
    start = {} if before.instance != now.instance else {(name, of): n for name, of, n in before.events}
    return Counter({(name, of): n - start.get((name, of), 0) for name, of, n in now.events})


def writer_growth(
    before: Mapping[tuple[str, str, str], int], now: Mapping[tuple[str, str, str], int]
) -> Counter[tuple[str, str, str]]:
    """Return the events between two readings by (type, database, outcome).

    The totals are the databases': they continue after the writer's restart.  A database that was not read
    before, or that was restored since, has no growth: its past is no rate.
    """
    read = {database for _, database, _ in before}
    return Counter({key: max(n - before.get(key, 0), 0) for key, n in now.items() if key[1] in read})


def writer_totals(figures: WriterFigures) -> dict[tuple[str, str, str], int]:
    """Return the totals by (type, database, outcome)."""
    return {(name, database, outcome): n for name, database, outcome, n in figures.events}


def landing_writer(writers: Iterable[WriterFigures]) -> WriterFigures | None:
    """Return the writer that lands events, else one on standby; None without writers."""
    return min(writers, key=lambda each: each.state == _STANDBY, default=None)
