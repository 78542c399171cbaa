"""The totals and the lag of transforms, from the topic that their transactions write."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from shared import wire
from shared.kafka_security import Brokers
from shared.transform_totals import TotalsRecord

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
    async with KafkaLogs(brokers) as logs:
        last = {record.key: TotalsRecord.parse(record.value) async for record in logs.whole(wire.TRANSFORMED)}
        records = [each for each in last.values() if each is not None]
        topics = {each.partition.topic for each in records}
        ids, spans = await logs.topic_ids(), await logs.spans(topics)
    found: dict[str, TransformTotals] = {}
    for record in records:
        of_transform = found.setdefault(record.transform, TransformTotals())
        of_transform.counts.update(_counts(record))
        source = Source(*record.partition)
        is_current = ids.get(source.topic) == record.position.totals.topic_id
        if is_current and source in spans:
            events = max(spans[source][1] - record.position.next, 0)
            of_transform.lag = (of_transform.lag or 0) + events
    return found


def _counts(record: TotalsRecord) -> dict[str, int]:
    counts = asdict(record.position.totals)
    return {name: counts[name] for name in COUNTS}
