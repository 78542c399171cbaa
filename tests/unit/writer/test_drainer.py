"""Which events on the topic a marker counts."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

import orjson

from services.writer.batching.row_rates import RateLimiter
from services.writer.databases.diverted_index import DivertedIndex
from services.writer.databases.drain import Drainer
from services.writer.kafka.producer import RecordMetadata
from services.writer.park.diverted_topic import HEADER, RangeMarker
from services.writer.postgres.database import Database
from services.writer.settle.event_type_pauses import PausePolicy
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_security import Brokers
from tests.fixtures.writer import TOPIC_ID

P = Partition("events.order_placed", 0)
DB = Database("db", "")


class Log:
    """The topic's partition, as the driver reads it."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.index = DivertedIndex()

    def events(self, *offsets: int) -> int:
        """Divert the events at these source offsets; return the offset of the first."""
        for offset in offsets:
            self._add(
                {"kind": "event", "database": DB.name, "topic": P.topic, "partition": 0, "offset": offset}
            )
        return len(self.records) - len(offsets)

    def mark(self, start: int, end: int, count: int, first: int, digest: str = "known") -> None:
        marker = RangeMarker(DB.name, Range(TOPIC_ID, P, start, end), count=count, first=first, digest=digest)
        at = self._add(orjson.loads(dict(marker.as_record().headers)[HEADER]))
        self.index.add(marker, RecordMetadata(0, at), 0.0)

    def _add(self, head: Mapping[str, Any]) -> int:
        at = len(self.records)
        headers = [(HEADER, orjson.dumps(head))]
        self.records.append(SimpleNamespace(partition=0, offset=at, value=b"{}", headers=headers))
        return at

    async def log(self, _: str, since: Mapping[int, int]) -> AsyncIterator[Any]:
        for record in self.records[max(since[0], 0) :]:
            yield record

    def incomplete_markers(self) -> list[tuple[int, int, int]]:
        """Start, end and new count of the events that cannot drain."""
        drainer = Drainer(
            self,  # type: ignore[arg-type]
            self.index,
            RateLimiter({}),
            epoch=1,
            brokers=Brokers(""),
            pause_policy=PausePolicy(),
            on_reports=lambda _: None,
        )
        known: Any = {"known": object()}
        found = asyncio.run(drainer.incomplete_markers(DB, known))
        return [(m.range.start, m.range.end, m.count) for m in found]


def test_marker_with_all_its_events_is_not_incomplete() -> None:
    log = Log()
    first = log.events(3, 4, 6)
    log.mark(0, 10, 3, first)
    log.mark(10, 20, 0, -1)
    assert log.incomplete_markers() == []


def test_incomplete_marker_counts_its_remaining_events_and_its_neighbours_are_unaffected() -> None:
    log = Log()
    log.mark(0, 5, 2, log.events(1))
    log.mark(5, 9, 1, log.events(7))
    log.mark(9, 12, 2, log.events(9, 10), digest="nobody")
    assert log.incomplete_markers() == [(0, 5, 1), (9, 12, 2)]


def test_events_of_an_older_marker_of_the_same_range_do_not_count_for_the_newer_marker() -> None:
    """A replay by narrower routes diverts less; a neighbour has the topic read from before that."""
    log = Log()
    log.mark(0, 2, 1, log.events(1))
    log.mark(2, 9, 4, log.events(2, 3, 4, 5))
    log.mark(2, 9, 2, log.events(3, 5))
    log.mark(9, 12, 1, log.events(11))
    assert log.incomplete_markers() == []


def test_a_range_of_which_nothing_is_left_is_empty_whatever_stood_there_before() -> None:
    log = Log()
    log.mark(0, 2, 1, log.events(1))
    log.mark(2, 9, 2, log.events(2, 3))
    log.mark(2, 9, 0, -1)
    assert log.incomplete_markers() == []
