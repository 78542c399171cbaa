"""Says on `onramp.settled` which partitions are halted, and hears there what a person answers.

On Kafka, because it is what is at hand wherever a partition is: no database is everybody's, and the
writer's port is for probes.  Without a halt nothing is read.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from services.writer.kafka.cluster import Cluster
from services.writer.model.offsets import Partition
from services.writer.partitions.partition_halts import ACCEPT, DECISION, Entry
from services.writer.partitions.plan_log import PlanLog
from shared import wire

#: How often a person's word is looked for.
_ASK_SECONDS: Final = 2.0
_ONLY: Final = 0


class PartitionDecisions:
    """What a person says of halted partitions."""

    def __init__(
        self, log: Cluster, plan_log: PlanLog, record: Callable[[Iterable[Entry]], Awaitable[None]]
    ) -> None:
        self._log = log
        self._halts = plan_log.halts
        self._record = record
        self._read_to = plan_log.read_to
        self._ask_at = 0.0

    async def accepted(self, halted: Mapping[Partition, str]) -> list[Partition]:
        """Those of `halted` (and why) that a person wants to go on; each halt is said once."""
        if not halted:
            return []
        if new := [entry for p, reason in halted.items() for entry in self._halts.halt_entries(p, reason)]:
            await self._record(new)
        if time.monotonic() >= self._ask_at:
            await self._read_decisions()
            self._ask_at = time.monotonic() + _ASK_SECONDS
        return [p for p in halted if self._halts.decision(p) == ACCEPT]

    async def _read_decisions(self) -> None:
        async for record in self._log.log(wire.SETTLED, {_ONLY: self._read_to}):
            self._read_to = record.offset + 1
            kind, *of = (record.key or b"").decode(errors="replace").split("/")
            if kind == DECISION:
                self._halts.apply_decision(of, record.value or b"")
