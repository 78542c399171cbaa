"""The compacted topic `onramp.settled`: state that a successor needs and that no database stores.

The topic has plans (the ranges that were started, and their routes), the routes themselves, the baselines
of databases, and the totals of events without a destination.  A writer reads its single partition to
the end when it starts; afterwards the writer maintains a copy of its own and appends.

Invariant: there is one plan per writer, not one per partition.  A batch is planned only after the
group's offsets of the last one are committed, so only a writer's last plan can be unfinished
(docs/adr, settling; the model's rules `plan_pinned` and `settled_per_epoch`).
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import msgspec
import orjson

from services.writer.model.next_offsets import Position
from services.writer.model.routes import Routes
from services.writer.partitions.partition_halts import Entry, GenerationKey, PartitionHalts
from services.writer.partitions.retirements import Retirements
from shared.kafka_read.offsets import Partition, Range
from shared.parse_errors import UNREADABLE


class Totals(NamedTuple):
    """The totals of a partition that no database counts, up to `next_offset`.

    `filtered` and `unroutable` count events; `refused` counts records on `onramp.user_errors`,
    one for each rejected destination, also of events that land elsewhere. `holes` counts offsets without
    a record: transaction markers, and records that Kafka has compacted.
    """

    next_offset: int = 0
    filtered: int = 0
    unroutable: int = 0
    refused: int = 0
    holes: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges that a writer started, and the digest of their routes."""

    ranges: tuple[Range, ...]
    digest: str
    #: The process that started the plan, and when (Unix seconds); 0: the process survived its failure.
    process: str = ""
    begun_at: float = 0.0


_PLAN: Final = "plan"
_PIN: Final = "pin"
_ROUTES: Final = "routes"
_BASELINE: Final = "baseline"
_TOTALS: Final = "totals"
_LEADER: Final = "leader"
_REGISTRY: Final = "registry"


class _Plan(msgspec.Struct):
    digest: str
    ranges: list[tuple[str, str, int, int, int]]
    process: str
    begun_at: float


_decode_plan: Final = msgspec.json.Decoder(_Plan).decode
_decode_baseline: Final = msgspec.json.Decoder(dict[str, int]).decode
_decode_totals: Final = msgspec.json.Decoder(Totals).decode
_decode_epoch: Final = msgspec.json.Decoder(int).decode


@dataclass(slots=True, kw_only=True)
class PlanLog:
    """The content of the topic.  `apply` applies an entry; the `…_entries` methods return entries."""

    plans: dict[int, Plan] = field(default_factory=dict)
    #: The id of the process that reads the topic and plans.
    process: str = ""
    #: Plans of quarantined ranges, which later plans of the same writer do not contain.
    set_aside: dict[tuple[str, int, int], Plan] = field(default_factory=dict)
    routes: dict[str, Routes] = field(default_factory=dict)
    baselines: dict[GenerationKey, dict[str, int]] = field(default_factory=dict)
    totals: dict[GenerationKey, Totals] = field(default_factory=dict)
    #: The last epoch of each process.
    _last_epochs: dict[str, int] = field(default_factory=dict)
    #: The planned ranges of each partition and topic generation, by the epoch of their writer.
    _planned: dict[tuple[Partition, str], dict[int, list[Range]]] = field(default_factory=dict)
    #: The latest leader epoch under which a topic generation was planned (the model's `leader_kept`).
    leaders: dict[GenerationKey, int] = field(default_factory=dict)
    #: Halted partitions, the decisions about them, and accepted topic generations.
    halts: PartitionHalts = field(default_factory=PartitionHalts)
    retirements: Retirements = field(default_factory=Retirements)
    #: The topics of registries that had a change: an empty one of them was lost.
    registries: set[str] = field(default_factory=set)
    #: The next offset to read of the topic; the writer applies its own entries when it appends them.
    read_to: int = 0

    def read(self, key: bytes | None, value: bytes | None) -> bool:
        """Apply a record of the topic; return False when Onramp has not written it."""
        try:
            self.apply((key or b"").decode(), value or b"")
        except UNREADABLE:
            return False
        return True

    def apply(self, key: str, value: bytes) -> None:
        """Apply one entry; among the totals of several epochs the furthest counts (`settled_per_epoch`).

        Raises one of `UNREADABLE` when it is not an entry.
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
            generation = (rest[0], int(rest[1]))
            self.totals[generation] = max(self.totals.get(generation, Totals()), _decode_totals(value))
        elif kind == _LEADER:
            generation = (rest[0], int(rest[1]))
            self.leaders[generation] = max(self.leaders.get(generation, 0), _decode_epoch(value))
        elif kind == _REGISTRY:
            self.registries.add(rest[0])
        elif not (
            self.halts.apply(kind, rest, value) or self.retirements.apply(kind, rest, value, self.baselines)
        ):
            raise ValueError(kind)

    def planned_ranges(self, partition: Partition, topic_id: str) -> list[tuple[Range, Routes]]:
        """Return the planned ranges of `partition` and their routes, the newest writer's first."""
        begun = self._planned_under(partition, topic_id)
        return [(r, self.routes[digest]) for r, digest in begun if digest in self.routes]

    def missing_routes(self, partition: Partition, position: Position) -> set[str]:
        """Return digests of unknown routes under which unfinished ranges of `partition` were planned."""
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
        """Replace a writer's plan with its next one."""
        last = self.plans.get(epoch)
        for r in last.ranges if last else ():
            self._planned[r.partition, r.topic_id].pop(epoch, None)
        self.plans[epoch] = plan
        self._last_epochs[plan.process] = max(epoch, self._last_epochs.get(plan.process, epoch))
        for r in plan.ranges:
            self._planned.setdefault((r.partition, r.topic_id), {}).setdefault(epoch, []).append(r)

    def unfinished_databases(self, partition: Partition, position: Position) -> set[str]:
        """Return the databases in which unfinished ranges of `partition` may have started to land.

        Databases that were not configured at that time have diverted events at most.
        """
        planned_ranges = self.planned_ranges(partition, position.topic_id)
        unfinished = [routes for r, routes in planned_ranges if position.next_offset < r.end]
        return {n for routes in unfinished for n in routes.reachable(partition.topic) - routes.unconfigured()}

    def plan_entries(self, epoch: int, ranges: Sequence[Range], routes: Routes) -> list[Entry]:
        """Return the entries that record that writer `epoch` starts `ranges` under `routes`."""
        plan = Plan(tuple(ranges), routes.digest, self.process, time.time())
        return [*self.routes_entries(routes), (f"{_PLAN}/{epoch}", _as_json(plan))]

    def survived_entries(self, epoch: int) -> list[Entry]:
        """Return the entry that records that writer `epoch` survived the failure of its last plan."""
        return [(f"{_PLAN}/{epoch}", _as_json(replace(self.plans[epoch], begun_at=0.0)))]

    def crashed_ranges(self, partition: Partition, position: Position) -> list[tuple[Range, float]]:
        """Return ranges at `position` in which other processes crashed, and their start times, newest first.

        Invariant: a process counts once, by its last plan.  A process that failed and continued, for
        example in an outage, has not crashed.
        """
        planned = self._planned.get((partition, position.topic_id), {})
        crashed = []
        for epoch, ranges in sorted(planned.items(), reverse=True):
            plan = self.plans[epoch]
            if plan.begun_at and plan.process != self.process and self._last_epochs[plan.process] == epoch:
                covering = [r for r in ranges if r.start <= position.next_offset < r.end]
                crashed += [(r, plan.begun_at) for r in covering[:1]]
        return crashed

    def set_aside_entries(self, epoch: int, r: Range, routes: Routes) -> list[Entry]:
        """Return the entry that retains the plan of `r` after later plans; none if it is recorded."""
        known = (p for (i, _, _), p in self.set_aside.items() if (i, p.digest) == (r.topic_id, routes.digest))
        if any(of.covers(r) for plan in known for of in plan.ranges):
            return []
        return [(f"{_PIN}/{r.topic_id}/{r.partition.number}/{epoch}", _as_json(Plan((r,), routes.digest)))]

    def routes_entries(self, routes: Routes) -> list[Entry]:
        """Return the entry that stores `routes` under their digest; none if they are stored."""
        known = routes.digest in self.routes
        return [] if known else [(f"{_ROUTES}/{routes.digest}", routes.as_json())]

    def registry_entries(self, topic: str) -> list[Entry]:
        """Return the entry that the registry of this topic has had a change; none if it is recorded."""
        return [] if topic in self.registries else [(f"{_REGISTRY}/{topic}", b"true")]

    def baseline_entries(
        self, first_offsets: Mapping[GenerationKey, int], databases: Iterable[str]
    ) -> list[Entry]:
        """Return the entries that give each of `databases` the offset as its baseline, if it has none.

        The model's rules `baseline_kept` and `sight_at_stand`.
        """
        names = set(databases)
        return [
            (
                f"{_BASELINE}/{i}/{n}",
                orjson.dumps(dict.fromkeys(names, offset) | self.baselines.get((i, n), {})),
            )
            for (i, n), offset in first_offsets.items()
            if names - self.baselines.get((i, n), {}).keys()
        ]

    def leader_entries(self, epochs: Mapping[GenerationKey, int]) -> list[Entry]:
        """Return the entries that record the leader epochs of all plans from now on."""
        return [(f"{_LEADER}/{i}/{n}", orjson.dumps(epoch)) for (i, n), epoch in epochs.items()]

    def totals_entries(self, epoch: int, range_: Range, counted: Totals) -> list[Entry]:
        """Return the entry that adds the counts of a settled range that no database has.

        No entry for a range that was counted before: a writer died between counting and the group's
        commit, and its successor repeats the same range.
        """
        generation = (range_.topic_id, range_.partition.number)
        before = self.totals.get(generation, Totals())
        if before.next_offset >= range_.end or not any(counted):
            return []
        after = Totals(
            range_.end,
            before.filtered + counted.filtered,
            before.unroutable + counted.unroutable,
            before.refused + counted.refused,
            before.holes + counted.holes,
        )
        return [(f"{_TOTALS}/{generation[0]}/{generation[1]}/{epoch}", orjson.dumps([*after]))]


def _plan(value: bytes) -> Plan:
    plan = _decode_plan(value)
    ranges = (Range(i, Partition(t, n), start, end) for i, t, n, start, end in plan.ranges)
    return Plan(tuple(ranges), plan.digest, plan.process, plan.begun_at)


def _as_json(plan: Plan) -> bytes:
    listed = [(r.topic_id, r.partition.topic, r.partition.number, r.start, r.end) for r in plan.ranges]
    by = {"process": plan.process, "begun_at": round(plan.begun_at, 3)}
    return orjson.dumps({"digest": plan.digest, "ranges": listed, **by})
