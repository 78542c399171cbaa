"""Facts and newest records of event topics, for operators."""

import heapq
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, LogRecord
from shared import wire
from shared.kafka_security import Brokers

_RATE_SECONDS: Final = 60
#: Maximum bytes of records that one request holds: a thousand large events would be a gigabyte.
_MAX_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One topic.  `retention_ms` -1: unlimited; counts exclude partitions without a leader."""

    topic: str
    partitions: int
    replicas: int
    retention_ms: int
    #: Records in Kafka: the difference of end and first offset, holes included.
    events: int
    #: Records per second over the last minute.
    rate: float
    #: Records that the writer has not settled yet.
    lag: int
    leaderless: int
    #: Bytes of one replica; None unless brokers report every partition.
    bytes: int | None

    @classmethod
    def of(
        cls,
        name: str,
        spans: Mapping[Source, tuple[int, int]],
        *,
        replicas: Mapping[int, int],
        settings: Mapping[str, str],
        settled: Mapping[Source, int],
        sizes: Mapping[int, int],
        rate: float,
    ) -> Self:
        """Return the facts of a topic, whose partitions with a leader have these offsets."""
        return cls(
            topic=name,
            partitions=len(replicas),
            replicas=min(replicas.values(), default=0),
            retention_ms=int(settings.get("retention.ms", "-1")),
            events=sum(end - first for first, end in spans.values()),
            rate=round(rate, 2),
            lag=sum(max(end - max(settled.get(s, 0), first), 0) for s, (first, end) in spans.items()),
            leaderless=len(replicas) - len(spans),
            bytes=_sum_of(sizes, len(replicas)),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return asdict(self)


#: Selects topics from the sorted list of names.
Pick = Callable[[list[str]], list[str]]


def is_own(topic: str) -> bool:
    """Return whether the topic is Kafka's or Onramp's own."""
    return topic.startswith(("__", "onramp."))


async def facts(brokers: Brokers, pick: Pick = list) -> list[TopicFacts]:
    """Return the topics that are neither Kafka's nor Onramp's own. Raises `InfrastructureError`."""
    async with KafkaLogs(brokers) as logs:
        replicas = await logs.replicas()
        names = pick(sorted(t for t in replicas if not is_own(t)))
        spans = await logs.spans(names)
        settings = await logs.settings(names)
        settled = await logs.group_offsets()
        sizes = await logs.sizes()
        before = await logs.offsets_at(spans, int((time.time() - _RATE_SECONDS) * 1000))
    found = []
    for name in names:
        own = {s: span for s, span in spans.items() if s.topic == name}
        found.append(
            TopicFacts.of(
                name,
                own,
                replicas=replicas[name],
                settings=settings.get(name, {}),
                settled=settled,
                sizes=sizes.get(name, {}),
                rate=sum(end - before.get(s, end) for s, (_, end) in own.items()) / _RATE_SECONDS,
            )
        )
    return found


def _sum_of(sizes: Mapping[int, int], partitions: int) -> int | None:
    return sum(sizes.values()) if len(sizes) == partitions else None


class NewestRecords:
    """The newest of the records that were added: at most `last`, and `max_bytes` of keys and values."""

    def __init__(self, last: int, max_bytes: int = _MAX_BYTES) -> None:
        self._last = last
        self._max_bytes = max_bytes
        self._bytes = 0
        self._heap: list[tuple[tuple[int, object, int], LogRecord]] = []

    def add(self, record: LogRecord) -> None:
        """Add a record, and remove the oldest ones above the limits; the newest remains at any size."""
        heapq.heappush(self._heap, (_age(record), record))
        self._bytes += _size(record)
        while len(self._heap) > self._last or (self._bytes > self._max_bytes and len(self._heap) > 1):
            _, oldest = heapq.heappop(self._heap)
            self._bytes -= _size(oldest)

    def by_time(self) -> list[LogRecord]:
        """Return the records, the oldest first."""
        return [record for _, record in sorted(self._heap)]


async def newest(brokers: Brokers, topic: str, last: int) -> list[LogRecord] | None:
    """Return at most the `last` newest records of all partitions, by time; None without such a topic.

    Fewer are returned if these have more than 32 MiB.
    Raises `InfrastructureError`.
    """
    async with KafkaLogs(brokers) as logs:
        named = (await logs.named_topics(topic)).get(topic)
        if named is None:
            return None
        led = {Source(topic, number): broker for number, broker in named.leaders.items() if broker >= 0}
        spans = {
            source: (max(end - last, first), end)
            for source, (first, end) in (await logs.positions(led)).items()
        }
        records = NewestRecords(last)
        async for record in logs.read(spans):  # of many partitions
            records.add(record)
    return records.by_time()


def _age(record: LogRecord) -> tuple[int, object, int]:
    return record.timestamp, record.source, record.offset


def _size(record: LogRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def topic_of(name: str) -> str:
    """Return the topic of a topic's or an event's name."""
    return wire.topic_of(name) if wire.EVENT_NAME.fullmatch(name) else name
