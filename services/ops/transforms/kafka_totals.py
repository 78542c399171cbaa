"""The totals and the lag of transforms, from the records that their transactions write."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from services.ops.findings import Source
from shared import wire
from shared.transform_totals import TotalsRecord

#: The counts of a transform that are shown.
COUNTS: Final = ("emitted", "dropped", "parked", "filtered", "outputs", "deaths")


@dataclass(frozen=True, slots=True)
class PartitionTotals:
    """The position of a transform in a source partition, and its counts since the first position."""

    source: Source
    next: int
    lag: int
    counts: Mapping[str, int]

    def as_dict(self, lanes: int) -> dict[str, Any]:
        """Return it for display; replays belong to lane 0."""
        lane = 0 if self.source.topic == wire.TRANSFORM_REPLAYS else self.source.partition % lanes
        return {"lane": lane, **self.source._asdict(), "next": self.next, "lag": self.lag, **self.counts}


@dataclass(slots=True)
class TransformTotals:
    """The counts of a transform since its first deploy, and its lag; None if it has no position.

    `partitions`: of the present topics.  `counts` also has earlier topics of their names.
    """

    counts: Counter[str] = field(default_factory=Counter)
    partitions: list[PartitionTotals] = field(default_factory=list)

    @property
    def lag(self) -> int | None:
        """Return the sum of the partitions."""
        return sum(each.lag for each in self.partitions) if self.partitions else None

    def as_dict(self, lanes: int) -> dict[str, Any]:
        """Return it for display."""
        return {
            "lag": self.lag,
            **{name: self.counts[name] for name in COUNTS},
            "partitions": [each.as_dict(lanes) for each in sorted(self.partitions, key=lambda p: p.source)],
        }


def by_transform(
    records: Iterable[TotalsRecord], topic_ids: Mapping[str, str], spans: Mapping[Source, tuple[int, int]]
) -> dict[str, TransformTotals]:
    """Return the totals by transform; `spans`: first and end offset of each present source partition."""
    found: dict[str, TransformTotals] = {}
    for record in records:
        of_transform = found.setdefault(record.transform, TransformTotals())
        counts = _counts(record)
        of_transform.counts.update(counts)
        source, position = Source(*record.partition), record.position
        if topic_ids.get(source.topic) == position.totals.topic_id and source in spans:
            lag = max(spans[source][1] - position.next, 0)
            of_transform.partitions.append(PartitionTotals(source, position.next, lag, counts))
    return found


def _counts(record: TotalsRecord) -> dict[str, int]:
    counts = asdict(record.position.totals)
    return {name: counts[name] for name in COUNTS}
