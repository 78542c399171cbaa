"""The event topics of Kafka, read every 15 seconds in the background: a page opens no client.

The totals need the offsets more often, and the new entries of the settled log.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from services.ops.operate.topics import TopicFacts, is_own
from services.ops.settled.reader import SettledReader
from shared import wire
from shared.kafka_security import Brokers

#: Seconds between readings of leaders and topics, and of settings and sizes, which are large.
TOPICS_SECONDS: Final = 15.0
_SETTINGS_SECONDS: Final = 60.0
_RATE_SECONDS: Final = 60.0
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
        self._leaders: Mapping[str, Mapping[int, int]] = {}
        self._replicas: Mapping[str, Mapping[int, int]] = {}
        self._leaders_at = -TOPICS_SECONDS
        self._settings: Mapping[str, Mapping[str, str]] = {}
        self._sizes: Mapping[str, Mapping[int, int]] = {}
        self._settings_at = -_SETTINGS_SECONDS
        #: (monotonic seconds, end offsets) of the last minute.
        self._ends: deque[tuple[float, dict[Source, int]]] = deque()

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
        if any(source.topic not in self._leaders for source in known):
            self._leaders_at = -TOPICS_SECONDS
        await self._refresh(logs)
        leaders = {
            Source(topic, number): broker
            for topic, partitions in self._leaders.items()
            if not is_own(topic) or topic in _OWN
            for number, broker in partitions.items()
        }
        led = {source: broker for source, broker in leaders.items() if broker >= 0}
        spans = await logs.positions(led)
        if spans.keys() != led.keys():  # they moved: their leaders are read before the next reading
            self._leaders_at = -TOPICS_SECONDS
        self._remember({source: end for source, (_, end) in spans.items()})
        await self._settled.follow(logs, {s: span for s, span in spans.items() if s.topic == wire.SETTLED})
        return spans, frozenset(leaders.keys() - spans.keys())

    async def facts(
        self, spans: Mapping[Source, tuple[int, int]], group: Mapping[Source, int]
    ) -> tuple[TopicFacts, ...]:
        """Return the event topics as of `spans`; settings and sizes are at most a minute old."""
        logs = await self._opened()
        names = sorted(topic for topic in self._replicas if not is_own(topic))
        if time.monotonic() >= self._settings_at + _SETTINGS_SECONDS or set(names) - self._settings.keys():
            self._settings_at = time.monotonic()
            self._settings = await logs.settings(names)
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

    async def _refresh(self, logs: KafkaLogs) -> None:
        if time.monotonic() >= self._leaders_at + TOPICS_SECONDS:
            self._leaders_at = time.monotonic()
            self._leaders, self._replicas = await logs.leaders_and_replicas()

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
