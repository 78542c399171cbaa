"""Facts of event topics, for operators."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from shared import wire
from shared.kafka_security import Brokers

_RATE_SECONDS: Final = 60
#: The settings that end a record's life.
RETENTION: Final = ("retention.ms", "retention.bytes")


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
    return topic.startswith(wire.OWN_TOPIC_PREFIXES)


async def facts(brokers: Brokers, pick: Pick = list) -> list[TopicFacts]:
    """Return the topics that are neither Kafka's nor Onramp's own. Raises `InfrastructureError`."""
    async with KafkaLogs(brokers) as logs:
        replicas = await logs.replicas()
        names = pick(sorted(t for t in replicas if not is_own(t)))
        spans = await logs.spans(names)
        settings = await logs.settings(names, *RETENTION)
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


def topic_of(name: str) -> str:
    """Return the topic of a topic's or an event's name."""
    return wire.topic_of(name) if wire.EVENT_NAME.fullmatch(name) else name
