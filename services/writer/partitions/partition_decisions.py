"""Records halted partitions on `onramp.settled`, and reads the operator's decisions from there.

The records are on Kafka, which is available wherever a partition is: no database is shared by all, and
the writer's port is for probes.  Without a halt nothing is read.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from services.writer.kafka.cluster import Cluster
from services.writer.model.interval_timer import Every
from services.writer.partitions.partition_halts import ACCEPT, DECISION, Entry
from services.writer.partitions.plan_log import PlanLog
from shared import wire
from shared.kafka_read.offsets import Partition

#: Seconds between two readings of decisions.
_POLL_SECONDS: Final = 2.0
_ONLY: Final = 0


class PartitionDecisions:
    """The operator's decisions about halted partitions."""

    def __init__(
        self, log: Cluster, plan_log: PlanLog, record: Callable[[Iterable[Entry]], Awaitable[None]]
    ) -> None:
        self._log = log
        self._halts = plan_log.halts
        self._record = record
        self._read_to = plan_log.read_to
        self._poll = Every(_POLL_SECONDS, at_once=True)

    async def accepted(self, halted: Mapping[Partition, str]) -> list[Partition]:
        """Return the `halted` partitions (with reasons) that an operator resumes; record each halt once."""
        if not halted:
            return []
        if new := [entry for p, reason in halted.items() for entry in self._halts.halt_entries(p, reason)]:
            await self._record(new)
        if self._poll.is_due():
            await self._read_decisions()
            self._poll.restart()
        return [p for p in halted if self._halts.decision(p) == ACCEPT]

    async def _read_decisions(self) -> None:
        async for record in self._log.log(wire.SETTLED, {_ONLY: self._read_to}):
            self._read_to = record.offset + 1
            kind, *of = (record.key or b"").decode(errors="replace").split("/")
            if kind == DECISION:
                self._halts.apply_decision(of, record.value or b"")
