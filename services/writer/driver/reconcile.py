"""Reconciles, between two batches and under any load, state that other programs may have changed.

That is: the group's offsets, outboxes that are not empty, restored ledgers, the settings of Onramp's own
topics, and databases that an operator has retired.
"""

import logging
from typing import Final

from services.writer.driver.context import Parts, check_fenced
from services.writer.model.interval_timer import Every
from services.writer.model.next_offsets import Committed
from shared.errors import OWN_TOPIC_UNSAFE

log = logging.getLogger(__name__)

#: Groups without members expire after `offsets.retention.minutes`, seven days by default.
_RECOMMIT_SECONDS: Final = 24 * 3600.0


class Reconciler:
    """Called between two batches, when every position is settled; reconciles every `seconds`.

    The next call checks each database that did not answer the collector.
    """

    def __init__(self, parts: Parts, seconds: float) -> None:
        self._parts = parts
        self._every = Every(seconds)
        self._recommit_all = Every(_RECOMMIT_SECONDS)

    async def tick(self) -> None:
        """Commit rewound offsets, relay outboxes, compare ledgers, check topics and retire, when due.

        The model's rules `recommit` and `idle_compare`.  Raises `InfrastructureError` (FENCED).
        """
        await self._parts.databases.compare_doubted()
        if not self._every.is_due():
            return
        await check_fenced(self._parts)
        await self._check_own_topics()
        await self._recommit()
        if await self._parts.retire.tick():
            self._parts.status.update_unknown_databases(self._parts.databases.unknown())
        await self._parts.databases.relay(self._parts.databases.landing())
        await self._parts.databases.compare()
        self._every.restart()

    async def _check_own_topics(self) -> None:
        """Show and log unsafe settings and continue: stopping would not save a record that expires."""
        warnings = await self._parts.cluster.own_topics.check()
        if warnings is None:
            return
        self._parts.status.warning = "; ".join(warnings)
        for warning in warnings:
            log.error(
                "a topic of Onramp's own may lose records",
                extra={"code": OWN_TOPIC_UNSAFE.code, "reason": warning},
            )

    async def _recommit(self) -> None:
        next_offsets = {p: s.next_offset for p, s in self._parts.databases.positions.items()}
        group = await self._parts.cluster.group_offsets_now()
        if group is None:
            return
        generations = self._parts.cluster.generations
        rewound = {
            p: o
            for p, o in next_offsets.items()
            if p in group and group[p] != Committed(o, generations.get(p, ""))
        }
        daily = next_offsets if self._recommit_all.is_due() else {}
        if put_back := rewound | daily:
            await self._parts.cluster.commit(put_back)
            self._recommit_all.restart()
