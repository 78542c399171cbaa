"""Detects topics that gained partitions: their keys may have moved."""

import logging
from collections.abc import Set as AbstractSet

from shared.kafka_read.offsets import Partition

log = logging.getLogger(__name__)


class GrownTopics:
    """The partitions of the last poll."""

    def __init__(self) -> None:
        self._known: AbstractSet[Partition] = frozenset()

    def update(self, existing: AbstractSet[Partition]) -> None:
        """Log each topic that gained partitions, once."""
        new = existing - self._known
        grown = {p.topic for p in new} & {p.topic for p in existing - new}
        self._known = existing
        for topic in sorted(grown):
            log.warning(
                "a topic gained partitions: keys may have moved, so events before and after the change "
                "are not ordered",
                extra={"topic": topic, "new": sorted(p.number for p in new if p.topic == topic)},
            )
