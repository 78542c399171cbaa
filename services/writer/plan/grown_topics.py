"""Topics that have more partitions than at the last look: their keys may have moved."""

import logging
from collections.abc import Set as AbstractSet

from services.writer.model.offsets import Partition

log = logging.getLogger(__name__)


class GrownTopics:
    """What was there at the last look."""

    def __init__(self) -> None:
        self._there: AbstractSet[Partition] = frozenset()

    def see(self, there: AbstractSet[Partition]) -> None:
        """Say which topics grew, once."""
        new = there - self._there
        grown = {p.topic for p in new} & {p.topic for p in there - new}
        self._there = there
        for topic in sorted(grown):
            log.warning(
                "a topic has more partitions than before: keys may have moved, and between an event "
                "before the change and one after it their order is not kept",
                extra={"topic": topic, "new": sorted(p.number for p in new if p.topic == topic)},
            )
