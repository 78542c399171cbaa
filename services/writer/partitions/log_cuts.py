"""Finds logs that were cut below their settled offsets.

Kafka may lose a log's end and assign the same offsets again: after a crash with one replica, an unclean
election, or a restored disk.  A new leader has a later leader epoch, and knows the offset at which the
epoch started.  So ranges are planned under the epoch of the leader that returned the end, and the latest
epoch is stored on `onramp.settled`.  If a later leader started below the settled offsets, the log was cut.
While the epoch stays the same there is no request (docs/adr, a log that goes back; the model's rules
`cut_seen`, `leader_kept` and `leader_first`).
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from services.writer.model import halt_reasons
from services.writer.model.next_offsets import Position
from services.writer.partitions.partition_halts import GenerationKey
from services.writer.partitions.plan_log import PlanLog
from shared.kafka_read.leaders import StableOffset
from shared.kafka_read.offsets import Partition


class Log(Protocol):
    """The requests to Kafka."""

    async def reached(self, epochs: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the start offsets of leaders later than `epochs`; below 0: the epoch is unknown."""


class LogCuts:
    """Compares logs with the settled offsets whenever a leader changes."""

    def __init__(
        self, log: Log, plan_log: PlanLog, highest_known: Callable[[Partition, Position], int]
    ) -> None:
        """`highest_known`: returns the highest offset that is known to be settled, waiting or planned."""
        self._log = log
        self._plan_log = plan_log
        self._highest_known = highest_known
        self._intact: dict[Partition, int] = {}
        #: Epochs that no leader knows, by partition.
        self._unknown: dict[Partition, int] = {}

    def recheck_all(self) -> None:
        """Compare every partition again at the next call, because the highest known offsets have risen."""
        self._intact.clear()

    async def find_cuts(
        self, positions: Mapping[Partition, Position], last_stable: dict[Partition, StableOffset]
    ) -> dict[Partition, int]:
        """Return the first lost offset of each partition whose log was cut below its settled offsets.

        Removes from `last_stable` the partitions that cannot be compared now, so that they are not planned.
        One request for each leader, and none while leaders stay.
        """
        unverified = {
            p: s for p, s in positions.items() if p in last_stable and self._needs_check(s, p, last_stable[p])
        }
        if not unverified:
            return {}
        known = {
            p: self._plan_log.leaders.get(_key(p, s), last_stable[p].epoch) for p, s in unverified.items()
        }
        reached = await self._log.reached(known)
        cuts = {}
        for p, position in unverified.items():
            if p not in reached:
                del last_stable[p]
            elif reached[p] < 0:
                # The extent of the loss is unknown, and settled events must not land again.
                cuts[p] = min(last_stable[p].offset, position.next_offset)
                self._unknown[p] = known[p]
            elif reached[p] < self._highest_known(p, position):
                cuts[p] = reached[p]
                self._unknown.pop(p, None)
            else:
                self._intact[p] = last_stable[p].epoch
        return cuts

    def reason(self, p: Partition, position: Position, cut: int) -> str:
        """Return the reason to show for a partition whose log was cut at `cut`."""
        if p in self._unknown:
            return halt_reasons.no_such_epoch(self._unknown[p], cut)
        return halt_reasons.cut(cut, self._highest_known(p, position))

    def leader_epochs(
        self, positions: Mapping[Partition, Position], last_stable: Mapping[Partition, StableOffset]
    ) -> dict[GenerationKey, int]:
        """Return leader epochs of intact partitions that are not on `onramp.settled` yet."""
        intact = {
            _key(p, s): last_stable[p].epoch for p, s in positions.items() if self._is_intact(p, last_stable)
        }
        return {
            generation: epoch
            for generation, epoch in intact.items()
            if epoch > self._plan_log.leaders.get(generation, -1)
        }

    def _is_intact(self, p: Partition, last_stable: Mapping[Partition, StableOffset]) -> bool:
        return p in last_stable and self._intact.get(p) == last_stable[p].epoch

    def _needs_check(self, position: Position, p: Partition, last_stable: StableOffset) -> bool:
        return self._intact.get(p) != last_stable.epoch or last_stable.offset < position.next_offset


def _key(p: Partition, position: Position) -> GenerationKey:
    return position.topic_id, p.number
