"""Unsettled offsets on Kafka: their number by topic, and when Kafka deletes the oldest.

Kafka is the buffer while no database is up, limited by a topic's retention.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from services.ops.operate.topics import RETENTION
from services.ops.times import as_moment
from shared import wire

_HOUR_MS: Final = 3_600_000
_FOR_EVER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """One topic's offsets after the group's.  `oldest_ms`: timestamp of the first, None if unknown."""

    topic: str
    offsets: int
    oldest_ms: int | None
    #: None without a retention by time, or without a known oldest record.
    hours: float | None
    #: Whether Kafka also deletes by size, at an unknown time.
    by_size: bool

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        oldest = None if self.oldest_ms is None else as_moment(self.oldest_ms)
        return {
            "topic": self.topic,
            "offsets": self.offsets,
            "oldest": None if oldest is None else oldest.isoformat(),
            "deleted_in_hours": None if self.hours is None else round(self.hours, 1),
            "deleted_by_size": self.by_size,
        }


async def unsettled(logs: KafkaLogs) -> list[Unsettled]:
    """Return the topics, the one with the earliest deletion first.  Raises `InfrastructureError`."""
    group = await logs.group_offsets()
    topics = {source.topic for source in group} | {
        topic for topic in await logs.topics() if topic.startswith(wire.EVENT_TOPIC_PREFIX)
    }
    left = behind(await logs.spans(sorted(topics)), group)
    oldest = await oldest_times(logs, {source: at for source, (at, _) in left.items()})
    settings = await logs.settings(sorted({source.topic for source in left}), *RETENTION)
    return by_topic(left, oldest, settings)


def behind(
    spans: Mapping[Source, tuple[int, int]], group: Mapping[Source, int]
) -> dict[Source, tuple[int, int]]:
    """Return the unsettled offsets (first, end) of the partitions that have any."""
    found = {}
    for source, (first, end) in spans.items():
        at = max(group.get(source, first), first)
        if at < end:
            found[source] = at, end
    return found


async def oldest_times(logs: KafkaLogs, at: Mapping[Source, int]) -> dict[Source, int]:
    """Return the timestamp (ms) of the record at an offset of each partition; a hole there hides it."""
    return {
        record.source: record.timestamp
        async for record in logs.read({source: (offset, offset + 1) for source, offset in at.items()})
    }


def by_topic(
    left: Mapping[Source, tuple[int, int]],
    oldest: Mapping[Source, int],
    settings: Mapping[str, Mapping[str, str]],
) -> list[Unsettled]:
    """Return the topics of unsettled offsets, the one with the earliest deletion first."""
    offsets: dict[str, int] = defaultdict(int)
    times: dict[str, list[int]] = defaultdict(list)
    for source, (at, end) in left.items():
        offsets[source.topic] += end - at
        times[source.topic] += [oldest[source]] if source in oldest else []
    found = [
        judged(topic, n, min(times[topic], default=None), settings.get(topic, {}))
        for topic, n in sorted(offsets.items())
    ]
    return sorted(found, key=lambda each: (each.hours is None, each.hours or 0.0))


def judged(topic: str, offsets: int, oldest_ms: int | None, settings: Mapping[str, str]) -> Unsettled:
    """Return the topic with the time at which Kafka deletes its oldest record, by its settings."""
    keeps = int(settings.get("retention.ms", _FOR_EVER))
    by_size = int(settings.get("retention.bytes", _FOR_EVER)) != _FOR_EVER
    hours = None
    if oldest_ms is not None and keeps != _FOR_EVER:
        hours = max((oldest_ms + keeps - time.time() * 1000) / _HOUR_MS, 0.0)
    return Unsettled(topic=topic, offsets=offsets, oldest_ms=oldest_ms, hours=hours, by_size=by_size)
