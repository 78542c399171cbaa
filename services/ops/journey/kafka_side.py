"""Reads an event from Kafka: by its receipt, by its id from the newest record on, and on Onramp's topics.

Every read is bounded by time and names the topics that it needs: no request is for all topics of a cluster.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import orjson

from services.ops.findings import Source
from services.ops.journey.subject import Receipt
from services.ops.kafka_logs import KafkaLogs, LogRecord, no_leader
from services.ops.times import as_moment
from shared.kafka_topic_ids import NamedTopic
from shared.partitioner import partition_of

#: Maximum records that are read at once from all partitions, the newest first.
_CHUNK: Final = 4_000
_MIN_CHUNK: Final = 100
#: Maximum records of a search.
_MAX_RECORDS: Final = 200_000
#: Seconds by which a record's time may be ahead of its successor's on Onramp's topics.
_SKEW_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OnKafka:
    """Kafka's answer about a receipt.  `problem`: why there is none."""

    problem: str = ""
    topic_id: str | None = None
    #: The first offset and the end of the partition.
    span: tuple[int, int] | None = None
    record: LogRecord | None = None
    #: The writer group's offset: all events below are settled or diverted in each database.
    committed: int | None = None


class Extent(NamedTuple):
    """The searched part of a partition: its end, the lowest offset, its time, and whether that is all."""

    end: int
    offset: int
    at: datetime | None
    is_whole: bool


@dataclass(slots=True)
class Search:
    """The records that match, and the extent by partition."""

    records: list[LogRecord] = field(default_factory=list)
    extents: dict[Source, Extent] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Return whether nothing was left out."""
        return all(extent.is_whole for extent in self.extents.values())


async def read_receipt(logs: KafkaLogs, receipt: Receipt) -> OnKafka:
    """Return Kafka's answer about `receipt`.  Raises `InfrastructureError`."""
    source = receipt.source
    topics = await logs.named_topics(source.topic)
    topic = topics.get(source.topic)
    if topic is None or source.partition not in topic.leaders:
        return OnKafka(topic_id=topic and topic.topic_id)
    if topic.leaders[source.partition] < 0:
        return OnKafka(topic_id=topic.topic_id, problem=no_leader([source]))
    one = {source.topic: topic._replace(leaders={source.partition: topic.leaders[source.partition]})}
    span = (await logs.spans_of(one))[source]
    committed = (await logs.group_offsets(source)).get(source)
    record = None
    if span[0] <= receipt.offset < span[1]:
        async for each in logs.read({source: (receipt.offset, receipt.offset + 1)}):
            record = each
    return OnKafka(topic_id=topic.topic_id, span=span, record=record, committed=committed)


async def search_back(
    logs: KafkaLogs,
    topics: Mapping[str, NamedTopic],
    is_wanted: Callable[[LogRecord], bool],
    *,
    until: float,
    starts: Mapping[Source, int] | None = None,
) -> Search:
    """Return the records of `topics` that are wanted, the newest first, as far as time permits.

    `until`: of the monotonic clock.  `starts`: the offsets before which nothing is of interest.
    Raises `InfrastructureError`.
    """
    search = Search()
    spans = {
        source: (max(first, (starts or {}).get(source, first)), end)
        for source, (first, end) in (await logs.spans_of(topics)).items()
    }
    tops = {source: end for source, (first, end) in spans.items()}
    search.extents = {source: Extent(end, end, None, first >= end) for source, (first, end) in spans.items()}
    chunk, count = max(_CHUNK // max(len(spans), 1), _MIN_CHUNK), 0
    while left := {s: top for s, top in tops.items() if top > spans[s][0]}:
        parts = {s: (max(spans[s][0], top - chunk), top) for s, top in left.items()}
        matches, oldest = [], dict[Source, int]()
        async with aclosing(logs.read(parts)) as records:
            async for record in records:
                count += 1
                oldest.setdefault(record.source, record.timestamp)
                if is_wanted(record):
                    matches.append(record)
                if time.monotonic() >= until:
                    search.records += reversed(matches)
                    return search
        search.records += reversed(matches)
        for source, (first, _) in parts.items():
            at = as_moment(oldest[source]) if source in oldest else search.extents[source].at
            search.extents[source] = Extent(spans[source][1], first, at, first <= spans[source][0])
            tops[source] = first
        if count >= _MAX_RECORDS or time.monotonic() >= until:
            break
    return search


async def search_since(
    logs: KafkaLogs,
    topic: str,
    since_ms: int,
    is_wanted: Callable[[LogRecord], bool],
    *,
    until: float,
    consumed: Mapping[Source, int] | None = None,
) -> Search:
    """Return the records on `topic` from a time on that are wanted, as far as time permits.

    `consumed`: the offsets before which records are known.  Raises `InfrastructureError`.
    """
    topics = await logs.named_topics(topic)
    sources = [Source(topic, n) for each in topics.values() for n in each.leaders]
    starts = dict(consumed or {})
    if not starts:
        ends = {source: end for source, (_, end) in (await logs.spans_of(topics)).items()}
        at = await logs.offsets_at(sources, max(since_ms - _SKEW_MS, 0))
        starts = {source: at.get(source, end) for source, end in ends.items()}
    return await search_back(logs, topics, is_wanted, until=until, starts=starts)


def extents_as_text(extents: Iterable[tuple[Source, Extent]]) -> list[str]:
    """Return a sentence about each partition that was not searched whole, and one about all others."""
    sentences, whole = [], 0
    for source, extent in sorted(extents):
        if extent.is_whole:
            whole += 1
        elif extent.offset == extent.end:
            sentences.append(f"Kafka: {source} was not searched, for lack of time.")
        else:
            time_ = f", of {extent.at:%Y-%m-%d %H:%M:%S} UTC" if extent.at else ""
            sentences.append(f"Kafka: {source} was searched back to offset {extent.offset}{time_}.")
    if whole:
        noun = "1 partition was" if whole == 1 else f"{whole} partitions were"
        sentences.append(f"Kafka: {noun} searched to the oldest record.")
    return sentences


def has_id(id_: str, record: LogRecord) -> bool:
    """Return whether the record is of an event with this id."""
    value = record.value or b""
    if id_.encode() not in value:
        return False
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return False
    match document:
        case {"metadata": {"id": str(own)}}:
            return own == id_
    return False


def with_key(topic: NamedTopic, id_: str) -> NamedTopic:
    """Return the topic with the partition of a key alone."""
    if not topic.leaders:
        return topic
    number = partition_of(id_.encode(), len(topic.leaders))
    return topic._replace(leaders={n: leader for n, leader in topic.leaders.items() if n == number})
