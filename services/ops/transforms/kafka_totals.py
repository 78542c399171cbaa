"""The totals and the lag of transforms, from the topic that their transactions write."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from shared import wire
from shared.kafka_security import Brokers

#: The counts of a transform that are shown.
COUNTS: Final = ("emitted", "dropped", "parked", "filtered", "outputs", "deaths")


@dataclass(slots=True)
class TransformTotals:
    """The counts of a transform since its first deploy, and its lag; None if it has no position."""

    counts: Counter[str] = field(default_factory=Counter)
    lag: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it for display."""
        return {"lag": self.lag, **{name: self.counts[name] for name in COUNTS}}


async def totals(brokers: Brokers) -> dict[str, TransformTotals]:
    """Return the totals by transform.  Raise `InfrastructureError`."""
    found: dict[str, TransformTotals] = {}
    positions: dict[str, dict[Source, tuple[str, int]]] = {}
    async with KafkaLogs(brokers) as logs:
        last: dict[bytes, bytes | None] = {}
        async for record in logs.whole(wire.TRANSFORMED):
            last[record.key or b""] = record.value
        for value in last.values():
            _add(value, found, positions)
        topics = {source.topic for each in positions.values() for source in each}
        ids, spans = await logs.topic_ids(), await logs.spans(topics)
    for name, of_transform in positions.items():
        lags = [
            max(spans[source][1] - next_offset, 0)
            for source, (topic_id, next_offset) in of_transform.items()
            if source in spans and ids.get(source.topic) == topic_id
        ]
        found[name].lag = sum(lags) if lags else None
    return found


def _add(
    value: bytes | None,
    found: dict[str, TransformTotals],
    positions: dict[str, dict[Source, tuple[str, int]]],
) -> None:
    """Add a record of totals; records of other clients are ignored."""
    try:
        document: Any = orjson.loads(value or b"")
        name, source = str(document["transform"]), Source(str(document["topic"]), int(document["partition"]))
        position = str(document["topic_id"]), int(document["next"])
        counts = {each: int(document.get(each, 0)) for each in COUNTS}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return
    found.setdefault(name, TransformTotals()).counts.update(counts)
    of_transform = positions.setdefault(name, {})
    if source not in of_transform or of_transform[source][1] <= position[1]:
        of_transform[source] = position
