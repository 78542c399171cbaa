"""Says on `onramp.settled` which partitions are halted, and hears there what a person answers.

On Kafka, because it is what is at hand wherever a partition is: no database is everybody's, and the
writer's port is for probes.  Without a halt nothing is read.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from services.writer.kafka.cluster import Cluster
from services.writer.model.offsets import Partition
from services.writer.partitions.partition_halts import ACCEPT, WORD, Entry
from services.writer.partitions.plan_log import Settled
from shared import wire

#: How often a person's word is looked for.
_ASK_SECONDS: Final = 2.0
_ONLY: Final = 0


class Answers:
    """What a person says of halted partitions."""

    def __init__(
        self, log: Cluster, settled: Settled, record: Callable[[Iterable[Entry]], Awaitable[None]]
    ) -> None:
        self._log = log
        self._lines = settled.lines
        self._record = record
        self._heard = settled.upto
        self._ask_at = 0.0

    async def accepted(self, halted: Mapping[Partition, str]) -> list[Partition]:
        """Those of `halted` (and why) that a person wants to go on; each halt is said once."""
        if not halted:
            return []
        if new := [entry for p, why in halted.items() for entry in self._lines.halted(p, why)]:
            await self._record(new)
        if time.monotonic() >= self._ask_at:
            await self._hear()
            self._ask_at = time.monotonic() + _ASK_SECONDS
        return [p for p in halted if self._lines.answer(p) == ACCEPT]

    async def _hear(self) -> None:
        async for record in self._log.log(wire.SETTLED, {_ONLY: self._heard}):
            self._heard = record.offset + 1
            kind, *of = (record.key or b"").decode(errors="replace").split("/")
            if kind == WORD:
                self._lines.hear(of, record.value or b"")
