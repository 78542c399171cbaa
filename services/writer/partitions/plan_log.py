"""The compacted topic `onramp.settled`: what a successor must know and no database can tell.

Plans (which range was begun under which routes), the routes themselves, the baselines of
databases, and the totals of events that had no destination.  One partition, read to its
end when a writer starts; afterwards the writer keeps its own copy and appends.

Plans are one record per writer, not one per partition: a batch is planned only after the
group's offsets of the last one are committed, so only a writer's last plan can be
unfinished (docs/adr, settling).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import orjson

from services.writer.model.next_offsets import Position
from services.writer.model.offsets import Partition, Range
from services.writer.model.routes import Routes
from services.writer.partitions.partition_halts import Entry, IncarnationKey, PartitionHalts
from shared.unreadable import UNREADABLE


class Totals(NamedTuple):
    """What no database counts, of one partition, up to `next_offset`.

    `filtered` and `unroutable` are events; `refused` are records on `onramp.user_errors`,
    one for each destination that was refused, also of events that land elsewhere.
    """

    next_offset: int = 0
    filtered: int = 0
    unroutable: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a writer began: its ranges and the digest of their routes."""

    ranges: tuple[Range, ...]
    digest: str


_PLAN: Final = "plan"
_PIN: Final = "pin"
_ROUTES: Final = "routes"
_BASELINE: Final = "baseline"
_TOTALS: Final = "totals"
_LEADER: Final = "leader"


class _Plan(msgspec.Struct):
    digest: str
    ranges: list[tuple[str, str, int, int, int]]


_decode_plan: Final = msgspec.json.Decoder(_Plan).decode
_decode_baseline: Final = msgspec.json.Decoder(dict[str, int]).decode
_decode_totals: Final = msgspec.json.Decoder(Totals).decode
_decode_epoch: Final = msgspec.json.Decoder(int).decode


@dataclass(slots=True)
class PlanLog:
    """What the topic says.  `apply` reads an entry; the other methods make entries."""

    plans: dict[int, Plan] = field(default_factory=dict)
    #: Ranges that were set aside: later plans of the same writer do not name them any more.
    set_aside: dict[tuple[str, int, int], Plan] = field(default_factory=dict)
    routes: dict[str, Routes] = field(default_factory=dict)
    baselines: dict[IncarnationKey, dict[str, int]] = field(default_factory=dict)
    totals: dict[IncarnationKey, Totals] = field(default_factory=dict)
    #: What the plans began of each life of a partition, by their writers.
    _planned: dict[tuple[Partition, str], dict[int, list[Range]]] = field(default_factory=dict)
    #: The latest leader epoch that a life was planned under.
    leaders: dict[IncarnationKey, int] = field(default_factory=dict)
    #: Halted partitions, what a person says of them, and the lives that they go on with.
    halts: PartitionHalts = field(default_factory=PartitionHalts)
    #: The topic was read up to here; what the writer itself appends is applied as it goes.
    read_to: int = 0

    def read(self, key: bytes | None, value: bytes | None) -> bool:
        """Take in a record of the topic; False: it is none of Onramp's."""
        try:
            self.apply((key or b"").decode(), value or b"")
        except UNREADABLE:
            return False
        return True

    def apply(self, key: str, value: bytes) -> None:
        """Take in one entry.  Of several epochs' totals the furthest counts.

        Raises one of `UNREADABLE`: it is no entry.
        """
        kind, *rest = key.split("/")
        if kind == _ROUTES:
            self.routes[rest[0]] = Routes.from_json(value)
        elif kind == _PLAN:
            self._replace_plan(int(rest[0]), _plan(value))
        elif kind == _PIN:
            self.set_aside[rest[0], int(rest[1]), int(rest[2])] = _plan(value)
        elif kind == _BASELINE:
            self.baselines[rest[0], int(rest[1])] = _decode_baseline(value)
        elif kind == _TOTALS:
            incarnation = (rest[0], int(rest[1]))
            self.totals[incarnation] = max(self.totals.get(incarnation, Totals()), _decode_totals(value))
        elif kind == _LEADER:
            incarnation = (rest[0], int(rest[1]))
            self.leaders[incarnation] = max(self.leaders.get(incarnation, 0), _decode_epoch(value))
        elif not self.halts.apply(kind, rest, value):
            raise ValueError(kind)

    def planned_ranges(self, partition: Partition, topic_id: str) -> list[tuple[Range, Routes]]:
        """Planned ranges of `partition`, the newest writer's first, with the routes they began with."""
        begun = self._planned_under(partition, topic_id)
        return [(r, self.routes[digest]) for r, digest in begun if digest in self.routes]

    def missing_routes(self, partition: Partition, position: Position) -> set[str]:
        """Digests of routes that nobody has, under which unfinished ranges of `partition` were begun."""
        begun = self._planned_under(partition, position.topic_id)
        return {d for r, d in begun if position.next_offset < r.end and d not in self.routes}

    def _planned_under(self, partition: Partition, topic_id: str) -> Iterator[tuple[Range, str]]:
        planned = self._planned.get((partition, topic_id), {})
        for epoch, ranges in sorted(planned.items(), reverse=True):
            yield from ((r, self.plans[epoch].digest) for r in ranges)
        for _, plan in sorted(self.set_aside.items(), reverse=True):
            for r in plan.ranges:
                if (r.partition, r.topic_id) == (partition, topic_id):
                    yield r, plan.digest

    def _replace_plan(self, epoch: int, plan: Plan) -> None:
        """Take in a writer's plan in place of its last one."""
        last = self.plans.get(epoch)
        for r in last.ranges if last else ():
            self._planned[r.partition, r.topic_id].pop(epoch, None)
        self.plans[epoch] = plan
        for r in plan.ranges:
            self._planned.setdefault((r.partition, r.topic_id), {}).setdefault(epoch, []).append(r)

    def unfinished_databases(self, partition: Partition, position: Position) -> set[str]:
        """Databases that what was planned of `partition` and is not finished may be for."""
        planned_ranges = self.planned_ranges(partition, position.topic_id)
        unfinished = [routes for r, routes in planned_ranges if position.next_offset < r.end]
        return {name for routes in unfinished for name in routes.reachable(partition.topic)}

    def plan_entries(self, epoch: int, ranges: Sequence[Range], routes: Routes) -> list[Entry]:
        """Entries that say: writer `epoch` begins `ranges` under `routes`."""
        return [*self.routes_entries(routes), (f"{_PLAN}/{epoch}", _as_json(ranges, routes))]

    def set_aside_entries(self, epoch: int, r: Range, routes: Routes) -> list[Entry]:
        """Entries that keep what `r` was begun with, whatever is planned next; none where that is kept."""
        known = (p for (i, _, _), p in self.set_aside.items() if (i, p.digest) == (r.topic_id, routes.digest))
        if any(of.covers(r) for plan in known for of in plan.ranges):
            return []
        return [(f"{_PIN}/{r.topic_id}/{r.partition.number}/{epoch}", _as_json([r], routes))]

    def routes_entries(self, routes: Routes) -> list[Entry]:
        """Entries that keep `routes` under their digest, unless it is there."""
        known = routes.digest in self.routes
        return [] if known else [(f"{_ROUTES}/{routes.digest}", routes.as_json())]

    def baseline_entries(
        self, first_offsets: Mapping[IncarnationKey, int], databases: Iterable[str]
    ) -> list[Entry]:
        """Entries that give each of `databases` a baseline (the offset) where it has none."""
        names = set(databases)
        return [
            (
                f"{_BASELINE}/{i}/{n}",
                orjson.dumps(dict.fromkeys(names, offset) | self.baselines.get((i, n), {})),
            )
            for (i, n), offset in first_offsets.items()
            if names - self.baselines.get((i, n), {}).keys()
        ]

    def leader_entries(self, epochs: Mapping[IncarnationKey, int]) -> list[Entry]:
        """Entries that say: what is planned of these lives from now on ends under these leaders."""
        return [(f"{_LEADER}/{i}/{n}", orjson.dumps(epoch)) for (i, n), epoch in epochs.items()]

    def totals_entries(self, epoch: int, range_: Range, counted: Totals) -> list[Entry]:
        """Entries that add what was `counted` in a settled range and no database counts.

        Nothing for a range that was counted before: a writer died between counting and the
        group's commit, and its successor repeats the same range.
        """
        incarnation = (range_.topic_id, range_.partition.number)
        before = self.totals.get(incarnation, Totals())
        if before.next_offset >= range_.end or not any(counted):
            return []
        after = Totals(
            range_.end,
            before.filtered + counted.filtered,
            before.unroutable + counted.unroutable,
            before.refused + counted.refused,
        )
        return [(f"{_TOTALS}/{incarnation[0]}/{incarnation[1]}/{epoch}", orjson.dumps([*after]))]


def _plan(value: bytes) -> Plan:
    plan = _decode_plan(value)
    ranges = (Range(i, Partition(t, n), start, end) for i, t, n, start, end in plan.ranges)
    return Plan(tuple(ranges), plan.digest)


def _as_json(ranges: Sequence[Range], routes: Routes) -> bytes:
    listed = [(r.topic_id, r.partition.topic, r.partition.number, r.start, r.end) for r in ranges]
    return orjson.dumps({"digest": routes.digest, "ranges": listed})
