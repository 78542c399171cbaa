"""Ranges that dead writers planned and did not finish: planned first; ranges that kill writers, alone.

A record can kill the process that handles it: a crash in a library, or more memory than the machine
has.  A counter in memory is lost with the process; the plan on Kafka remains.  A range that three
consecutive processes planned and did not settle is isolated: it is planned alone, in turn with the
others.  If an isolated range kills the process too, it is halved until the record is found, with a pause
before each half (docs/adr, records that kill).
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from services.writer.batching.byte_sizes import ByteSizes, half, range_to_repeat
from services.writer.model import halt_reasons
from services.writer.model.next_offsets import Position
from services.writer.model.routes import Routes
from services.writer.partitions.plan_log import PlanLog
from shared.kafka_read.offsets import Partition, Range

Planned = tuple[list[Range], Routes]

#: Crashes before isolation: two may be due to a batch's size, which is then halved, and one to any cause.
_CRASHES_BEFORE_ISOLATION: Final = 3
#: Pauses before an isolated range that killed a process is halved, and before a single record is retried.
#: Each try may kill the process, and no event lands until the next process has started.
_HALVING_PAUSE_SECONDS: Final = 60.0
_RECORD_PAUSES_SECONDS: Final = (600.0, 3600.0)
#: Seconds between polls for an operator's decision during a pause.
_POLL_SECONDS: Final = 60.0


class Pause(NamedTuple):
    """The reason why a partition is paused, the operator's fix, and the next check's time (monotonic)."""

    reason: str
    fix: str
    retry_at: float


class UnfinishedRanges:
    """The planned but unfinished ranges of the adopted partitions, with the routes of their plans."""

    def __init__(self, plan_log: PlanLog, sizes: ByteSizes) -> None:
        self._plan_log = plan_log
        self._sizes = sizes
        self._planned: dict[Partition, list[tuple[Range, Routes]]] = {}
        #: The offset up to which each partition is isolated, and partitions that killed an isolated process.
        self._isolated_to: dict[Partition, int] = {}
        self._lethal: set[Partition] = set()
        self._others_had_a_turn = False

    def adopt(self, p: Partition, position: Position) -> None:
        """Load the planned ranges of `p`."""
        self._planned[p] = self._plan_log.planned_ranges(p, position.topic_id)
        crashed = self._plan_log.crashed_ranges(p, position)
        if len(crashed) >= _CRASHES_BEFORE_ISOLATION:
            self._isolated_to[p] = max(r.end for r, _ in crashed)
        if len(crashed) > _CRASHES_BEFORE_ISOLATION:
            self._lethal.add(p)

    def forget(self, p: Partition) -> None:
        """Remove a partition that is no longer read."""
        self._planned.pop(p, None)
        self._isolated_to.pop(p, None)
        self._lethal.discard(p)

    def pause(self, p: Partition, position: Position) -> Pause | None:
        """Return the pause of `p` after it killed a process in isolation; None if `p` may be read."""
        crashed = self._plan_log.crashed_ranges(p, position)
        if len(crashed) <= _CRASHES_BEFORE_ISOLATION:
            return None
        last, begun_at = crashed[0]
        tries = sum(len(r) == 1 for r, _ in crashed if r == last)
        pauses = _RECORD_PAUSES_SECONDS if tries else (_HALVING_PAUSE_SECONDS,)
        left = pauses[min(max(tries, 1), len(pauses)) - 1] - max(time.time() - begun_at, 0.0)
        if left <= 0:
            return None
        reason = halt_reasons.lethal(position.next_offset, last.end, len(crashed))
        fix = halt_reasons.lethal_fix(p, position.next_offset, last.end)
        return Pause(reason, fix, time.monotonic() + min(left, _POLL_SECONDS))

    def is_isolated(self, p: Partition, next_offset: int) -> bool:
        """Return whether the range of `p` at `next_offset` must be the only one of its batch."""
        return next_offset < self._isolated_to.get(p, next_offset)

    def plan(self, positions: Mapping[Partition, Position], ends: Mapping[Partition, int]) -> Planned | None:
        """Return planned ranges that are not settled, all with the same routes; large ranges are cut."""
        shared = [p for p in self._planned if not self.is_isolated(p, positions[p].next_offset)]
        unfinished = [each for p in shared if (each := self._unfinished(p, positions, ends))]
        return self._of_one_snapshot(unfinished) if unfinished else None

    def isolated_plan(
        self, positions: Mapping[Partition, Position], ends: Mapping[Partition, int], *, others: bool
    ) -> Planned | None:
        """Return a range that must be the only one of its batch; it alternates with `others`, if any.

        Invariant: partitions that killed no process in isolation come before those that did.
        """
        if others and not self._others_had_a_turn:
            self._others_had_a_turn = True
            return None
        for p in sorted(self._isolated_to, key=lambda p: p in self._lethal):
            isolated = self.is_isolated(p, positions[p].next_offset)
            if isolated and (unfinished := self._unfinished(p, positions, ends)):
                self._others_had_a_turn = False
                return self._of_one_snapshot([unfinished])
        return None

    def until_next_plan(self, p: Partition, start: int, end: int) -> tuple[int, int]:
        """Return `start`, and the smaller of `end` and the start of the next planned range."""
        return start, min([end, *(r.start for r, _ in self._planned[p] if r.start > start)])

    def _unfinished(
        self, p: Partition, positions: Mapping[Partition, Position], ends: Mapping[Partition, int]
    ) -> tuple[Range, Routes] | None:
        next_offset = positions[p].next_offset
        covering = [(r, routes) for r, routes in self._planned[p] if r.start <= next_offset < r.end]
        if not covering or next_offset >= ends.get(p, next_offset):
            return None
        newest, routes = covering[0]
        if p in self._lethal and self.is_isolated(p, next_offset):
            newest = half(replace(newest, start=next_offset))
        else:
            newest = range_to_repeat(next_offset, [r for r, _ in covering])
        return replace(newest, start=next_offset, end=min(newest.end, ends[p])), routes

    def _of_one_snapshot(self, unfinished: list[tuple[Range, Routes]]) -> Planned:
        routes = unfinished[0][1]
        return self._sizes.cut([r for r, under in unfinished if under == routes]), routes
