"""Offsets that no database counts, as `onramp.settled` had them at earlier offsets.

An entry is exact at its own offset and up to the next entry, so the count at a ledger is that of the last
entry at or below it, once the writer's group has passed the ledger.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from functools import partial
from operator import attrgetter
from typing import Final

import msgspec

from services.ops.audit.settled_log import Totals
from shared.parse_errors import UNREADABLE

#: Maximum entries of one partition: a ledger that is behind by more has no counts.
_MAX_ENTRIES: Final = 100
_BY_OFFSET: Final = attrgetter("next_offset")
_new: Final = partial(deque[Totals], maxlen=_MAX_ENTRIES)


class TotalsHistory:
    """The newest totals of each partition, in the order of the topic."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], deque[Totals]] = defaultdict(_new)

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one entry; other entries than totals are skipped."""
        kind, *rest = (key or b"").decode(errors="replace").split("/")
        if kind != "totals":
            return
        try:
            self._entries[rest[0], int(rest[1])].append(msgspec.json.decode(value or b"", type=Totals))
        except UNREADABLE:
            return  # the settled log counts it as foreign

    def at(self, topic_id: str, partition: int, next_offset: int) -> Totals | None:
        """Return the counts below `next_offset`, or None if only later ones are left."""
        entries = sorted(self._entries.get((topic_id, partition), ()), key=_BY_OFFSET)
        if not entries:
            return Totals()
        index = bisect_right(entries, next_offset, key=_BY_OFFSET)
        return entries[index - 1] if index else None
