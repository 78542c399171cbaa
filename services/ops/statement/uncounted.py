"""Offsets that no database counts, at the offset of each database's ledger, from `onramp.settled`.

An entry is exact at its own offset and up to the next entry, so the count at a ledger is that of the last
entry at or below it, once the writer's group has passed the ledger.
"""

from bisect import bisect_right
from collections import defaultdict
from operator import attrgetter
from typing import Final

import msgspec

from services.ops.audit.settled_log import SettledLog, Totals
from services.ops.statement.reading import TopicReading, Uncounted
from shared.parse_errors import UNREADABLE

_BY_OFFSET: Final = attrgetter("next_offset")


class UncountedLog:
    """The entries of `onramp.settled`, with all totals that Kafka still has."""

    def __init__(self) -> None:
        self.settled = SettledLog()
        self._history: dict[tuple[str, int], list[Totals]] = defaultdict(list)

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one entry; other entries than the writer's are skipped."""
        self.settled.apply(key, value)
        kind, *rest = (key or b"").decode(errors="replace").split("/")
        if kind != "totals":
            return
        try:
            self._history[rest[0], int(rest[1])].append(msgspec.json.decode(value or b"", type=Totals))
        except UNREADABLE:
            return  # counted as foreign above

    def at(self, topic_id: str, partition: int, next_offset: int) -> Uncounted | None:
        """Return the counts below `next_offset`, or None if only later ones are left."""
        history = sorted(self._history.get((topic_id, partition), ()), key=_BY_OFFSET)
        if not history:
            return Uncounted()
        index = bisect_right(history, next_offset, key=_BY_OFFSET)
        if not index:
            return None
        found = history[index - 1]
        return Uncounted(found.filtered, found.unroutable, found.holes)

    def complete(self, database: str, topic_id: str, reading: TopicReading) -> None:
        """Add the first offsets of `database` to a reading, and the counts at its ledger."""
        total: Uncounted | None = Uncounted()
        for partition, next_offset in reading.next_offsets.items():
            first = self.settled.baselines.get((topic_id, partition), {}).get(database)
            if first is not None:
                reading.first_offsets[partition] = first
            counts = self.at(topic_id, partition, next_offset)
            total = total + counts if total is not None and counts is not None else None
        reading.uncounted = total
