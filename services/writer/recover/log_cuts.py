"""Whether a partition's log still is what was settled of it.

Kafka may lose a log's end and give the same offsets out again: a crash with one replica, an
unclean election, a disk of yesterday.  Whoever leads a partition anew does so under a later
leader epoch, and knows where that began.  So what is planned is planned under the epoch of the
leader that told the end, the latest of them is kept on `onramp.settled`, and where a later leader
began below what is settled the log was cut.  While the epoch stays the same nothing is asked
(docs/adr, a log that goes back).
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from services.writer.kafka.leaders import Tip
from services.writer.model import halt_reasons
from services.writer.model.next_offsets import Position
from services.writer.model.offsets import Partition
from services.writer.partitions.partition_halts import IncarnationKey
from services.writer.partitions.plan_log import PlanLog


class Log(Protocol):
    """What is asked of Kafka."""

    async def reached(self, epochs: Mapping[Partition, int]) -> dict[Partition, int]:
        """Where leaders later than those of `epochs` began to write; below 0: nobody knows that epoch."""


class LogCuts:
    """Compares logs with what is settled whenever a leader is new."""

    def __init__(self, log: Log, plan_log: PlanLog, furthest: Callable[[Partition, Position], int]) -> None:
        """`furthest`: the highest offset that anything knows to be settled, waiting or planned."""
        self._log = log
        self._plan_log = plan_log
        self._furthest = furthest
        self._whole: dict[Partition, int] = {}
        #: Epochs that no leader knows.
        self._unknown: dict[Partition, int] = {}

    def doubt(self) -> None:
        """More is known to be settled: compare everything again."""
        self._whole.clear()

    async def see(
        self, positions: Mapping[Partition, Position], tips: dict[Partition, Tip]
    ) -> dict[Partition, int]:
        """Up to where the log is what was settled, for each of `positions` that was cut below that.

        What cannot be told now leaves `tips`: it is not planned before it can.
        """
        doubted = {p: s for p, s in positions.items() if p in tips and self._is_doubted(s, p, tips[p])}
        if not doubted:
            return {}
        known = {p: self._plan_log.leaders.get(_key(p, s), tips[p].epoch) for p, s in doubted.items()}
        reached = await self._log.reached(known)
        cuts = {}
        for p, position in doubted.items():
            if p not in reached:
                del tips[p]
            elif reached[p] < 0:
                # What is lost cannot be told, and what is settled must not land again.
                cuts[p] = min(tips[p].offset, position.next_offset)
                self._unknown[p] = known[p]
            elif reached[p] < self._furthest(p, position):
                cuts[p] = reached[p]
                self._unknown.pop(p, None)
            else:
                self._whole[p] = tips[p].epoch
        return cuts

    def why(self, p: Partition, position: Position, cut: int) -> str:
        """What a person is told of a partition that `see` found cut there."""
        if p in self._unknown:
            return halt_reasons.no_such_epoch(self._unknown[p], cut)
        return halt_reasons.cut(cut, self._furthest(p, position))

    def led(
        self, positions: Mapping[Partition, Position], tips: Mapping[Partition, Tip]
    ) -> dict[IncarnationKey, int]:
        """Leader epochs that are not on `onramp.settled` yet, of what was found whole."""
        whole = {_key(p, s): tips[p].epoch for p, s in positions.items() if self._is_whole(p, tips)}
        return {
            incarnation: epoch
            for incarnation, epoch in whole.items()
            if epoch > self._plan_log.leaders.get(incarnation, -1)
        }

    def _is_whole(self, p: Partition, tips: Mapping[Partition, Tip]) -> bool:
        return p in tips and self._whole.get(p) == tips[p].epoch

    def _is_doubted(self, position: Position, p: Partition, tip: Tip) -> bool:
        return self._whole.get(p) != tip.epoch or tip.offset < position.next_offset


def _key(p: Partition, position: Position) -> IncarnationKey:
    return position.topic_id, p.number
