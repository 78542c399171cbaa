"""The content of the compacted topic `onramp.lake`: the plan, routes, positions and starts of tables.

Only the driver that holds the transactional id appends, and it plans a batch after the last one was settled.
So there is one plan: the ranges of the current batch, and those that an earlier batch could not finish.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import msgspec
import orjson

from services.lake.routes.lake_routes import LakeRoutes
from shared.kafka_read.offsets import Partition, Range
from shared.lake.lake_topic import PositionKey, parse_position, position_entry
from shared.lake.transactions import TablePosition
from shared.parse_errors import UNREADABLE

#: A record of the topic; without a value compaction removes it.
Entry = tuple[bytes, bytes | None]

_PLAN: Final = "plan"
_ROUTES: Final = "routes"
_START: Final = "start"


class PlannedRange(NamedTuple):
    """A range that a batch has begun, and the digest of its routes."""

    range: Range
    digest: str


_decode_plan: Final = msgspec.json.Decoder(list[tuple[str, str, int, int, int, str]]).decode
_decode_start: Final = msgspec.json.Decoder(int).decode


@dataclass(slots=True)
class LakeLog:
    """The present content; `apply` adds entries, the `…_entries` methods return new ones."""

    plan: tuple[PlannedRange, ...] = ()
    routes: dict[str, LakeRoutes] = field(default_factory=dict)
    positions: dict[PositionKey, TablePosition] = field(default_factory=dict)
    #: The first offset that a table takes of a partition.
    starts: dict[PositionKey, int] = field(default_factory=dict)

    def apply(self, entries: Iterable[Entry]) -> None:
        """Apply entries that Kafka has stored."""
        for key, value in entries:
            self.read(key, value)

    def read(self, key: bytes | None, value: bytes | None) -> bool:
        """Apply a record; return False for a record that Onramp has not written."""
        try:
            self._read(key or b"", value)
        except UNREADABLE:
            return False
        return True

    def _read(self, key: bytes, value: bytes | None) -> None:
        kind, _, rest = key.decode().partition("/")
        if kind == _PLAN:
            self.plan = tuple(
                PlannedRange(Range(i, Partition(t, n), start, end), digest)
                for i, t, n, start, end, digest in _decode_plan(value or b"[]")
            )
        elif kind == _ROUTES:
            if value is None:
                self.routes.pop(rest, None)
            else:
                self.routes[rest] = LakeRoutes.from_json(value)
        elif kind == _START:
            table, topic, topic_id, number = rest.split("/")
            start_key = PositionKey(table, topic, topic_id, int(number))
            if value is None:
                self.starts.pop(start_key, None)
            else:
                self.starts[start_key] = _decode_start(value)
        elif value is not None and (position := parse_position(key, value)) is not None:
            self.positions[position[0]] = position[1]

    def unfinished(self, next_offsets: Mapping[Partition, tuple[str, int]]) -> list[PlannedRange]:
        """Return the planned ranges that are not settled, from the next offset of their partition on.

        `next_offsets`: topic id and offset.  Ranges of an earlier topic generation are over.
        """
        left = []
        for planned in self.plan:
            topic_id, at = next_offsets.get(planned.range.partition, ("", 0))
            if planned.range.topic_id == topic_id and planned.range.start <= at < planned.range.end:
                left.append(PlannedRange(replace(planned.range, start=at), planned.digest))
        return left

    def plan_entries(
        self, ranges: Sequence[Range], routes: LakeRoutes, carried: Sequence[PlannedRange]
    ) -> list[Entry]:
        """Return the entries that record the begin of `ranges` under `routes`.

        `carried`: unfinished ranges outside this batch.  Routes that no range needs are removed.
        """
        planned = [*(PlannedRange(r, routes.digest) for r in ranges), *carried]
        value = [
            (r.topic_id, r.partition.topic, r.partition.number, r.start, r.end, digest)
            for r, digest in planned
        ]
        entries: list[Entry] = []
        if routes.digest not in self.routes:
            entries.append((f"{_ROUTES}/{routes.digest}".encode(), routes.as_json()))
        needed = {digest for _, digest in planned}
        entries += [(f"{_ROUTES}/{digest}".encode(), None) for digest in self.routes if digest not in needed]
        return [*entries, (_PLAN.encode(), orjson.dumps(value))]

    def position_entries(self, positions: Mapping[PositionKey, TablePosition]) -> list[Entry]:
        """Return the entries of positions that differ from the known ones."""
        return [
            position_entry(key, position)
            for key, position in positions.items()
            if self.positions.get(key) != position
        ]

    @staticmethod
    def start_entries(starts: Mapping[PositionKey, int | None]) -> list[Entry]:
        """Return the entries of the first offsets of tables; None removes one."""
        return [
            ("/".join((_START, *map(str, key))).encode(), None if start is None else orjson.dumps(start))
            for key, start in starts.items()
        ]
