"""Finds the offsets that Kafka holds of a time window, outside of any consumer group."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aiokafka.errors import KafkaError

from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_read.any_broker import AnyBroker
from shared.kafka_read.leaders import Leaders
from shared.kafka_read.offsets import Partition, Range, share
from shared.kafka_security import Brokers

#: Maximum wait for the metadata of a new topic, and for elections.
_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 0.1


class Window(NamedTuple):
    """A window: records since a time (seconds since 1970), or the last records of each topic."""

    since: float | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRanges:
    """The ranges of a window, and the partitions for which Kafka holds only a part of the window."""

    ranges: list[Range] = field(default_factory=list)
    #: Partitions whose log begins in the window after a deletion by retention.
    cut: list[Partition] = field(default_factory=list)
    leaderless: list[Partition] = field(default_factory=list)


async def ranges_in(brokers: Brokers, is_read: Callable[[str], bool], window: Window) -> WindowRanges:
    """Return the ranges of `window` that Kafka holds of the topics for which `is_read` is true.

    Raise `InfrastructureError` if Kafka cannot be reached.
    """
    try:
        async with AsyncExitStack() as stack:
            admin, leaders = AnyBroker(brokers), Leaders(brokers)
            stack.push_async_callback(admin.close)
            await admin.start()
            stack.push_async_callback(leaders.stop)
            await leaders.start()
            topics = await admin.describe_topics()
            partitions = {
                Partition(t["topic"], p["partition"])
                for t in topics
                if not t["is_internal"] and is_read(t["topic"])
                for p in t["partitions"]
            }
            return await _ranges_in(leaders, await admin.topic_ids(), partitions, window)
    except (KafkaError, OSError, TimeoutError) as e:
        raise InfrastructureError(
            KAFKA_UNAVAILABLE, f"Kafka at {brokers} cannot be read: {type(e).__name__}"
        ) from None


async def _ranges_in(
    leaders: Leaders, topic_ids: Mapping[str, str], partitions: Collection[Partition], window: Window
) -> WindowRanges:
    if not partitions:
        return WindowRanges()
    await leaders.follow({p.topic for p in partitions})
    spans = await _spans(leaders, partitions)
    if window.since is None:
        starts = _last(spans, window.last or 0)
    else:
        since = await leaders.since(spans, window.since)
        starts = {p: spans[p][1] if at is None else at for p, at in since.items()}
    ranges = [
        Range(topic_ids[p.topic], p, start, spans[p][1])
        for p, start in sorted(starts.items())
        if start < spans[p][1] and p.topic in topic_ids
    ]
    wanted = window.last or 0
    few = {t for t, n in _events(spans).items() if window.since is None and n < wanted}
    cut = [
        r.partition
        for r in ranges
        if 0 < r.start == spans[r.partition][0] and (window.since is not None or r.partition.topic in few)
    ]
    return WindowRanges(ranges=ranges, cut=cut, leaderless=sorted(set(partitions) - starts.keys()))


async def _spans(leaders: Leaders, partitions: Collection[Partition]) -> dict[Partition, tuple[int, int]]:
    """Return the first offset and the end of each partition; partitions without an answer are missing."""
    deadline = time.monotonic() + _SECONDS
    while True:
        first = await leaders.beginning_offsets(partitions)
        last_stable = await leaders.last_stable_offsets(partitions, patient=False)
        spans = {p: (first[p], last_stable[p].offset) for p in first.keys() & last_stable.keys()}
        if len(spans) == len(set(partitions)) or time.monotonic() > deadline:
            return spans
        await asyncio.sleep(_AGAIN_SECONDS)


def _last(spans: Mapping[Partition, tuple[int, int]], count: int) -> dict[Partition, int]:
    """Return the start of the last `count` offsets of each topic, divided among its partitions."""
    by_topic: dict[str, dict[Partition, tuple[int, int]]] = defaultdict(dict)
    for p, span in spans.items():
        by_topic[p.topic][p] = span
    starts = {p: end for p, (_, end) in spans.items()}
    for of_topic in by_topic.values():
        for p, (first, end) in share(of_topic, count).items():
            starts[p] -= end - first
    return starts


def _events(spans: Mapping[Partition, tuple[int, int]]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for p, (first, end) in spans.items():
        counts[p.topic] += end - first
    return counts
