"""The event topics of Kafka, read every 15 seconds in the background: a page opens no client.

The totals need the offsets more often, and the new entries of the settled log.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from services.ops.operate.topics import RETENTION, TopicFacts, is_own
from services.ops.operate.unsettled_offsets import Unsettled, behind, by_topic, oldest_times
from services.ops.settled.reader import SettledReader
from shared import wire
from shared.kafka_security import Brokers

#: Seconds between readings of leaders and topics, and of settings and sizes, which are large.
TOPICS_SECONDS: Final = 15.0
_SETTINGS_SECONDS: Final = 60.0
#: Retention moves first offsets rarely, and a recreated topic has a lower end.
_FIRST_SECONDS: Final = 60.0
_RATE_SECONDS: Final = 60.0
#: Maximum partitions of a reading whose oldest unsettled record is read, those with the most offsets first.
_MAX_OLDEST: Final = 30
#: Onramp's own topics whose offsets are read.
_OWN: Final = frozenset({wire.USER_ERRORS, wire.SETTLED})


class KafkaReader:
    """One open client; `close` it after an error, and the next reading opens another one.

    Every method raises `InfrastructureError` when Kafka cannot be reached.
    """

    def __init__(self, brokers: Brokers, settled: SettledReader) -> None:
        self._brokers = brokers
        self._settled = settled
        self._logs: KafkaLogs | None = None
        self._topics: frozenset[str] = frozenset()
        #: The broker that leads each partition whose offsets are read; -1: none.
        self._leaders: Mapping[Source, int] = {}
        self._led: Mapping[Source, int] = {}
        self._firsts: dict[Source, int] = {}
        self._firsts_at = -_FIRST_SECONDS
        self._replicas: Mapping[str, Mapping[int, int]] = {}
        self._leaders_at = -TOPICS_SECONDS
        self._settings: Mapping[str, Mapping[str, str]] = {}
        self._sizes: Mapping[str, Mapping[int, int]] = {}
        self._settings_at = -_SETTINGS_SECONDS
        #: (monotonic seconds, end offsets) of the last minute.
        self._ends: deque[tuple[float, dict[Source, int]]] = deque()
        #: The offset and time (ms) of the oldest unsettled records that were read.
        self._oldest: dict[Source, tuple[int, int]] = {}

    async def close(self) -> None:
        """Close the client."""
        logs, self._logs = self._logs, None
        self._leaders_at = -TOPICS_SECONDS
        if logs is not None:
            await logs.__aexit__(None, None, None)

    async def group(self) -> dict[Source, int]:
        """Return the offsets of the writer's group."""
        return await (await self._opened()).group_offsets()

    async def spans(self, known: Iterable[Source]) -> tuple[dict[Source, tuple[int, int]], frozenset[Source]]:
        """Return first and end offsets of event topics and of some own topics, and the leaderless partitions.

        `known`: partitions that must be among them; a missing one causes a new request for the leaders.
        """
        logs = await self._opened()
        if not {source.topic for source in known} <= self._topics:
            self._leaders_at = -TOPICS_SECONDS
        await self._refresh(logs)
        ends = await logs.end_offsets(self._led)
        if ends.keys() != self._led.keys():  # they moved: their leaders are read before the next reading
            self._leaders_at = -TOPICS_SECONDS
        firsts = await self._first_offsets(logs, ends)
        spans = {source: (firsts[source], end) for source, end in ends.items() if source in firsts}
        self._remember(ends)
        await self._settled.follow(logs, {s: span for s, span in spans.items() if s.topic == wire.SETTLED})
        logs.stop_fetching()
        return spans, frozenset(self._leaders.keys() - spans.keys())

    async def facts(
        self, spans: Mapping[Source, tuple[int, int]], group: Mapping[Source, int]
    ) -> tuple[TopicFacts, ...]:
        """Return the event topics as of `spans`; settings and sizes are at most a minute old."""
        logs = await self._opened()
        names = sorted(topic for topic in self._replicas if not is_own(topic))
        if time.monotonic() >= self._settings_at + _SETTINGS_SECONDS or set(names) - self._settings.keys():
            self._settings_at = time.monotonic()
            self._settings = await logs.settings(names, *RETENTION)
            self._sizes = await logs.sizes()
        by_topic: dict[str, dict[Source, tuple[int, int]]] = {name: {} for name in names}
        for source, span in spans.items():
            if source.topic in by_topic:
                by_topic[source.topic][source] = span
        at, before = self._ends[0] if self._ends else (time.monotonic(), {})
        seconds = max(time.monotonic() - at, 1.0)
        return tuple(
            TopicFacts.of(
                name,
                by_topic[name],
                replicas=self._replicas[name],
                settings=self._settings.get(name, {}),
                settled=group,
                sizes=self._sizes.get(name, {}),
                rate=sum(end - before.get(s, end) for s, (_, end) in by_topic[name].items()) / seconds,
            )
            for name in names
        )

    async def unsettled(
        self, spans: Mapping[Source, tuple[int, int]], group: Mapping[Source, int]
    ) -> list[Unsettled]:
        """Return the unsettled offsets as of `spans`, of events and of changes.

        The oldest one of a partition was appended between two readings of the last minute, or it is read.
        """
        topics = {source.topic for source in group}
        left = {
            source: offsets
            for source, offsets in behind(spans, group).items()
            if source.topic in topics or source.topic.startswith(wire.EVENT_TOPIC_PREFIX)
        }
        known = {
            source: at for source, at in self._oldest.items() if source in left and at[0] == left[source][0]
        }
        recent = self._recent({source: at for source, (at, _) in left.items() if source not in known})
        unread = sorted(left.keys() - known.keys() - recent.keys(), key=lambda s: left[s][0] - left[s][1])
        wanted = {source: left[source][0] for source in unread[:_MAX_OLDEST]}
        if wanted:
            read = await oldest_times(await self._opened(), wanted)
            known |= {source: (wanted[source], time_ms) for source, time_ms in read.items()}
        self._oldest = known
        return by_topic(
            left, recent | {source: time_ms for source, (_, time_ms) in known.items()}, self._settings
        )

    def _recent(self, at: Mapping[Source, int]) -> dict[Source, int]:
        """Return the times (ms) of offsets of the last minute: each was appended after the reading before."""
        found: dict[Source, int] = {}
        now, now_ms = time.monotonic(), time.time() * 1000
        for seconds, ends in self._ends:
            for source, offset in at.items():
                if ends.get(source, offset + 1) <= offset:
                    found[source] = int(now_ms - (now - seconds) * 1000)
        return found

    async def _refresh(self, logs: KafkaLogs) -> None:
        if time.monotonic() >= self._leaders_at + TOPICS_SECONDS:
            self._leaders_at = time.monotonic()
            leaders, self._replicas = await logs.leaders_and_replicas()
            self._topics = frozenset(leaders)
            self._leaders = {
                Source(topic, number): broker
                for topic, partitions in leaders.items()
                if not is_own(topic) or topic in _OWN
                for number, broker in partitions.items()
            }
            self._led = {source: broker for source, broker in self._leaders.items() if broker >= 0}

    async def _first_offsets(self, logs: KafkaLogs, ends: Mapping[Source, int]) -> Mapping[Source, int]:
        """Return the first offsets, at most a minute old; at once for new partitions and recreated topics."""
        known, now = self._firsts, time.monotonic()
        is_known = ends.keys() <= known.keys() and all(known[source] <= end for source, end in ends.items())
        if not is_known or now >= self._firsts_at + _FIRST_SECONDS:
            self._firsts, self._firsts_at = await logs.first_offsets(self._led), now
        return self._firsts

    def _remember(self, ends: dict[Source, int]) -> None:
        now = time.monotonic()
        self._ends.append((now, ends))
        while len(self._ends) > 1 and self._ends[1][0] <= now - _RATE_SECONDS:
            self._ends.popleft()

    async def _opened(self) -> KafkaLogs:
        if self._logs is None:
            logs = KafkaLogs(self._brokers)
            await logs.__aenter__()
            self._logs = logs
        return self._logs
