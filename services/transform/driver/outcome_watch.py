"""Counts the outcomes in new totals, for the metrics and for the rule that pauses a transform."""

import time
from collections.abc import Mapping
from typing import Final

from services.transform.driver.pause_policy import Counts, PausePolicy
from services.transform.observe.metrics import OUTCOMES, TransformMetrics
from shared.kafka_read.offsets import Partition
from shared.transform_totals import Position

_NAMES: Final = (*OUTCOMES, "outputs", "deaths")


class OutcomeWatch:
    """The outcomes of transforms since this process started."""

    def __init__(self, metrics: TransformMetrics) -> None:
        self._metrics = metrics
        self._policies: dict[str, PausePolicy] = {}
        self._counted: dict[str, dict[tuple[Partition, str], Position]] = {}

    def begin(self, positions: Mapping[str, Mapping[Partition, Position]]) -> None:
        """Treat earlier totals as counted."""
        for name, each in positions.items():
            self._counted[name] = {(p, position.totals.topic_id): position for p, position in each.items()}

    def add(self, name: str, positions: Mapping[Partition, Position]) -> str | None:
        """Count the new outcomes in `positions`; return the reason to pause the transform, if any."""
        counted = self._counted.setdefault(name, {})
        counts = dict.fromkeys(_NAMES, 0)
        for p, position in positions.items():
            before = counted.get((p, position.totals.topic_id))
            if before is position:
                continue
            for each in _NAMES:
                earlier = getattr(before.totals, each) if before else 0
                counts[each] += max(getattr(position.totals, each) - earlier, 0)
            counted[p, position.totals.topic_id] = position
        self._metrics.count(name, counts)
        events = counts["emitted"] + counts["dropped"] + counts["parked"]
        policy = self._policies.setdefault(name, PausePolicy())
        return policy.add(Counts(events, counts["parked"], counts["deaths"]), time.monotonic())

    def reset(self, name: str) -> None:
        """Forget recent outcomes for the pause rule."""
        self._policies.pop(name, None)


def sums(positions: Mapping[Partition, Position]) -> dict[str, int]:
    """Return the totals of all partitions together."""
    names = (*_NAMES, "skipped")
    return {name: sum(getattr(each.totals, name) for each in positions.values()) for name in names}
